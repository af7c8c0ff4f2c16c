"""Enforcement over every short history, and many long ones: no lawful call of a holder is refused, and none that was
proved to be a loser's goes on.

The long form is `python -m tests.long.every_history --enforced`.
"""

from __future__ import annotations

import pytest

from emqproxy.locks import claims
from emqproxy.locks.certain import Certain
from emqproxy.locks.claims import Claims
from emqproxy.locks.policy import PASS, Decision
from emqproxy.locks.pools import Pools
from tests.locks.enforced import Door, EnforcedRun
from tests.locks.enforced_histories import enforced_histories, preambles, wandering
from tests.locks.schemes import DOORS, SCHEMES, Scheme
from tests.locks.simulator import BrokenError
from tests.locks.small_redis import Ask, Choice

NAMES = [scheme.name for scheme in SCHEMES]
ALL = (*SCHEMES, *DOORS)
DEPTHS = {"nobody has it": 4, "picked": 3, "taken over": 3, "taken again by the pool that lost it": 4}
"""How many choices after each beginning, of one job and of connections that are no pool's."""
WANDERINGS = 40
TRIES = 400
FIXED = SCHEMES[2]
UNIQUE = SCHEMES[0]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("scheme", SCHEMES, ids=NAMES)
def test_every_short_history(scheme: Scheme, jobs: int) -> None:
    refused = 0
    for name, preamble in preambles(scheme).items():
        depth = DEPTHS.get(name, 2) - (jobs - 1) - 2 * (scheme.conns - 1)
        for run, _ in enforced_histories(scheme, jobs, max(depth, 2 if jobs * scheme.conns == 1 else 1), preamble):
            refused += run.refused
    assert refused


@pytest.mark.parametrize("scheme", ALL, ids=[scheme.name for scheme in ALL])
def test_long_histories(scheme: Scheme) -> None:
    runs = [wandering(scheme, seed) for seed in range(WANDERINGS)]
    assert sum(len(run.log) for run in runs) > 10 * WANDERINGS
    assert scheme.hides or not any(run.hidden for run in runs)


def test_long_histories_that_were_judged_wrongly_once() -> None:
    """The second was the simulator's own fault: that a pool spoke there, no wire could tell from two workers."""
    for name, seed, hidden in [("a pool with random tokens", 4960, 0), ("a pool with one token each", 90171, 6)]:
        (scheme,) = (scheme for scheme in ALL if scheme.name == name)
        assert wandering(scheme, seed).hidden == hidden


def broken(scheme: Scheme) -> str:
    """The first thing that is wrong."""
    for seed in range(TRIES):
        try:
            wandering(scheme, seed)
        except BrokenError as error:
            return str(error)
    return ""


def taken_over(scheme: Scheme, kind: str) -> EnforcedRun:
    """The first worker lost the job to the second, and speaks."""
    run = EnforcedRun(scheme, 1).play(preambles(scheme)["taken over"])
    (job, token) = run.m.held[0][0]
    last: Choice = ("send", 0, Ask(kind, job, token))
    run.step(last)
    return run


@pytest.mark.parametrize(
    ("scheme", "kind", "refused"),
    [(FIXED, "renew", 1), (FIXED, "finish", 1), (FIXED, "write", 0), (UNIQUE, "write", 1), (UNIQUE, "renew", 0)],
)
def test_a_proved_loser_is_refused(scheme: Scheme, kind: str, refused: int) -> None:
    assert taken_over(scheme, kind).refused == refused


@pytest.mark.parametrize(("scheme", "kind"), [(FIXED, "finish"), (UNIQUE, "write")])
def test_to_let_a_proved_loser_through_is_noticed(scheme: Scheme, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def passes(_: Door, __: object, ___: int) -> Decision:
        return PASS

    monkeypatch.setattr(Door, "decide", passes)
    with pytest.raises(BrokenError, match="let through"):
        taken_over(scheme, kind)


def test_not_to_know_pools_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pools, "has_token", lambda *_: False)
    monkeypatch.setattr(Pools, "has_conn", lambda *_: False)
    assert "refused" in broken(SCHEMES[3])


def test_to_be_certain_of_what_is_out_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the last one read of holds it, whatever is on its way: so the intruder would be refused where nothing is."""

    def last(self: Certain, lock: object, _: int) -> bytes | None:
        account = self._accounts.get(lock)  # type: ignore[arg-type]
        return None if account is None else account.sure_holder

    monkeypatch.setattr(Certain, "holder", last)
    assert "refused" in broken(SCHEMES[5])


def test_to_claim_by_who_had_it_once_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def had(self: Claims, lock: object, token: bytes, conn: int) -> bool:
        found = self._by_lock.get(lock)  # type: ignore[call-overload]
        return found is not None and any((a.token, a.conn) == (token, conn) for a in found.former)

    monkeypatch.setattr(Claims, "is_stale", had)
    monkeypatch.setattr(claims, "_is_of", lambda *_: False)
    assert "refused" in broken(FIXED)
