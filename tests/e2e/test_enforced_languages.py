"""Clients of other languages in enforce mode with every rule at `enforce`: none of their recorded calls is refused,
and each is answered as Redis answers it directly. One thing is refused: what echomq-go does where it cannot finish.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import hiredis
import pytest

from tests.e2e.dialects import Dialect, Wire, job_id, take
from tests.e2e.languages import DotNet, EchoMqGo, Elixir, GoBullMq, Php, Rust
from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.breaches import lines_so_far

WORKERS: list[type[Dialect]] = [Elixir, Rust, DotNet, EchoMqGo, GoBullMq]
SHORT_MS = 100
PROCESS_OWN = frozenset({"INFO", "ECHO", "CLIENT"})
"""Answers that name a process, a connection, or a token."""

D = TypeVar("D", bound=Dialect)
Heard = tuple[str, Any]


class Road(NamedTuple):
    """Where a history is played, directly or through the sidecar; and who played it there."""

    redis: RedisServer
    port: int
    prefix: bytes
    opened: list[Dialect]

    def open(self, kind: type[D]) -> D:
        made = kind(self.port, self.prefix)
        self.opened.append(made)
        return made

    def heard(self) -> list[list[Heard]]:
        """Connection by connection."""
        return [answers(wire) for dialect in self.opened for wire in dialect.wires]


History = Callable[[Road, type[Dialect]], None]


def answers(wire: Wire) -> list[Heard]:
    """What its commands were answered, as far as two roads must agree on it."""
    assert len(wire.asked) == len(wire.heard)
    told = []
    for name, reply in zip(wire.asked, wire.heard, strict=True):
        shown = str(reply) if isinstance(reply, hiredis.ReplyError) else reply
        told.append((name, type(reply) if name in PROCESS_OWN else shown))
    return told


@contextlib.contextmanager
def road(redis: RedisServer, port: int, queue: str) -> Iterator[Road]:
    """An empty server that knows no script."""
    assert redis.call("FLUSHALL") == b"+OK\r\n"
    assert redis.call("SCRIPT", "FLUSH") == b"+OK\r\n"
    made = Road(redis, port, f"emq:{queue}:".encode(), [])
    try:
        yield made
    finally:
        for dialect in made.opened:
            dialect.close()


def both_ways(redis: RedisServer, proxy: EmqProxy, queue: str, play: Callable[[Road], None]) -> list[dict[str, Any]]:
    """Plays it directly, then through the sidecar; both are to hear the same. The journal's lines of the latter."""
    told = []
    for port in (redis.port, proxy.port):
        with road(redis, port, queue) as made:
            play(made)
            told.append(made.heard())
    assert told[1] == told[0]
    assert any(told[0])
    lines = [line for line in lines_so_far(proxy) if line["queue"] == queue]
    assert lines
    assert {line["action"] for line in lines if line["op"] != "lapse"} == {"passed"}
    assert [line for line in lines if line["rule"]] == []
    return lines


# ---------------------------------------------------------------- what they do


def all_day(road: Road, kind: type[Dialect]) -> None:
    """Added, taken, renewed twice, finished; the next one fetched with a finish where the language does so."""
    producer, worker = road.open(Php), road.open(kind)
    assert [producer.add("a"), *producer.add_all("b", "c")] == [b"a", b"b", b"c"]
    held = take(worker, "a", "b", "c")
    assert producer.remove("a") == 0
    assert [worker.renew(held), worker.renew(held)] == [[], []]
    targets = {"a": "completed", "b": "failed", "c": "completed"}
    assert [worker.finish(job, held[job], target) for job, target in targets.items()] == [0, 0, 0]
    assert producer.remove("a") == 1
    producer.add_all("d", "e")
    (token,) = take(worker, "d").values() if kind.fetches == "1" else [""]
    assert not token or job_id(worker.finish("d", token)) == "e"


def late(road: Road, kind: type[Dialect]) -> None:
    """Lost, refused by the scripts themselves, swept, and taken again by the same worker, over whichever connection."""
    producer, worker = road.open(Php), road.open(kind)
    producer.add("late")
    token = worker.token()
    assert worker.pick(token, SHORT_MS) == "late"
    key = road.prefix + b"late:lock"
    eventually(lambda: road.redis.call("EXISTS", key) == b":0\r\n", what="the lock's end")
    assert worker.renew({"late": token}) == ["late"]
    if not kind.gives_up:
        assert worker.finish("late", token) == -2
    eventually(lambda: road.redis.call("EXISTS", road.prefix + b"stalled-check") == b":0\r\n", what="no guard")
    assert worker.sweep() == []
    eventually(lambda: road.redis.call("EXISTS", road.prefix + b"stalled-check") == b":0\r\n", what="no guard")
    assert worker.sweep() == ["late"]
    held = take(worker, "late")
    assert [worker.renew(held), worker.renew(held)] == [[], []]
    assert worker.finish("late", held["late"]) == 0


def passed_on(road: Road, kind: type[Dialect]) -> None:
    """A second process takes what the first one lost; the first one asks once more, under its own token."""
    producer, first, second = road.open(Php), road.open(kind), road.open(kind)
    producer.add("passed")
    token = first.token()
    assert first.pick(token, SHORT_MS) == "passed"
    eventually(lambda: road.redis.call("EXISTS", road.prefix + b"passed:lock") == b":0\r\n", what="the lock's end")
    for moved in ([], ["passed"]):
        eventually(lambda: road.redis.call("EXISTS", road.prefix + b"stalled-check") == b":0\r\n", what="no guard")
        assert second.sweep() == moved
    held = take(second, "passed")
    assert first.renew({"passed": token}) == ["passed"]
    assert second.renew(held) == []
    assert first.finish("passed", token) == -6
    assert second.finish("passed", held["passed"]) == 0


@pytest.mark.parametrize("play", [all_day, late, passed_on])
@pytest.mark.parametrize("kind", WORKERS, ids=lambda kind: kind.__name__)
def test_nothing_is_refused(
    redis_session: RedisServer, enforcing: EmqProxy, kind: type[Dialect], play: History
) -> None:
    queue = f"{play.__name__}-{kind.__name__.lower()}"
    lines = both_ways(redis_session, enforcing, queue, lambda road: play(road, kind))
    assert {"acquire", "renew", "finish"} <= {line["op"] for line in lines}


def test_elixir_renews_in_a_pipeline_and_in_a_transaction(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    def play(road: Road) -> None:
        producer, worker = road.open(Php), road.open(Elixir)
        producer.add_all("a", "b")
        held = take(worker, "a", "b")
        assert worker.renew_in_a_pipeline(held) == [1, 1, 1, 1]
        assert [worker.finish(job, token) for job, token in held.items()] == [0, 0]

    both_ways(redis_session, enforcing, "elixir-pipeline", play)


def test_a_renewal_that_meets_its_own_finish(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """Which of the two comes first is chance: the renewals' answers need not be the same, and none is ours."""
    queue = "elixir-race"
    with road(redis_session, enforcing.port, queue) as made:
        producer, worker = made.open(Php), made.open(Elixir)
        renewals = set()
        for number in range(20):
            job = f"race-{number}"
            producer.add(job)
            held = take(worker, job)
            assert worker.renew(held) == []
            renewals.add(worker.renew_and_finish_at_once(job, held[job]))
    assert renewals <= {0, 1}
    lines = [line for line in lines_so_far(enforcing) if line["queue"] == queue]
    assert sum(line["op"] == "finish" for line in lines) == 20
    assert [line for line in lines if line["rule"] or line["action"] != "passed"] == []


def test_a_lock_that_echomq_go_deletes_by_hand_stays(redis_session: RedisServer, enforcing: EmqProxy) -> None:
    """Where it cannot pack a finish's options it says LREM and DEL, which ask for no token: DEL is refused and told."""
    queue = "echomq-drop"
    with road(redis_session, enforcing.port, queue) as made:
        producer, worker = made.open(Php), made.open(EchoMqGo)
        producer.add("a")
        held = take(worker, "a")
        removed, answer = worker.drop("a")
        assert removed == 1
        words = "EMQPROXY raw_lock_write DEL on a lock's key outside the protocol's scripts"
        assert str(answer) == words
        assert worker.renew(held) == []
    (line,) = [line for line in lines_so_far(enforcing) if line["queue"] == queue and line["rule"]]
    assert (line["op"], line["job"], line["rule"], line["action"]) == ("raw", "a", "raw_lock_write", "blocked")
