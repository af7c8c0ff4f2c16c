"""What is out: by place, by lock, and who might be leaving."""

from __future__ import annotations

from emqproxy.locks.events import Place, Release, Renew, Sweep, Take, Write
from emqproxy.locks.flights import Flights
from tests.locks.history import JOB, QUEUE, job


def test_it_arrives_once_with_the_time_it_was_sent() -> None:
    flights = Flights()
    renew = Renew(Place(1, 1), QUEUE, JOB, b"A", 1000)
    flights.depart(renew, 50)
    assert len(flights) == 1
    assert flights.arrive(Place(1, 1)) == (renew, 50)
    assert flights.arrive(Place(1, 1)) is None
    assert len(flights) == 0


def test_parts_of_one_request_are_flights_of_their_own() -> None:
    flights = Flights()
    flights.depart(Renew(Place(1, 1, 0), QUEUE, JOB, b"A", 1000), 50)
    flights.depart(Renew(Place(1, 1, 1), QUEUE, job(7), b"B", 1000), 50)
    flights.arrive(Place(1, 1, 0))
    assert not flights.opened_before(JOB, 100)
    assert flights.opened_before(job(7), 100)


def test_only_what_was_sent_before_counts() -> None:
    flights = Flights()
    flights.depart(Renew(Place(1, 1), QUEUE, JOB, b"A", 1000), 50)
    assert not flights.opened_before(JOB, 50)
    assert flights.opened_before(JOB, 51)
    assert not flights.opened_before(job(7), 51)


def test_what_names_no_lock_stands_for_none() -> None:
    flights = Flights()
    flights.depart(Take(Place(1, 1), QUEUE, b"A", 1000), 50)
    flights.depart(Sweep(Place(1, 2), QUEUE), 50)
    assert not flights.opened_before(JOB, 100)
    assert flights.arrive(Place(1, 2)) is not None
    assert len(flights) == 1


def test_a_lock_without_flights_leaves_nothing_behind() -> None:
    flights = Flights()
    for request in range(100):
        flights.depart(Write(Place(1, request), QUEUE, job(request), b""), request)
        flights.arrive(Place(1, request))
    assert not flights._of_lock


def test_a_second_request_from_one_place_stands_for_the_first() -> None:
    flights = Flights()
    flights.depart(Renew(Place(1, 1), QUEUE, JOB, b"A", 1000), 50)
    flights.depart(Renew(Place(1, 1), QUEUE, job(7), b"A", 1000), 60)
    assert not flights.opened_before(JOB, 100)
    flights.arrive(Place(1, 1))
    assert not flights.opened_before(job(7), 100)


def test_a_release_may_have_run_before_only_on_another_connection() -> None:
    flights = Flights()
    flights.depart(Release(Place(1, 5), QUEUE, JOB, b"A"), 50)
    assert flights.releasing(JOB, b"A", conn=2, at=51)
    assert not flights.releasing(JOB, b"A", conn=1, at=51)
    assert not flights.releasing(JOB, b"A", conn=2, at=50)
    assert not flights.releasing(JOB, b"B", conn=2, at=51)
    assert not flights.releasing(job(7), b"A", conn=2, at=51)


def test_a_renewal_releases_nothing() -> None:
    flights = Flights()
    flights.depart(Renew(Place(1, 1), QUEUE, JOB, b"A", 1000), 50)
    assert not flights.releasing(JOB, b"A", conn=2, at=51)
