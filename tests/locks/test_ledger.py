"""The ledger's stories, as rows: (ms, what) → what it says. A lock of 10,000 ms is certainly gone after 10,011."""

from __future__ import annotations

from typing import Any

import pytest

from emqproxy.locks.events import (
    Granted,
    Nothing,
    Place,
    Release,
    Renew,
    Renewed,
    Take,
)
from emqproxy.locks.verdicts import End, Finding, Grade
from tests.locks.history import GONE, JOB, MS, QUEUE, TTL, History, job, span

A, B = b"A", b"B"

Row = tuple[Any, ...]
STORIES: dict[str, tuple[list[Row], list[str], list[str]]] = {
    # name: rows (ms, what, token), words said, ends told
    "a job that completes": (
        [(0, "grant", A), (5000, "renewed", A), (9000, "released", A), (60_000, "tick")],
        ["A Granted sound", "A Renewed sound on_time", "A Released sound"],
        ["A0 released"],
    ),
    "late, then critical": (
        [(0, "grant", A), (6000, "renewed", A), (14_000, "renewed", A), (15_000, "released", A)],
        ["A Granted sound", "A Renewed sound late", "A Renewed sound critical", "A Released sound"],
        ["A0 released"],
    ),
    "blocked past its lock, not yet swept": (
        [(0, "grant", A), (12_000, "refused", A), (12_500, "-2", A)],
        ["A Granted sound", "A Lapsed sound", "A NotMine straggler too_late", "A Absent straggler"],
        ["A0 lapsed"],
    ),
    "a renewal for a shorter time lapses at the new deadline": (
        [(0, "grant", A), (1000, "renewed", A, 2000), (3002, "tick"), (3003, "tick"), (60_000, "tick")],
        ["A Granted sound", "A Renewed sound on_time", "A Lapsed sound"],
        [],
    ),
    "a takeover without a sweep seen": (
        [(0, "grant", A), (11_000, "grant", B), (12_000, "refused", A), (12_500, "-6", A), (13_000, "-2", A)],
        [
            *("A Granted sound", "A Lapsed sound", "B Granted sound"),
            *("A NotMine straggler too_late", "A HeldByOther straggler", "A Absent disputed"),
        ],
        ["A0 superseded", "B0 wiped"],
    ),
    "a sweep, then the next holder, undisturbed by the first": (
        [(0, "grant", A), (11_000, "swept"), (11_500, "grant", B), (12_000, "-6", A), (13_000, "released", B)],
        [
            *("A Granted sound", "A Lapsed sound", "- Absent sound", "B Granted sound"),
            *("A HeldByOther straggler", "B Released sound"),
        ],
        ["A0 reaped", "B0 released"],
    ),
    "a move with the token 0 leaves a lock that nobody will give back": (
        [(0, "grant", A), (1000, "bypassed", b"0"), (2000, "-1", A), (3000, "released", A)],
        ["A Granted sound", "0 Bypassed orphan", "A NoProof sound", "A Released sound"],
        ["A0 released"],
    ),
    "a renewal behind one's own finish": (
        [(0, "grant", A), (1000, "released", A), (1001, "refused", A), (60_000, "tick")],
        ["A Granted sound", "A Released sound", "A NotMine sound unknown"],
        ["A0 released"],
    ),
    "a token that takes the job again": (
        [(0, "grant", A), (1000, "released", A), (2000, "grant", A), (3000, "released", A)],
        ["A Granted sound", "A Released sound", "A Granted sound", "A Released sound"],
        ["A0 released", "A1 released"],
    ),
    "one token for all jobs: granted again over its own lapse": (
        [(0, "grant", A), (11_000, "grant", A), (12_000, "released", A)],
        ["A Granted sound", "A Lapsed sound", "A Granted sound", "A Released sound"],
        ["A0 superseded", "A1 released"],
    ),
    "its grant was not seen": (
        [(0, "renewed", A), (5000, "renewed", A), (6000, "released", A)],
        ["A Renewed unwitnessed unknown", "A Renewed sound on_time", "A Released sound"],
        ["A0 released"],
    ),
    "nothing of it was seen": (
        [(0, "released", A), (1000, "refused", B), (2000, "swept")],
        ["A Released unwitnessed", "B NotMine unwitnessed unknown", "- Absent sound"],
        [],
    ),
    "refused while it certainly lived": (
        [(0, "grant", A), (5000, "refused", A), (30_000, "tick")],
        ["A Granted sound", "A NotMine disputed unknown"],
        ["A0 wiped"],
    ),
    "a renewal that may have succeeded puts the lapse off": (
        [(0, "grant", A), (5000, "renewed?", A), (15_010, "tick"), (15_011, "tick")],
        ["A Granted sound", "A Perhaps doubtful", "A Lapsed sound"],
        [],
    ),
    "a finish that was not answered, done again": (
        [(0, "grant", A), (5000, "released?", A), (6000, "-2", A), (60_000, "tick")],
        ["A Granted sound", "A Perhaps doubtful", "A Absent doubtful"],
        ["A0 released"],
    ),
    "somebody else, never seen, holds it": (
        [(0, "-6", A), (1000, "grant", B), (2000, "released", B)],
        ["A HeldByOther unwitnessed", "B Granted sound", "B Released sound"],
        ["B0 released"],
    ),
    "granted over a lock that certainly lived": (
        [(0, "grant", A), (1000, "grant", B), (2000, "released", B)],
        ["A Granted sound", "B Granted double", "B Released sound"],
        ["A0 superseded", "B0 released"],
    ),
    "granted to its own token once more while it certainly lived: another incarnation": (
        [(0, "grant", A), (1000, "grant", A), (2000, "released", A)],
        ["A Granted sound", "A Granted double", "A Released sound"],
        ["A0 superseded", "A1 released"],
    ),
    "a token held that was never granted": (
        [(0, "grant", A), (1000, "renewed", B), (2000, "-6", A)],
        ["A Granted sound", "B Renewed foreign unknown", "A HeldByOther straggler"],
        ["A0 superseded"],
    ),
    "swept while it certainly lived": (
        [(0, "grant", A), (5000, "swept"), (6000, "-2", A)],
        ["A Granted sound", "- Absent reaped_alive", "A Absent straggler"],
        ["A0 reaped"],
    ),
    "given back, and held all the same": (
        [(0, "grant", A), (1000, "released", A), (2000, "renewed", A)],
        ["A Granted sound", "A Released sound", "A Renewed disputed unknown"],
        ["A0 released"],
    ),
    "renewed after it had certainly ended": (
        [(0, "grant", A), (20_000, "renewed", A), (21_000, "released", A)],
        ["A Granted sound", "A Lapsed sound", "A Renewed resurrected critical", "A Released sound"],
        ["A0 released"],
    ),
    "a finish behind one's own finish": (
        [(0, "grant", A), (1000, "released", A), (2000, "-2", A)],
        ["A Granted sound", "A Released sound", "A Absent doubtful"],  # its first answer may never have come to it
        ["A0 released"],
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    rows, words, ends = STORIES[name]
    history = History()
    for at, what, *rest in rows:
        if what == "tick":
            history.tick(at)
        else:
            history.do(at, what, rest[0] if rest else b"", **({"ttl_ms": rest[1]} if rest[1:] else {}))
    assert history.words() == words
    assert history.ends() == ends


# ---------------------------------------------------------------- one thing after another on several connections


@pytest.mark.parametrize("kind", ["refused", "not_mine", "-2", "-6"])
def test_a_refusal_read_before_ones_own_finish_waits_for_it(kind: str) -> None:
    history = History()
    history.do(0, "grant")
    history.ask("finish", 1_000, "released", conn=1)
    history.ask("again", 1_001, "renewed" if kind == "refused" else "released", conn=2)
    assert history.answer("again", 1_010, kind) == []
    said = history.answer("finish", 1_011, "released")
    # Of a -6 the finish alone is no explanation: somebody else must have been granted it meanwhile, unseen.
    assert {v.finding for v in said} == {Finding.SOUND, Finding.DOUBTFUL}
    assert history.ends() == ["A0 released"]
    assert history.over()[0].refused == 0


def test_a_sweep_read_behind_the_pickup_it_made_possible() -> None:
    history = History()
    history.do(0, "grant")
    history.tick(GONE)
    history.ask("sweep", 20_000, "swept", b"", conn=3)
    history.do(20_000, "grant", B, conn=2, took=5)
    history.answer("sweep", 20_006, "swept")
    history.do(21_000, "renewed", B, conn=2)
    history.do(22_000, "released", B, conn=2)
    assert history.words()[2:] == [
        *("B Granted sound", "- Absent sound", "B Renewed sound on_time", "B Released sound"),
    ]
    assert history.ends() == ["A0 reaped", "B0 released"]


def test_facts_of_a_pipeline_in_the_order_of_its_answer() -> None:
    history = History()
    history.do(0, "grant", lock=job(1))
    history.do(0, "grant", lock=job(2))
    history.ask("finish", 5, "released", lock=job(1))
    history.ask("next", 5, "grant", lock=job(3))
    history.ask("renew", 6, "renewed", lock=job(2))
    history.answer("finish", 9, "released", lock=job(1))
    history.answer("next", 9, "grant", lock=job(3))
    history.answer("renew", 9, "renewed", lock=job(2))
    assert [v.finding for v in history.said] == [Finding.SOUND] * 5
    assert [a.lock for a in history.ledger.open_attempts()] == [job(2), job(3)]
    assert history.ends() == ["A0 released"]


def test_a_batch_renews_each_of_its_ids() -> None:
    history = History()
    for number in range(3):
        history.do(0, "grant", b"t%d" % number, lock=job(number))
    for part in range(3):
        place = Place(1, 100, part)
        history.ledger.asked(Renew(place, QUEUE, job(part), b"t%d" % part, TTL), 6_000 * MS)
    for part in range(3):
        fact = Renewed(Place(1, 100, part), span(6_000, 6_001), job(part), QUEUE, b"t%d" % part, TTL)
        (verdict,) = history.ledger.observe(fact)
        assert (verdict.grade, verdict.age_ms, verdict.ttl_ms) == (Grade.LATE, 6_000.0, TTL)


def test_a_fetch_next_answers_both_of_its_intents() -> None:
    history = History()
    history.do(0, "grant")
    ledger, finish, fetch = history.ledger, Place(1, 50, 0), Place(1, 50, 1)
    ledger.asked(Release(finish, QUEUE, JOB, A), 5 * MS)
    ledger.asked(Take(fetch, QUEUE, A, TTL), 5 * MS)
    assert len(ledger._flights) == 2
    history.do(9, "released")
    (granted,) = ledger.observe(Granted(fetch, span(5, 9), job(43), QUEUE, A, TTL))
    assert (granted.finding, granted.attempt and granted.attempt.number) == (Finding.SOUND, 0)
    ledger.observe(Nothing(finish, span(5, 9), QUEUE))
    assert len(ledger._flights) == 0


# ---------------------------------------------------------------- figures and attempts


def test_the_figures_stand_as_before_and_the_ttl_as_after() -> None:
    history = History()
    history.do(0, "grant", took=100)
    renewed = history.one(7_100, "renewed", ttl_ms=5_000, took=50)
    assert (renewed.age_ms, renewed.remaining_ms, renewed.ttl_ms, renewed.at) == (7_000.0, 3_000.0, 5_000, 7_150 * MS)
    assert renewed.attempt is not None
    assert (renewed.attempt.renewals, renewed.attempt.late, renewed.attempt.proved) == (1, 1, span(7_100, 7_150))


def test_the_age_is_to_the_sending_as_it_was_asked() -> None:
    history = History()
    history.do(0, "grant")
    place = Place(1, 99)
    history.ledger.asked(Renew(place, QUEUE, JOB, A, TTL), 5_900 * MS)
    (verdict,) = history.ledger.observe(Renewed(place, span(6_100, 6_200), JOB, QUEUE, A, TTL))
    assert (verdict.age_ms, verdict.grade) == (5_900.0, Grade.ON_TIME)


def test_a_refused_renewal_is_counted_on_the_attempt_it_ends() -> None:
    history = History()
    history.do(0, "grant")
    (attempt,) = history.one(12_000, "refused").over
    assert (attempt.refused, attempt.lapsed, attempt.end, attempt.ended) == (1, True, End.LAPSED, span(12_000))


def test_a_partial_attempt_begins_with_its_first_proof() -> None:
    history = History()
    attempt = history.one(500, "renewed", took=10).attempt
    assert attempt is not None
    assert (attempt.partial, attempt.started, attempt.renewals, attempt.late) == (True, span(500, 510), 1, 0)


def test_thresholds_are_as_configured() -> None:
    history = History(late=0.3, critical=0.4)
    history.do(0, "grant")
    assert [history.one(at, "renewed").grade for at in (3_000, 7_000)] == [Grade.LATE, Grade.CRITICAL]
