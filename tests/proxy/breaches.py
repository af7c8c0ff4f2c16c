"""For tests of enforcement: one sidecar a mode with every rule at `enforce`, and the hands that break the rules."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from emqproxy.locks.policy import Rule
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.hand import Hand, add, wait_line
from tests.scripts import talk
from tests.scripts.talk import PREFIX, lock

ALL_RULES = {f"EMQPROXY_RULES__{rule.value.upper()}": "enforce" for rule in Rule}
_NUMBERS = itertools.count(1)


@contextlib.contextmanager
def strict_sidecar(redis: RedisServer, mode: str, *args: str) -> Iterator[EmqProxy]:
    """Its rules are all at `enforce`, so that the mode alone decides."""
    with EmqProxy(redis.url, "--mode", mode, *args, env={"OTEL_SDK_DISABLED": "true"} | ALL_RULES) as made:
        yield made


class Scene:
    """A job in a queue, and hands at it. `job` is a name that no other scene has: ledgers remember."""

    def __init__(self, redis: RedisServer, port: int) -> None:
        self.redis, self.port = redis, port
        self.job = f"j{next(_NUMBERS)}"
        self.other = f"{self.job}-other"
        self._ends = contextlib.ExitStack()

    def close(self) -> None:
        self._ends.close()

    def hand(self) -> Hand:
        """Another connection."""
        made = Hand(self.port)
        self._ends.callback(made.close)
        return made

    def add(self, job: str = "") -> None:
        add(self.redis, job or self.job)

    def owner(self, token: str = "a:1", ttl_ms: int = 60_000) -> Hand:
        """Who picked the job up, and holds it."""
        self.add()
        made = self.hand()
        assert made.pick(token, ttl_ms) == self.job
        return made

    def lost(self, first: str, then: str) -> tuple[Hand, Hand]:
        """Who had the job with the first token, until its lock ended and a sweep put it back; and who has it since."""
        was = self.owner(first, ttl_ms=40)
        eventually(lambda: self.redis.call("EXISTS", lock(self.job).key) == b":0\r\n", what="the lock's end")
        has = self.hand()
        assert self.swept(has) == [self.job]
        assert has.pick(then) == self.job
        return was, has

    def swept(self, hand: Hand) -> Any:
        """The ids that a sweep puts back that had been marked by one before."""
        guard = PREFIX + b"stalled-check"
        for _ in range(2):
            eventually(lambda: self.redis.call("EXISTS", guard) == b":0\r\n", what="the end of the sweeps' guard")
            found = hand.call("moveStalledJobsToWait-9", talk.sweep())
        return told(found)


def lines_so_far(proxy: EmqProxy) -> list[dict[str, Any]]:
    """The journal, with all that has been answered until now in it."""
    job = f"mark{next(_NUMBERS)}"
    with contextlib.closing(Hand(proxy.port)) as last:
        last.wire.write(("GETDEL", lock(job).key))
        last.read()
    wait_line(proxy, job=job)
    return [line for line in proxy.journal() if not str(line["job"]).startswith("mark")]


def told(reply: Any) -> Any:
    """A reply as tests write it: ids as text; of an error of ours what it is and which rule."""
    if isinstance(reply, list):
        return [told(one) for one in reply]
    if isinstance(reply, bytes):
        return reply.decode()
    if isinstance(reply, str) and reply.startswith("EMQPROXY "):
        return " ".join(reply.split()[:2])
    return reply
