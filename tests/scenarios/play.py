"""A stage for the scenarios: a sidecar in observe mode before a Redis, workers by hand, and what the journal says."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgpack

from emqproxy.replay_report import Difference, Rejudging
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.breaches import lines_so_far, told
from tests.proxy.hand import Hand, add
from tests.scripts import talk
from tests.scripts.talk import PREFIX, keys, lock

LONG_MS = 60_000
"""Outlasts any scenario."""
SHORT_MS = 60
STILL_US = 20_000
TRIES = 6
ADD = "addStandardJob-9"
_ADD_KEYS = ("wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker")
_LISTS = ("wait", "active", "stalled", "stalled-check", "delayed", "marker", "meta", "paused", "waiting-children")
_NUMBERS = itertools.count(1)

Line = dict[str, Any]


class Play:
    """One scenario's: its job, which no other has, since sidecars remember; hands at it; and what was said of it."""

    def __init__(self, redis: RedisServer, proxy: EmqProxy) -> None:
        self.redis, self.proxy = redis, proxy
        self._ends = contextlib.ExitStack()
        self.anew()

    def anew(self) -> None:
        """From the beginning, with another job in an empty queue."""
        self.name = f"s{next(_NUMBERS)}"
        self.job = f"{self.name}-1"
        self.redis.call("DEL", *keys(*_LISTS))
        self._begun = len(lines_so_far(self.proxy))

    def close(self) -> None:
        self._ends.close()

    # ---------------------------------------------------------------- deeds

    def hand(self) -> Hand:
        """Another connection."""
        made = Hand(self.proxy.port)
        self._ends.callback(made.close)
        return made

    def more(self, number: int) -> str:
        """The name of another job of the scenario."""
        return f"{self.name}-{number}"

    def add(self, job: str = "") -> None:
        """Makes a job wait; nobody sees it."""
        add(self.redis, job or self.job)

    def born(self, job: str = "") -> str:
        """Makes a job wait, by the script and through the sidecar: its birth is seen."""
        name = job or self.job
        packed = msgpack.packb([PREFIX.decode(), name, "n", 1, None, None, None, None, None])
        added = self.hand().call(ADD, talk.evalsha(b"", keys(*_ADD_KEYS), packed, "{}", msgpack.packb({})))
        assert told(added) == name
        return name

    def owner(self, token: str = "a:1", ttl_ms: int = LONG_MS) -> Hand:
        """Who picked the scenario's job up."""
        self.add()
        made = self.hand()
        assert made.pick(token, ttl_ms) == self.job
        return made

    def lapsed(self, job: str = "") -> None:
        """Waits until the lock has run out."""
        eventually(lambda: self.locked(job) is False, what="the lock's end")

    def locked(self, job: str = "") -> bool:
        return self.redis.call("EXISTS", lock(job or self.job).key) == b":1\r\n"

    def sweep(self, hand: Hand, limit: int = 1) -> Any:
        """One sweep, when the guard of the last has gone; what it put back."""
        guard = PREFIX + b"stalled-check"
        eventually(lambda: self.redis.call("EXISTS", guard) == b":0\r\n", what="the end of the sweeps' guard")
        return told(hand.call("moveStalledJobsToWait-9", talk.sweep(limit)))

    def swept_back(self, hand: Hand, limit: int = 1) -> None:
        """The lock runs out, one sweep marks the job, the next one puts it back."""
        self.lapsed()
        assert self.sweep(hand, limit) == []
        assert self.sweep(hand, limit) == [self.job]

    # ---------------------------------------------------------------- what was said

    def lines(self, *ops: str) -> list[Line]:
        """The scenario's lines so far, of connections none; all, or of these kinds."""
        lines = lines_so_far(self.proxy)[self._begun :]
        mine = [line for line in lines if line["op"] not in {"conn", "watch"} and self._mine(line)]
        return [line for line in mine if not ops or line["op"] in ops]

    def causes(self) -> list[tuple[str, str, str]]:
        """Of each line that has a cause: what it is about, its outcome and the cause."""
        return [(line["op"], line["outcome"], line["cause"]) for line in self.lines() if line["cause"]]

    def cause(self, op: str, cause: str) -> Line:
        """The first line of a kind with a cause; its sentence is there."""
        line = next(line for line in self.lines(op) if line["cause"] == cause)
        assert line["because"].endswith(".")
        return line

    def stood_still(self) -> bool:
        """Whether emqproxy did, as it says itself, for as long as makes a difference here."""
        late = any(line["lag_us"] >= STILL_US or line["cause"] == "proxy_pause" for line in self.lines())
        return late or self.still_ms() >= STILL_US / 1000

    def still_ms(self) -> float:
        """For how long emqproxy stood still in all, as it says: no age of a renewal counts that."""
        since = lines_so_far(self.proxy)[self._begun :]
        return sum(closed - opened for line in since for opened, closed in line["replay"].get("pauses", ())) / 1e6

    def _mine(self, line: Line) -> bool:
        return line["job"] is None or line["job"].startswith(f"{self.name}-")


@contextlib.contextmanager
def stage(redis: RedisServer, *args: str, user: str = "") -> Iterator[EmqProxy]:
    """A sidecar whose journal, when it has ended, is judged again, and nothing is said otherwise; `user` is its own
    probe's name and password."""
    url = redis.url.replace("://", f"://{user}@") if user else redis.url
    with EmqProxy(url, *args, env={"OTEL_SDK_DISABLED": "true"}) as proxy:
        yield proxy
        proxy.end()
        differing = list(rejudged(proxy.journal_path.read_bytes().splitlines(keepends=True)))
        assert not differing, differing[:5]


def rejudged(journal: Iterable[bytes]) -> Iterator[Difference]:
    """Where `replay` says another verdict than the journal."""
    rejudging = Rejudging()
    for raw in journal:
        yield from (found for found in rejudging.take(raw) if found.is_verdict)
    yield from (found for found in rejudging.end() if found.is_verdict)
    assert rejudging.counts.judged


def calm(scenario: Callable[[Play], None]) -> Callable[[Play], None]:
    """Plays a scenario again in which emqproxy itself stood still for as long as a lock of the scenario lives: what is
    said then of the worker is rightly another thing."""

    @functools.wraps(scenario)
    def wrapper(play: Play) -> None:
        for _ in range(TRIES - 1):
            try:
                scenario(play)
            except AssertionError:
                if not play.stood_still():
                    raise
                play.anew()
            else:
                return
        scenario(play)

    return wrapper
