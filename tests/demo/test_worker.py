"""The reference worker on a real Redis: what it takes, renews, finishes and tries again, and what it does when a job is
no longer its own."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter

import pytest

from emqproxy.demo.worker import Job, UnrecoverableError
from emqproxy.scripts import texts
from tests.demo.queues import LOCK_MS, Queue, play, until


class Hands:
    """A process whose jobs stay at work until the test lets them go."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []
        self.stubborn = False
        self._go: dict[str, asyncio.Event] = {}
        self._began = asyncio.Condition()

    async def process(self, job: Job) -> str:
        async with self._began:
            self.jobs.append(job)
            self._began.notify_all()
        try:
            await self.gate(job.id).wait()
        except asyncio.CancelledError:
            self.cancelled.append(job.id)
            if not self.stubborn:
                raise
        return "done"

    def gate(self, job_id: str) -> asyncio.Event:
        return self._go.setdefault(job_id, asyncio.Event())

    async def begun(self, count: int) -> Job:
        """Waits until so many were begun; the last of those."""
        async with self._began:
            await self._began.wait_for(lambda: len(self.jobs) >= count)
        return self.jobs[count - 1]


def test_a_job_is_locked_renewed_and_finished(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one", data={"a": 1})
        async with queue.worker(hands.process, renew_ms=50, name="w1"):
            job = await hands.begun(1)
            assert (job.id, job.name, job.data, job.attempts_made, job.stalled) == ("one", "n", {"a": 1}, 0, 0)
            assert uuid.UUID(job.token).version == 4
            assert await queue.renewals("one", 3) == {job.token}
            assert await queue.client.pttl(queue.key("one:lock")) <= LOCK_MS
            hands.gate("one").set()
            await until(queue.is_in, "completed", "one")
            assert await queue.is_unlocked("one")
            assert await queue.hash("one", "returnvalue", "pb", "atm", "failedReason") == ['"done"', "w1", "1", None]

    play(queue, story())


def test_a_finish_fetches_the_next_job_under_the_same_token(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one")
        await queue.add("two")
        async with queue.worker(hands.process):
            first = await hands.begun(1)
            hands.gate("one").set()
            second = await hands.begun(2)
            assert (second.id, second.token) == ("two", first.token)
            hands.gate("two").set()
            await until(queue.is_in, "completed", "one", "two")
            await queue.add("three")
            third = await hands.begun(3)
            assert third.token != first.token
            hands.gate("three").set()
            await until(queue.is_in, "completed", "three")

    play(queue, story())


def test_all_jobs_held_are_renewed_in_one_call(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        for job_id in ("a", "b", "c", "d"):
            await queue.add(job_id)
        async with queue.worker(hands.process, concurrency=3, renew_ms=50), queue.client.monitor() as monitor:
            await hands.begun(3)
            batches: list[set[str]] = []
            while not batches or len(batches[-1]) < 3:
                command = (await monitor.next_command())["command"]
                if command.upper().startswith(f"EVALSHA {texts.load('extendLocks-1').sha}".upper()):
                    batches.append(set())
                elif batches and command.startswith("GET ") and command.endswith(":lock"):
                    batches[-1].add(command)
            assert [job.id for job in hands.jobs] == ["a", "b", "c"]  # no more at a time than it may
            for job_id in ("a", "b", "c", "d"):
                hands.gate(job_id).set()
            await until(queue.is_in, "completed", "a", "b", "c", "d")

    play(queue, story())


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancelled", "that goes on"])
def test_a_job_whose_renewal_is_refused_is_cancelled_and_not_finished(
    queue: Queue, stubborn: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        hands = Hands()
        hands.stubborn = stubborn
        await queue.add("lost")
        async with queue.worker(hands.process, renew_ms=50) as worker:
            await hands.begun(1)
            await queue.client.set(queue.key("lost:lock"), "another's")
            await until(cancelled, hands, "lost")
            await queue.add("next")
            await hands.begun(2)  # the worker goes on
            assert await queue.state("lost") == "active"
            assert await queue.hash("lost", "returnvalue", "failedReason", "finishedOn", "atm") == [None] * 4
            assert await queue.client.get(queue.key("lost:lock")) == "another's"
            assert any(f"{worker.name}: job lost is lost" in line for line in caplog.messages)
            hands.gate("next").set()
            await until(queue.is_in, "completed", "next")

    play(queue, story())


def test_whoever_gets_its_own_job_again_has_lost_it_before(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one")
        async with queue.worker(hands.process, renew_ms=LOCK_MS, stalled_ms=50, concurrency=2):
            first = await hands.begun(1)
            await queue.client.delete(queue.key("one:lock"))
            second = await hands.begun(2)
            assert (second.id, second.stalled, second.token != first.token) == ("one", 1, True)
            await until(cancelled, hands, "one")
            hands.gate("one").set()
            await until(queue.is_in, "completed", "one")
            assert await queue.hash("one", "atm", "stc") == ["1", "1"]

    play(queue, story())


async def cancelled(hands: Hands, job_id: str) -> bool:
    return job_id in hands.cancelled


def test_a_failed_job_waits_for_its_next_attempt(queue: Queue) -> None:
    async def story() -> None:
        async def fail(job: Job) -> None:
            raise RuntimeError(f"why {job.id}")

        await queue.add("later", attempts=2, backoff_ms=60_000)
        async with queue.worker(fail):
            await until(queue.is_in, "delayed", "later")
            assert await queue.hash("later", "failedReason", "atm", "delay") == ["why later", "1", "60000"]
            assert await queue.is_unlocked("later")
            begun, score = await queue.client.hget(queue.key("later"), "processedOn"), await due_ms(queue, "later")
            assert score - int(begun or 0) >= 60_000

    play(queue, story())


async def due_ms(queue: Queue, job_id: str) -> float:
    score = await queue.client.zscore(queue.key("delayed"), job_id)
    assert score is not None
    return float(score) / 4096


@pytest.mark.parametrize("backoff_ms", [0, 20])
def test_a_job_is_tried_until_it_succeeds_or_has_no_attempt_left(queue: Queue, backoff_ms: int) -> None:
    async def story() -> None:
        made: dict[str, list[int]] = {"good": [], "bad": [], "hopeless": []}

        async def fail(job: Job) -> int:
            made[job.id].append(job.attempts_made)
            if job.id == "hopeless":
                raise UnrecoverableError("no use")
            if job.id == "bad" or job.attempts_made < 2:
                raise RuntimeError(f"attempt {job.attempts_made}")
            return 1

        for job_id in made:
            await queue.add(job_id, attempts=3, backoff_ms=backoff_ms)
        async with queue.worker(fail):
            await until(queue.is_in, "completed", "good")
            await until(queue.is_in, "failed", "bad", "hopeless")
        assert made == {"good": [0, 1, 2], "bad": [0, 1, 2], "hopeless": [0]}
        assert await queue.hash("good", "atm", "returnvalue") == ["3", "1"]
        assert await queue.hash("bad", "atm", "failedReason", "returnvalue") == ["3", "attempt 2", None]
        assert await queue.hash("hopeless", "atm", "failedReason") == ["1", "no use"]
        traces = json.loads((await queue.hash("bad", "stacktrace"))[0] or "")
        assert [trace.rstrip().rpartition("\n")[2] for trace in traces] == [
            f"RuntimeError: attempt {made}" for made in range(3)
        ]
        events = Counter([told["event"] for _, told in await queue.client.xrange(queue.key("events"))])
        assert events["delayed"] == (4 if backoff_ms else 0)
        assert (events["completed"], events["failed"]) == (1, 2)

    play(queue, story())


def test_what_is_no_result_or_no_job_fails_and_the_worker_goes_on(queue: Queue) -> None:
    async def story() -> None:
        async def process(job: Job) -> object:
            if job.id == "cancels":
                raise asyncio.CancelledError
            return {1, 2} if job.id == "set" else float("nan") if job.id == "nan" else "fine"

        for job_id in ("set", "nan", "broken", "cancels"):
            await queue.add(job_id)
        await queue.client.hset(queue.key("broken"), "data", "no json")
        await queue.client.lpush(queue.key("wait"), "ghost")
        await queue.add("good")
        async with queue.worker(process):
            await until(queue.is_in, "completed", "good")
            await until(queue.is_in, "failed", "set", "nan", "broken", "ghost", "cancels")
        reasons = [(await queue.hash(job_id, "failedReason"))[0] for job_id in ("set", "broken", "ghost", "cancels")]
        for reason, word in zip(reasons, ("serializable", "cannot be read", "gone", "cancelled"), strict=True):
            assert word in str(reason)

    play(queue, story())


def test_a_delayed_job_is_taken_when_it_is_due(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        async with queue.worker(hands.process):
            await until(blocked, queue)
            await queue.add("later", delay_ms=200)
            await hands.begun(1)
            added, begun = await queue.hash("later", "timestamp", "processedOn")
            assert int(begun or 0) - int(added or 0) >= 200
            hands.gate("later").set()
            await until(queue.is_in, "completed", "later")

    play(queue, story())


def test_a_limiter_is_waited_for_and_not_the_marker(queue: Queue) -> None:
    async def story() -> None:
        seen: list[bool] = []

        async def process(job: Job) -> None:
            seen.append("cmdstat_bzpopmin" in await queue.client.info("commandstats"))

        await queue.client.hset(queue.key("meta"), mapping={"max": 1, "duration": 150})
        await queue.add("one")
        await queue.add("two")
        await queue.client.config_resetstat()
        async with queue.worker(process):
            await until(queue.is_in, "completed", "one", "two")
        begun = [int((await queue.hash(job_id, "processedOn"))[0] or 0) for job_id in ("one", "two")]
        assert seen == [False, False]
        assert begun[1] - begun[0] >= 100  # the limiter counts by the server's clock, the job's time is the worker's

    play(queue, story())


async def blocked(queue: Queue) -> bool:
    """Whether a worker waits on a marker."""
    return any(client["cmd"] == "bzpopmin" and "b" in client["flags"] for client in await queue.client.client_list())
