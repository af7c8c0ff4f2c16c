"""What is out, and what it bears on."""

from __future__ import annotations

import pytest

from emqproxy.locks.events import AnyIntent, Place, Queue, Renew, Sweep, Take, Wipe, Write
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
    assert flights.bearing_on(JOB, QUEUE, 100) == set()
    assert flights.bearing_on(job(7), QUEUE, 100)


def test_only_what_was_sent_before_counts() -> None:
    flights = Flights()
    flights.depart(Renew(Place(1, 1), QUEUE, JOB, b"A", 1000), 50)
    assert flights.bearing_on(JOB, QUEUE, 50) == set()
    assert flights.bearing_on(JOB, QUEUE, 51)
    assert flights.bearing_on(job(7), QUEUE, 51) == set()


@pytest.mark.parametrize("intent", [Take(Place(1, 1), QUEUE, b"A", 1000), Sweep(Place(1, 1), QUEUE)])
def test_a_pickup_or_a_sweep_bears_on_every_lock_of_its_queue_and_on_no_other(intent: AnyIntent) -> None:
    flights = Flights()
    flights.depart(intent, 50)
    assert flights.bearing_on(JOB, QUEUE, 51) == flights.bearing_on(job(7), QUEUE, 51) == {Place(1, 1)}
    assert flights.bearing_on(JOB, QUEUE, 50) == set()
    assert flights.bearing_on(JOB, Queue(1, QUEUE.prefix), 51) == set()
    assert flights.bearing_on(JOB, Queue(0, b"emq:mails:"), 51) == set()


def test_a_wipe_bears_on_everything() -> None:
    flights = Flights()
    flights.depart(Wipe(Place(1, 1), Queue(3, b"")), 50)
    assert flights.bearing_on(JOB, QUEUE, 51) == {Place(1, 1)}
    assert flights.bearing_on(JOB, QUEUE, 50) == set()


def test_all_that_bear_on_a_lock() -> None:
    flights = Flights()
    flights.depart(Renew(Place(1, 1), QUEUE, JOB, b"A", 1000), 10)
    flights.depart(Renew(Place(1, 2), QUEUE, job(7), b"A", 1000), 20)
    flights.depart(Take(Place(2, 1), QUEUE, b"B", 1000), 30)
    flights.depart(Sweep(Place(3, 1), QUEUE), 40)
    assert flights.bearing_on(JOB, QUEUE, 40) == {Place(1, 1), Place(2, 1)}
    flights.arrive(Place(2, 1))
    assert flights.bearing_on(JOB, QUEUE, 100) == {Place(1, 1), Place(3, 1)}


def test_a_lock_without_flights_leaves_nothing_behind() -> None:
    flights = Flights()
    for request in range(100):
        flights.depart(Write(Place(1, request), QUEUE, job(request), b""), request)
        flights.arrive(Place(1, request))
    assert not flights._over


def test_a_second_request_from_one_place_stands_for_the_first() -> None:
    flights = Flights()
    flights.depart(Renew(Place(1, 1), QUEUE, JOB, b"A", 1000), 50)
    flights.depart(Renew(Place(1, 1), QUEUE, job(7), b"A", 1000), 60)
    assert flights.bearing_on(JOB, QUEUE, 100) == set()
    flights.arrive(Place(1, 1))
    assert flights.bearing_on(job(7), QUEUE, 100) == set()


def test_what_is_out_over_a_lock_and_over_its_queue() -> None:
    flights = Flights()
    renew, take = Renew(Place(1, 1), QUEUE, JOB, b"A", 1000), Take(Place(2, 1), QUEUE, b"B", 1000)
    other, wipe = Renew(Place(1, 2), QUEUE, job(7), b"A", 1000), Wipe(Place(3, 1), Queue(0, b""))
    for opened, intent in enumerate((renew, take, other, wipe)):
        flights.depart(intent, opened)
    assert list(flights.over(JOB, QUEUE)) == [(renew, 0), (take, 1), (wipe, 3)]
    assert list(flights.of_queue(QUEUE)) == [take]
    flights.arrive(take.place)
    assert list(flights.over(job(7), QUEUE)) == [(other, 2), (wipe, 3)]
    assert list(flights.of_queue(QUEUE)) == []
