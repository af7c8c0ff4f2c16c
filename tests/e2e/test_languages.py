"""Workers of other languages through the proxy: a history of each as it sends it, told line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.e2e.dialects import Dialect, job_id, swept, take
from tests.e2e.languages import DotNet, EchoMqGo, Elixir, GoBullMq, Php, Rust
from tests.processes import EmqProxy, RedisServer, eventually

SHORT_MS = 500
ENOUGH_S = 30.0
WORKERS: list[type[Dialect]] = [Elixir, Rust, DotNet, EchoMqGo, GoBullMq]
SOUND = {"sound"}
NOBODY = {"sound", "doubtful", "unwitnessed"}

Line = dict[str, Any]


class Place(NamedTuple):
    """Where all these tests play: each has a queue of its own."""

    redis: RedisServer
    proxy: EmqProxy

    def lines(self, queue: str, job: str, count: int, *, but: tuple[str, ...] = ("add",)) -> list[Line]:
        """The journal's lines of a job, as soon as there are so many."""

        def look() -> list[Line] | None:
            mine = [line for line in self.proxy.journal() if (line["queue"], line["job"]) == (queue, job)]
            found = [line for line in mine if line["op"] not in but]
            return sorted(found, key=lambda line: line["seq"]) if len(found) >= count else None

        found = eventually(look, ENOUGH_S, f"{count} lines of {job}")
        assert found is not None
        return found


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with RedisServer() as redis, EmqProxy(redis.url, env={"OTEL_TRACES_EXPORTER": "none"}) as proxy:
        yield Place(redis, proxy)


@pytest.fixture
def opened(place: Place) -> Iterator[Any]:
    """Opens dialects on a queue, and closes them; the server has forgotten all scripts."""
    place.redis.call("SCRIPT", "FLUSH")
    made: list[Dialect] = []

    def open_dialect(kind: type[Dialect], queue: str) -> Any:
        made.append(kind(place.proxy.port, f"emq:{queue}:".encode()))
        return made[-1]

    yield open_dialect
    for dialect in made:
        dialect.close()


def ops(lines: list[Line]) -> list[tuple[str, str]]:
    return [(line["op"], line["outcome"]) for line in lines]


@pytest.mark.parametrize("kind", WORKERS, ids=lambda kind: kind.__name__)
def test_a_history_is_told_as_it_was(place: Place, opened: Any, kind: type[Dialect]) -> None:
    queue = kind.__name__.lower()
    producer, worker = opened(Php, queue), opened(kind, queue)
    assert [producer.add("a"), *producer.add_all("b", "c")] == [b"a", b"b", b"c"]
    held = take(worker, "a", "b", "c")
    assert [worker.renew(held), worker.renew(held)] == [[], []]
    targets = {"a": "completed", "b": "failed", "c": "completed"}
    assert [worker.finish(job, held[job], target) for job, target in targets.items()] == [0, 0, 0]
    for job, target in targets.items():
        lines = place.lines(queue, job, 4)
        healthy(lines, kind)
        assert lines[-1]["target"] == target
    assert len({place.lines(queue, job, 4)[0]["token"] for job in targets}) == (1 if kind.one_token else 3)


def healthy(lines: list[Line], kind: type[Dialect]) -> None:
    """Taken once, renewed twice, finished once, under one token, by published scripts, with nobody suspected."""
    assert ops(lines) == [("acquire", "ok"), ("renew", "ok"), ("renew", "ok"), ("finish", "ok")]
    assert len({line["token"] for line in lines}) == 1
    assert {line["finding"] for line in lines} == SOUND
    assert {line["match"] for line in lines} == {"catalogue"}
    assert {line["ttl_ms"] for line in lines[:3]} == {30_000}
    assert {line["grade"] for line in lines[1:3]} == {"on_time"}
    four = kind.package == "bullmq4"
    assert lines[0]["script"] == ("moveToActive-10" if four else "moveToActive-11")
    assert lines[1]["script"] == ("extendLocks-1" if kind in (Elixir, DotNet) else "extendLock-2")
    assert lines[3]["script"] == ("moveToFinished-13" if four else "moveToFinished-14")
    pooled = kind not in (Rust, DotNet)
    assert (len({line["conn"] for line in lines}) > 1) is pooled


@pytest.mark.parametrize("kind", WORKERS, ids=lambda kind: kind.__name__)
def test_a_late_worker_is_told_as_it_was(place: Place, opened: Any, kind: type[Dialect]) -> None:
    queue = f"late-{kind.__name__.lower()}"
    producer, worker = opened(Php, queue), opened(kind, queue)
    producer.add("late")
    token = worker.token()
    assert worker.pick(token, SHORT_MS) == "late"
    assert ops(place.lines(queue, "late", 2)) == [("acquire", "ok"), ("lapse", "told")]
    assert worker.renew({"late": token}) == ["late"]
    if not kind.gives_up:
        assert worker.finish("late", token) == -2
    swept(worker, "late")
    held = take(worker, "late")
    assert worker.renew(held) == []
    assert worker.finish("late", held["late"]) == 0
    refused = [("renew", "refused")] if kind.gives_up else [("renew", "refused"), ("finish", "refused")]
    lines = place.lines(queue, "late", 6 + len(refused))
    again = [("reap", "ok"), ("acquire", "ok"), ("renew", "ok"), ("finish", "ok")]
    assert ops(lines) == [("acquire", "ok"), ("lapse", "told"), *refused, *again]
    for line in lines:
        if line["outcome"] == "refused":
            assert line["finding"] == "straggler"
        elif line["op"] == "reap":  # a refused renewal alone leaves open whether another holds it
            assert line["finding"] == ("unwitnessed" if kind.gives_up else "sound")
        else:
            assert line["finding"] == "sound"
        assert line["match"] == (None if line["op"] == "lapse" else "catalogue")
    assert lines[2]["grade"] == "too_late"
    first, second = lines[0]["token"], lines[-1]["token"]
    assert (first == second) is kind.one_token
    assert {line["token"] for line in lines[: 2 + len(refused)]} == {first}
    assert {line["token"] for line in lines[-3:]} == {second}


def test_elixir_renews_in_a_pipeline_and_in_a_transaction(place: Place, opened: Any) -> None:
    producer, worker = opened(Php, "elixir-pipeline"), opened(Elixir, "elixir-pipeline")
    producer.add_all("a", "b")
    held = take(worker, "a", "b")
    assert worker.renew_in_a_pipeline(held) == [1, 1, 1, 1]
    assert [worker.finish(job, token) for job, token in held.items()] == [0, 0]
    for job in held:
        lines = place.lines("elixir-pipeline", job, 4)
        assert ops(lines) == [("acquire", "ok"), ("renew", "ok"), ("renew", "ok"), ("finish", "ok")]
        assert {line["script"] for line in lines[1:3]} == {"extendLock-2"}
        assert lines[1]["conn"] != lines[2]["conn"]
        assert {line["finding"] for line in lines} == SOUND
        assert len({line["token"] for line in lines}) == 1


def test_elixir_fetches_the_next_job_with_the_finish(place: Place, opened: Any) -> None:
    producer, worker = opened(Php, "elixir-fetch"), opened(Elixir, "elixir-fetch")
    producer.add_all("a", "b", "c")
    token = worker.token()
    assert worker.pick(token) == "a"
    assert [job_id(worker.finish(job, token)) for job in ("a", "b")] == ["b", "c"]
    assert worker.finish("c", token) == 0
    for job in ("a", "b", "c"):
        lines = place.lines("elixir-fetch", job, 2)
        assert ops(lines) == [("acquire", "ok"), ("finish", "ok")]
        assert lines[0]["script"] == ("moveToActive-11" if job == "a" else "moveToFinished-14")
        assert lines[0]["conn"] != lines[1]["conn"]
        assert {line["finding"] for line in lines} == SOUND


def test_a_renewal_that_meets_its_own_finish_is_held_against_nobody(place: Place, opened: Any) -> None:
    """A worker's timer and its job speak at once over two connections: either order is right, none is an offence."""
    queue = "elixir-race"
    producer, worker = opened(Php, queue), opened(Elixir, queue)
    jobs = [f"race-{number}" for number in range(20)]
    renewals = set()
    for job in jobs:
        producer.add(job)
        held = take(worker, job)
        assert worker.renew(held) == []
        renewals.add(worker.renew_and_finish_at_once(job, held[job]))
    assert renewals <= {0, 1}
    for job in jobs:
        lines = place.lines(queue, job, 4)
        assert sorted(line["op"] for line in lines) == ["acquire", "finish", "renew", "renew"]
        assert {line["finding"] for line in lines} <= {"sound", "doubtful"}
        assert {line["grade"] for line in lines if line["op"] == "renew"} <= {"on_time", "unknown"}


def test_a_lock_deleted_by_hand_is_told(place: Place, opened: Any) -> None:
    """echomq-go, where it cannot finish: LREM and DEL, which ask for no token."""
    queue = "echomq-drop"
    producer, worker = opened(Php, queue), opened(EchoMqGo, queue)
    producer.add("a")
    held = take(worker, "a")
    assert worker.renew(held) == []
    assert worker.drop("a") == (1, 1)
    assert worker.renew(held) == ["a"]
    lines = place.lines(queue, "a", 5)
    assert ops(lines) == [("acquire", "ok"), ("renew", "ok"), ("raw", "ok"), ("raw", "ok"), ("renew", "refused")]
    off, raw, after = lines[2:]
    assert (off["script"], off["code"], off["effect"], off["target"]) == ("LREM", 1, "untouched", "active")
    assert (raw["script"], raw["code"], raw["effect"], raw["token"]) == ("DEL", 1, "deleted", None)
    assert raw["finding"] in NOBODY
    # The worker could not know: what it is told of is not its fault.
    assert (after["effect"], after["finding"], after["grade"]) == ("not_mine", "doubtful", "unknown")


def test_php_adds_and_removes(place: Place, opened: Any) -> None:
    queue = "php"
    producer, worker = opened(Php, queue), opened(Rust, queue)
    assert [producer.add("a"), *producer.add_all("b", "c")] == [b"a", b"b", b"c"]
    held = take(worker, "a", "b", "c")
    assert producer.remove("a") == 0
    assert worker.finish("a", held["a"]) == 0
    assert producer.remove("a") == 1
    for job in ("a", "b", "c"):
        added = place.lines(queue, job, 2, but=())[0]
        assert (added["op"], added["script"], added["match"]) == ("add", "addStandardJob-9", "catalogue")
    refused, finished, removed = place.lines(queue, "a", 4)[1:]
    assert (refused["op"], refused["outcome"], refused["code_name"]) == ("remove", "refused", "JobLocked")
    assert ops([finished, removed]) == [("finish", "ok"), ("remove", "ok")]
    assert {line["finding"] for line in (finished, removed)} == SOUND
