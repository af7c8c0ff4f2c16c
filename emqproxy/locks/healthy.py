"""The healthy facts: a grant of a free lock, its renewals, its release. Nearly every fact is one, so they decide what
the ledger costs.

Each is spoken by the one token that holds the lock or takes it, in time, with nothing beside it to be weighed against.
What is said then follows without weighing: exactly what `Account.hear` would say, in a fraction of the time.
`tests/locks/test_healthy.py` holds the two against each other.
"""

from __future__ import annotations

from typing import Final

from emqproxy.locks.account import Account
from emqproxy.locks.accounts import Accounts
from emqproxy.locks.deadlines import Deadlines
from emqproxy.locks.events import AnyFact, Granted, Instant, LockFact, Released, Renewed, Window
from emqproxy.locks.flights import Flights
from emqproxy.locks.grading import Grading
from emqproxy.locks.story import Telling
from emqproxy.locks.verdicts import End, Finding, Verdict
from emqproxy.locks.worlds import LeaseState, Past, holding

_SOUND: Final = Finding.SOUND
_FREE: Final = LeaseState.FREE
_RELEASED: Final = End.RELEASED


class HealthyLane:
    """Of one ledger, on its own accounts, flights and deadlines."""

    def __init__(self, accounts: Accounts, flights: Flights, deadlines: Deadlines, grading: Grading) -> None:
        self._accounts, self._flights, self._deadlines, self._grading = accounts, flights, deadlines, grading

    def hear(self, fact: AnyFact, unsure_until: Instant) -> Verdict | None:
        """The verdict on a healthy fact, which has then been heard; None, and nothing done, for any other.

        What was sent before `unsure_until` cannot be healthy.
        """
        if not isinstance(fact, (Renewed, Released, Granted)) or not fact.token or not self._alone(fact, unsure_until):
            return None
        account = self._accounts.get(fact.lock)
        if account is not None and (
            account.pending
            or account.lapse_waits
            or len(account.ends) != 1
            or fact.window.opened < account.unsure_until
        ):
            return None
        if isinstance(fact, Renewed):
            verdict = self._renewed(account, fact)
        elif isinstance(fact, Released):
            verdict = self._released(account, fact)
        else:
            verdict = self._granted(account, fact)
        if verdict is not None:
            self._flights.arrive(fact.place)
        return verdict

    def _alone(self, fact: LockFact, unsure_until: Instant) -> bool:
        """Whether nothing that is out, due or unseen may bear on it."""
        opened, closed = fact.window
        due = self._deadlines.first()
        if opened < unsure_until or (due is not None and due <= closed):
            return False
        return self._flights.only_from(fact.place.conn, fact.lock, fact.queue)

    def _granted(self, account: Account | None, fact: Granted) -> Verdict | None:
        lock, window = fact.lock, fact.window
        if account is None:
            if self._accounts.full:
                return None
            account, _ = self._accounts.open(lock, fact.queue)
        elif account.ends[0].holder is not None or account.story.open:
            return None
        past = account.ends[0].past
        self._hold(account, fact, tuple(p for p in past if p.token != fact.token) if past else ())
        account.heard_at = max(account.heard_at, window.closed)
        account.story.begin(fact, partial=False)
        self._accounts.note_speakers(account)
        attempt = account.story.open[fact.token].attempt
        return Verdict(fact, _SOUND, ttl_ms=fact.ttl_ms, attempt=attempt, at=account.heard_at)

    def _renewed(self, account: Account | None, fact: Renewed) -> Verdict | None:
        telling = _holds(account, fact.token, fact.window)
        if account is None or telling is None:
            return None
        world, window = account.ends[0], fact.window
        sent = self._flights.sent(fact.place, window.opened)
        age_ms, grade = self._grading.held_renewal(world.proved.closed, world.ttl_ms, sent)
        self._hold(account, fact, world.past)
        account.heard_at = max(account.heard_at, window.closed)
        spoke = telling.attempt.conn
        account.story.renewed(fact, grade)
        attempt = telling.attempt
        if attempt.conn != spoke:
            self._accounts.note_speakers(account)
        remaining_ms = world.ttl_ms - age_ms
        return Verdict(fact, _SOUND, None, grade, age_ms, remaining_ms, fact.ttl_ms, attempt, (), account.heard_at)

    def _released(self, account: Account | None, fact: Released) -> Verdict | None:
        telling = _holds(account, fact.token, fact.window)
        if account is None or telling is None:
            return None
        world, window = account.ends[0], fact.window
        sent = self._flights.sent(fact.place, window.opened)
        age_ms = self._grading.age_ms(world.proved.closed, sent)
        account.settled = account.ends = (world.left_by(window, left=True, rest=_FREE),)
        account.heard_at = max(account.heard_at, window.closed)
        attempt = account.story.close(fact.token, _RELEASED, window)
        assert attempt is not None
        self._accounts.note_speakers(account)
        self._deadlines.no_later(fact.lock, account.forget_at)
        remaining_ms = world.ttl_ms - age_ms
        return Verdict(fact, _SOUND, None, None, age_ms, remaining_ms, None, attempt, (attempt,), account.heard_at)

    def _hold(self, account: Account, fact: Granted | Renewed, past: tuple[Past, ...]) -> None:
        """The token holds the lock from here on, and nobody else is known to."""
        world = holding(fact.token, fact.window, fact.ttl_ms, past)
        account.settled = account.ends = (world,)
        account.mixed = False
        self._deadlines.no_later(fact.lock, world.gone_after)


def _holds(account: Account | None, token: bytes, window: Window) -> Telling | None:
    """The one open attempt, where its token is the speaker's and certainly held the lock when the request was sent."""
    if account is None:
        return None
    world, open_attempts = account.ends[0], account.story.open
    if world.holder != token or window.opened >= world.alive_until or len(open_attempts) != 1:
        return None
    telling = open_attempts.get(token)
    return None if telling is None or telling.attempt.lapsed or telling.over else telling
