"""Laws 5 and 6 over any history of well-formed facts, be it one that no Redis could have made; and law 4 and 5 over
histories of a small Redis whose truth is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from emqproxy.locks.events import (
    AnyFact,
    Blinded,
    Granted,
    Instant,
    Lapsed,
    Lock,
    LockFact,
    Nothing,
    PerhapsGranted,
    Place,
    Renewed,
    Sweep,
    Take,
)
from emqproxy.locks.ledger import LockLedger
from emqproxy.locks.verdicts import Attempt, Finding, Suspect, Verdict
from tests.locks.history import GONE, MS, QUEUE, History, fact_of, intent_of, job, span
from tests.locks.simulator import Run
from tests.locks.test_simulator import wandering

ANSWERS = {
    "take": ["grant", "nothing", "perhaps"],
    "renew": ["renewed", "renewed", "refused", "-1", "renewed?"],
    "release": ["released", "not_mine", "-2", "-6", "-1", "released?", "bypassed"],
    "sweep": ["swept", "nothing"],
    "hand": ["deleted", "overwritten"],
    "remove": ["removed", "locked", "nothing"],
}
ASKS = {"renew": "renewed", "release": "released", "hand": "deleted", "remove": "removed"}
WHATS = ("take renew " * 3 + "release " * 2 + "answer " * 11 + "sweep hand remove abandon gone wipe").split()
LATE_MS = 10**9


class Step(NamedTuple):
    """What happens next, and how long after the last."""

    after_ms: int
    what: str
    conn: int
    token: bytes
    """Empty: whoever was granted the lock last."""
    lock: Lock
    ttl_ms: int
    answer: int


steps = st.builds(
    Step,
    after_ms=st.sampled_from([0, 1, 5, 500, 3_000, 3_000, 7_000, GONE, 130_000]),
    what=st.sampled_from(WHATS),
    conn=st.integers(1, 3),
    token=st.sampled_from([b"", b"", b"", b"A", b"B", b"C"]),
    lock=st.sampled_from([job(1), job(1), job(1), job(2)]),
    ttl_ms=st.sampled_from([10_000, 10_000, 1_000]),
    answer=st.integers(0, 6),
)
histories = st.lists(steps, min_size=25, max_size=60) | st.lists(steps, max_size=12)
Ticking = Callable[[History, int, int], None]


def play(events: Iterable[Step], ticking: Ticking, ledger: LockLedger | None = None) -> History:
    """Requests of three connections, each answered in order; `ticking` is called with each stretch of time."""
    history, now = History(ledger), 0
    out: dict[int, list[tuple[Step, Place, int]]] = defaultdict(list)
    granted: dict[Lock, bytes] = {}
    for step in events:
        ticking(history, now, now + step.after_ms)
        now += step.after_ms
        queue = out[step.conn]
        if step.what == "wipe":
            history.wipe(now, db=0, prefix=QUEUE.prefix if step.answer % 2 else b"")
        elif step.what == "gone":
            for asked, place, opened in queue:
                _answer(history, asked._replace(answer=-2), place, opened, now)
            queue.clear()
            history.close(step.conn, now)
        elif step.what in ANSWERS:
            place, speaker = history.place(step.conn), step.token or granted.get(step.lock, b"A")
            asked = step._replace(token=speaker)
            history.ledger.asked(_intent(asked, place), now * MS)
            queue.append((asked, place, now))
        elif queue:
            asked, place, opened = queue.pop(0)
            if step.what == "abandon":
                history.keep(history.ledger.abandoned(_intent(asked, place), now * MS))
            else:
                _answer(history, asked._replace(answer=step.answer), place, opened, now)
                if asked.what == "take":
                    granted[asked.lock] = asked.token
    ticking(history, now, now + LATE_MS)
    history.tick(now + LATE_MS)
    return history


def _intent(step: Step, place: Place) -> Any:
    if step.what == "take":
        return Take(place, QUEUE, step.token, step.ttl_ms)
    if step.what == "sweep":
        return Sweep(place, QUEUE)
    return intent_of(ASKS[step.what], place, step.token, step.lock, step.ttl_ms)


def _answer(history: History, asked: Step, place: Place, opened: int, now: int) -> None:
    answers, window = ANSWERS[asked.what], span(opened, now)
    kind = answers[asked.answer % len(answers)]
    if kind == "perhaps":
        history.keep(history.ledger.observe(PerhapsGranted(place, window, QUEUE, asked.token, asked.ttl_ms)))
        return
    if kind == "swept":
        history.keep(history.ledger.observe(fact_of(kind, place._replace(part=1), window, b"", asked.lock)))
    if kind in {"nothing", "swept"}:
        history.keep(history.ledger.observe(Nothing(place, window, QUEUE)))
        return
    history.keep(history.ledger.observe(fact_of(kind, place, window, asked.token, asked.lock, asked.ttl_ms)))


def never(history: History, since: int, until: int) -> None:
    """No timer at all."""


def timely(history: History, since: int, until: int) -> None:
    """A timer that fires at every deadline."""
    while (deadline := history.ledger.next_deadline()) is not None and deadline <= until * MS:
        history.keep(history.ledger.tick(deadline))


def restless(history: History, since: int, until: int) -> None:
    """At every deadline, and in between for nothing, each time twice."""
    for share in range(8):
        now = since + (until - since) * share // 7
        timely(history, since, now)
        history.tick(now)
        assert history.tick(now) == []


def sluggish(history: History, since: int, until: int) -> None:
    """Now and then, where it finds several things due."""
    if since % 3 == 0:
        history.tick(until)


def told(history: History) -> dict[Lock, list[tuple[Any, ...]]]:
    return said_of(history.said)


def said_of(verdicts: Iterable[Verdict]) -> dict[Lock, list[tuple[Any, ...]]]:
    """What was said of each lock, in order, but for when it was said."""
    found: dict[Lock, list[tuple[Any, ...]]] = defaultdict(list)
    for v in verdicts:
        if isinstance(v.fact, LockFact):
            row = (v.fact, v.finding, v.grade, v.age_ms, v.remaining_ms, v.ttl_ms, v.attempt)
            found[v.fact.lock].append(row)
        for attempt in v.over:
            found[attempt.lock].append(("over", attempt))
    return dict(found)


@settings(max_examples=100, deadline=None)
@given(histories)
def test_law_5_whoever_ticks_and_when_the_same_is_said(events: list[Step]) -> None:
    expected = told(play(events, never))
    for ticking in (timely, restless, sluggish):
        assert told(play(events, ticking)) == expected


class _Incarnation(NamedTuple):
    lock: Lock
    token: bytes
    number: int
    started: Any


def _which(attempt: Attempt) -> _Incarnation:
    return _Incarnation(attempt.lock, attempt.token, attempt.number, attempt.started)


def _began(verdict: Verdict) -> _Incarnation | None:
    fact, attempt = verdict.fact, verdict.attempt
    if attempt is None or not isinstance(fact, Granted | Renewed) or attempt.started != fact.window:
        return None
    return _which(attempt)


@settings(max_examples=150, deadline=None)
@given(histories)
def test_law_6_every_incarnation_ends_once_or_is_open(events: list[Step]) -> None:
    history = play(events, never)
    began = {which for v in history.said if (which := _began(v)) is not None}
    over = [_which(attempt) for attempt in history.over()]
    still_open = [_which(attempt) for attempt in history.ledger.open_attempts()]
    assert len(over) == len(set(over))
    assert all(attempt.end is not None and attempt.ended is not None for attempt in history.over())
    assert not set(over) & set(still_open)
    assert set(over) | set(still_open) == began
    assert len(began) >= sum(isinstance(v.fact, Granted) for v in history.said)


@settings(max_examples=100, deadline=None)
@given(histories)
def test_after_a_long_silence_nothing_is_kept(events: list[Step]) -> None:
    history = play(events, never)
    for flight in list(history.ledger._flights._flights.values()):
        history.keep(history.ledger.abandoned(flight.intent, 2 * LATE_MS * MS))
    history.tick(3 * LATE_MS)
    assert (len(history.ledger), history.ledger.open_attempts(), history.ledger.next_deadline()) == (0, (), None)
    assert not history.ledger.waiting


@settings(max_examples=100, deadline=None)
@given(histories)
def test_whatever_is_said_is_said_of_each_fact_once(events: list[Step]) -> None:
    said = [v for v in play(events, timely).said if isinstance(v.fact, LockFact) and not isinstance(v.fact, Lapsed)]
    assert len(said) == len({v.fact for v in said})
    for v in said:
        assert v.finding is not None
        assert (v.scope is not None) == (v.finding.suspects in {Suspect.BYPASSER, Suspect.CLOCK})
        if v.finding is Finding.STRAGGLER:
            assert v.attempt is not None  # it held the lock once


class OnlyHears(LockLedger):
    """A ledger whose timer never fires: what it hears alone moves its time."""

    hearing = False

    def observe(self, fact: AnyFact) -> list[Verdict]:
        self.hearing = True
        verdicts = super().observe(fact)
        self.hearing = False
        return verdicts

    def tick(self, now: Instant) -> list[Verdict]:
        return super().tick(now) if self.hearing else []


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_laws_4_and_5_of_histories_that_a_redis_can_have_made(seed: int) -> None:
    """`Run` raises at whatever is untrue; nobody is accused but a straggler, however the timer fires."""
    jobs, choices = wandering(seed)
    often, never = (Run(ledger, jobs).play(choices) for ledger in (LockLedger(), OnlyHears()))
    end = often.m.now + 10**15
    often.verdicts += often.ledger.tick(end)
    never.verdicts += LockLedger.tick(never.ledger, end)
    assert said_of(often.verdicts) == said_of(never.verdicts)
    assert all(v.finding is None or v.finding >= Finding.STRAGGLER for v in often.verdicts)


@settings(max_examples=100, deadline=None)
@given(histories)
def test_a_lapse_is_told_once_an_incarnation_unless_it_was_proved_alive_again(events: list[Step]) -> None:
    proofs: dict[_Incarnation, Any] = {}
    for v in play(events, sluggish).lapses():
        assert v.attempt is not None
        which = _which(v.attempt)
        assert proofs.get(which) != v.attempt.proved
        proofs[which] = v.attempt.proved
        assert isinstance(v.fact, LockFact)
        assert v.fact.window.opened <= v.fact.window.closed <= v.at


facts = st.tuples(
    st.sampled_from([*(kind for kinds in ANSWERS.values() for kind in kinds), "blinded"]),
    st.integers(0, 3),
    st.sampled_from([b"A", b"B", b""]),
    st.integers(0, 40_000),
    st.integers(0, 20_000),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(facts, max_size=60))
def test_no_order_of_well_formed_facts_raises_asked_for_or_not(rows: list[tuple[str, int, bytes, int, int]]) -> None:
    history = History(locks_max=2)
    for number, (kind, conn, token, opened, took) in enumerate(rows):
        place, window = Place(conn, number % 7), span(opened, opened + took)
        if kind == "blinded":
            history.keep(history.ledger.observe(Blinded(place, window)))
        elif kind in {"nothing", "perhaps"}:
            history.keep(history.ledger.observe(Nothing(place, window, QUEUE)))
        else:
            lock = job(number % 3)
            if number % 2:
                history.ledger.asked(intent_of(kind, place, token, lock), opened * MS)
            history.keep(history.ledger.observe(fact_of(kind, place, window, token, lock)))
    assert len(history.said) >= len(rows)
    assert len(history.ledger) <= 2
