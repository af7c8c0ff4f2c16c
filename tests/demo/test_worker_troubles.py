"""The reference worker where something ends: another worker, its own work, a connection, the server's scripts."""

from __future__ import annotations

import asyncio
import base64

import pytest

from emqproxy.demo.worker import Job, Worker
from tests.demo.queues import Queue, play, until
from tests.demo.test_worker import Hands, blocked, cancelled


def test_what_a_dead_worker_left_is_put_back_and_done(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("left")
        await queue.taken_by_one_who_dies("left")
        async with queue.worker(hands.process, stalled_ms=50):
            job = await hands.begun(1)
            assert (job.id, job.stalled, job.attempts_made) == ("left", 1, 0)
            hands.gate("left").set()
            await until(queue.is_in, "completed", "left")
            assert await queue.hash("left", "stc", "atm", "ats", "defa") == ["1", "1", "2", None]

    play(queue, story())


def test_a_job_that_stalled_too_often_fails_unprocessed(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("left", attempts=5)
        await queue.taken_by_one_who_dies("left")
        async with queue.worker(hands.process, stalled_ms=50, max_stalled=0):
            await until(queue.is_in, "failed", "left")
            assert hands.jobs == []
            assert await queue.hash("left", "stc", "atm", "defa") == ["1", "1", None]
            assert "stalled more than" in str((await queue.hash("left", "failedReason"))[0])

    play(queue, story())


def test_to_close_is_to_finish_what_runs_renewed_to_the_end(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        for job_id in ("one", "two", "three"):
            await queue.add(job_id)
        async with queue.worker(hands.process, renew_ms=40, concurrency=2) as worker:
            await hands.begun(2)
            closing = asyncio.create_task(worker.close())
            await asyncio.sleep(0)
            await queue.renewals("one", 3)
            hands.gate("one").set()
            await until(queue.is_in, "completed", "one")
            await queue.renewals("two", 3)
            assert not closing.done()
            hands.gate("two").set()
            await closing
            assert await queue.is_in("completed", "two")
            assert await queue.is_in("wait", "three")  # no more was taken, nor fetched

    play(queue, story())


def test_to_close_by_force_leaves_the_job_to_its_lock(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one")
        async with queue.worker(hands.process) as worker:
            job = await hands.begun(1)
            await worker.close(force=True)
            await until(cancelled, hands, "one")
            assert await queue.is_in("active", "one")
            assert await queue.client.get(queue.key("one:lock")) == job.token
            assert await queue.hash("one", "failedReason", "returnvalue", "atm") == [None] * 3

    play(queue, story())


def test_a_worker_that_waits_closes_and_its_connections_end(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        async with queue.worker(hands.process, name="gone") as worker:
            await until(blocked, queue)
            assert sorted(await names(queue, "gone")) == ["emq:" + encoded(queue) + ":w:gone", "gone"]
            await worker.close()
            await until(ended, queue, "gone")
        await Worker(queue.url, queue.name, hands.process).close()  # one that never ran

    play(queue, story())


def encoded(queue: Queue) -> str:
    return base64.b64encode(queue.name.encode()).decode()


async def names(queue: Queue, name: str) -> list[str]:
    return [client["name"] for client in await queue.client.client_list() if client["name"].endswith(name)]


async def ended(queue: Queue, name: str) -> bool:
    return not await names(queue, name)


def test_a_worker_whose_task_is_cancelled_leaves_nothing_at_work(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one")
        worker = Worker(queue.url, queue.name, hands.process, name="cut")
        running = asyncio.create_task(worker.run())
        await hands.begun(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await worker.close()
        await until(cancelled, hands, "one")
        await until(ended, queue, "cut")

    play(queue, story())


def test_it_comes_back_after_the_server_killed_its_connections(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one")
        async with queue.worker(hands.process, renew_ms=100, concurrency=2):
            job = await hands.begun(1)
            await until(blocked, queue)
            await queue.client.client_kill_filter(_type="normal", skipme=True)
            assert await queue.renewals("one", 2) == {job.token}
            await queue.add("two")
            await hands.begun(2)
            await queue.client.client_kill_filter(_type="normal", skipme=True)
            for job_id in ("one", "two"):  # over a connection that is no more
                hands.gate(job_id).set()
            await until(queue.is_in, "completed", "one", "two")
            assert await queue.hash("one", "atm", "ats", "stc") == ["1", "1", None]

    play(queue, story())


def test_scripts_that_the_server_forgot_are_sent_anew(queue: Queue) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one", attempts=2, backoff_ms=20)
        async with queue.worker(hands.process, renew_ms=50, stalled_ms=50):
            await hands.begun(1)
            await queue.client.script_flush()
            await queue.renewals("one", 2)
            await queue.client.script_flush()
            hands.gate("one").set()
            await until(queue.is_in, "completed", "one")

    play(queue, story())


def test_an_end_that_redis_will_not_take_now_is_told_again(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one")
        async with queue.worker(hands.process, renew_ms=100) as worker:
            await hands.begun(1)
            await queue.client.config_set("min-replicas-to-write", 1)  # -NOREPLICAS to what writes
            try:
                hands.gate("one").set()
                await until(said, caplog, f"{worker.name}: the end of job one was not answered")
            finally:
                await queue.client.config_set("min-replicas-to-write", 0)
            await until(queue.is_in, "completed", "one")

    play(queue, story())


def test_an_end_that_cannot_be_told_is_given_up_and_the_job_done_anew(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        hands = Hands()
        await queue.add("one")
        async with queue.worker(hands.process, lock_ms=2500, stalled_ms=50) as worker:
            await hands.begun(1)
            await queue.client.config_set("min-replicas-to-write", 1)
            try:
                hands.gate("one").set()
                await until(said, caplog, f"{worker.name}: the end of job one could not be told")
            finally:
                await queue.client.config_set("min-replicas-to-write", 0)
            job = await hands.begun(2)
            assert (job.id, job.stalled, job.attempts_made) == ("one", 1, 0)
            await until(queue.is_in, "completed", "one")

    play(queue, story())


def test_an_end_that_is_refused_is_said_and_the_worker_goes_on(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async def process(job: Job) -> None:
            if job.id == "stolen":
                await queue.client.set(queue.key("stolen:lock"), "another's")

        await queue.add("stolen")
        await queue.add("good")
        async with queue.worker(process) as worker:
            await until(queue.is_in, "completed", "good")
            assert await queue.is_in("active", "stolen")
            assert await said(caplog, f"{worker.name}: the end of job stolen was refused: -6 JobLockMismatch")

    play(queue, story())


@pytest.mark.parametrize("name", ["two words", "ümlaut", "line\n"])
def test_a_name_that_redis_does_not_take_is_refused_at_once(name: str) -> None:
    async def process(job: Job) -> None:
        pass

    with pytest.raises(ValueError, match="without blanks"):
        Worker("redis://127.0.0.1:1", "q", process, name=name)


async def said(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(words in line for line in caplog.messages)
