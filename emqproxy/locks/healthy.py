"""The healthy renewal: nearly every fact of a busy queue, and so the one that decides what the ledger costs.

A success of the one token that holds the lock, sent while it was certainly alive, with nothing beside it to be weighed
against. What is said then follows without weighing: exactly what `Account.hear` would say, in an eighth of the time.
`tests/locks/test_healthy.py` holds the two against each other.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.locks.account import Account
from emqproxy.locks.accounts import Accounts
from emqproxy.locks.deadlines import Deadlines
from emqproxy.locks.events import Instant, Renewed
from emqproxy.locks.flights import Flights
from emqproxy.locks.grading import Grading
from emqproxy.locks.verdicts import Finding, Grade, Verdict
from emqproxy.locks.worlds import LeaseState, World

_SOUND: Final = Finding.SOUND
_UNSEEN: Final = LeaseState.UNSEEN
_ON_TIME: Final = Grade.ON_TIME
_GONE_NS_PER_MS: Final = 1_000_000 + 1_000
"""A millisecond and its share of the slack, as in `World.held`."""
_SLACK_NS: Final = 1_000_000


class HealthyLane:
    """Of one ledger, on its own accounts, flights and deadlines."""

    def __init__(self, accounts: Accounts, flights: Flights, deadlines: Deadlines, grading: Grading) -> None:
        self._accounts, self._flights, self._deadlines, self._grading = accounts, flights, deadlines, grading

    def renewed(self, fact: Renewed, unsure_until: Instant) -> Verdict | None:
        """The verdict on a healthy renewal, which has then been heard; None, and nothing done, for any other."""
        place, due = fact.place, self._deadlines.first()
        account = self._accounts.get(fact.lock)
        if (
            account is None
            or (due is not None and due <= fact.window.closed)
            or not self._flights.only_from(place.conn, fact.lock, fact.queue)
        ):
            return None
        sent = self._flights.sent(place, fact.window.opened)
        verdict = _renew(account, fact, sent, unsure_until, self._grading)
        if verdict is not None:
            self._flights.arrive(place)
            self._deadlines.no_later(fact.lock, account.ends[0].gone_after)
        return verdict


def _renew(account: Account, fact: Renewed, sent: Instant, unsure_until: Instant, grading: Grading) -> Verdict | None:
    """What the account hears of it, and says."""
    window, token = fact.window, fact.token
    opened, closed = window
    ends, story = account.ends, account.story
    world = ends[0]
    telling = story.open.get(token)
    if (
        telling is None
        or len(ends) != 1
        or world.holder != token
        or opened >= world.alive_until
        or account.pending
        or account.lapse_waits
        or len(story.open) != 1
        or opened < unsure_until
        or opened < account.unsure_until
        or not token
    ):
        return None
    attempt = telling.attempt
    if attempt.lapsed or telling.over or attempt.conn != fact.place.conn:
        return None
    age_ms, grade = grading.held_renewal(world.proved.closed, world.ttl_ms, sent)
    ttl_ms = fact.ttl_ms
    next_world = World(
        token,
        _UNSEEN,
        window,
        ttl_ms,
        opened + ttl_ms * 1_000_000,
        closed + ttl_ms * _GONE_NS_PER_MS + _SLACK_NS,
        world.past,
    )
    account.settled = account.ends = (next_world,)
    account.heard_at = max(account.heard_at, closed)
    telling.deserted = False
    telling.attempt = attempt = msgspec.structs.replace(
        attempt,
        proved=max(attempt.proved, window),
        ttl_ms=ttl_ms,
        renewals=attempt.renewals + 1,
        late=attempt.late + (grade is not _ON_TIME),
    )
    return Verdict(
        fact,
        _SOUND,
        grade=grade,
        age_ms=age_ms,
        remaining_ms=world.ttl_ms - age_ms,
        ttl_ms=ttl_ms,
        attempt=attempt,
        at=account.heard_at,
    )
