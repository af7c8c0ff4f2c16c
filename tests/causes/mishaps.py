"""What can befall one holding of a lock: each a story that ends in refused calls, with the truth of why told beside.

Each is given a world, and a worker that holds some jobs and has renewed them for a while; one thing goes wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from emqproxy.proxy import clock
from tests.causes import asks
from tests.causes.scene import LostError, Scene
from tests.causes.workers import Held, Worker

Mishap = Callable[[Scene], Awaitable[None]]
TTLS: Final = (1000, 1500, 2000, 2000, 5000, 10_000)


async def crew(w: Scene, share: float | None = 0.5, *, tokens: str = "fresh", ttl_ms: int = 0, most: int = 3) -> Worker:
    """A worker that holds one job or more, and has renewed them for a while or not at all."""
    chance = w.chance
    worker = Worker(w, ttl_ms or chance.choice(TTLS), share, tokens)
    for _ in range(chance.randint(1, most)):
        await worker.take()
        await worker.rest(chance.uniform(0, worker.ttl_ms / 5))
    if share is not None and share < 1 and chance.random() < 0.8:
        await worker.rest(worker.ttl_ms * chance.uniform(0.2, 3))
    return worker


def other(w: Scene, ttl_ms: int = 10_000) -> Worker:
    return Worker(w, ttl_ms)


async def swept(w: Scene, by: Worker) -> None:
    """Two sweeps: the first marks, the second finds."""
    await by.say(asks.sweep())
    await by.rest(w.chance.uniform(1, 30))
    await by.say(asks.sweep())


async def fate(w: Scene, by: Worker) -> None:
    """What becomes of a job whose lock ran out: nothing, or it is put back, or taken by another, who may end it."""
    dice = w.chance.random()
    if dice < 0.4:
        return
    await swept(w, by)
    if dice < 0.65:
        return
    taken = await by.pick()
    while taken is not None and dice > 0.85:
        await by.rest(w.chance.uniform(1, 50))
        await by.finish(taken)
        dice, taken = 0, None


async def speak(w: Scene, worker: Worker, held: Held) -> None:
    """The worker comes back to a job: it ends it, or moves it."""
    if w.chance.random() < 0.8:
        await worker.fail(held)
    else:
        await worker.move(w.chance.choice(("delay", "retry", "back")), held)


# ---------------------------------------------------------------- silence


async def blocked(w: Scene) -> None:
    """Its loop is blocked for longer than the lock; then renewals and results at once, in either order."""
    worker, by = await crew(w, tokens=w.chance.choice(("fresh", "fresh", "own"))), other(w)
    for_ms = worker.ttl_ms * w.chance.uniform(1.05, 3)
    held = list(worker.held)
    blocking = asyncio.ensure_future(worker.block(for_ms))
    await by.rest(worker.ttl_ms * 1.03 + 2)
    await fate(w, by)
    if w.chance.random() < 0.3:
        worker.yielding_ms = w.chance.uniform(0, 4)
    results = [asyncio.ensure_future(worker.fail(each)) for each in held if w.chance.random() < 0.7]
    await blocking
    await asyncio.gather(*results)
    await worker.rest(worker.ttl_ms)


async def blocked_for_less(w: Scene) -> None:
    """Its loop is blocked for less than the lock's time, and longer than was left; or the lock is short."""
    worker = await crew(w, ttl_ms=w.chance.choice((150, 400, 1000, 2000, 5000)))
    held = list(worker.held)
    if w.chance.random() < 0.5:
        worker.chatter()
    if worker.ttl_ms >= 1000:
        await worker.rest(worker.ttl_ms * w.chance.uniform(0, 0.5))
        await worker.block(worker.ttl_ms * w.chance.uniform(0.7, 1.0))
    else:
        await worker.block(worker.ttl_ms * w.chance.uniform(1.05, 2))
    worker.yielding_ms = w.chance.choice((0, 0, 3, 20))
    await worker.rest(w.chance.uniform(0, worker.ttl_ms / 2))
    for each in held:
        await worker.fail(each)
    worker.rest_in_peace()


async def killed(w: Scene) -> None:
    """Nobody is refused anything: the lock lapses, and the job is found."""
    worker, by = await crew(w), other(w)
    worker.plight("link_loss")
    worker.die()
    await by.rest(worker.ttl_ms * 1.1)
    await swept(w, by)
    if (taken := await by.pick()) is not None:
        await by.finish(taken)


async def unlinked(w: Scene) -> None:
    """Its connections are lost, and are there again when the lock is not."""
    worker, by = await crew(w), other(w)
    worker.lose_link(one=w.chance.random() < 0.2)
    await by.rest(worker.ttl_ms * w.chance.uniform(1.05, 3))
    await fate(w, by)
    worker.reconnect()
    if w.chance.random() < 0.5:
        worker.renew()
        await worker.rest(w.chance.uniform(0, 5))
    await speak(w, worker, w.chance.choice(worker.held))


# ---------------------------------------------------------------- renewals


async def never_renews(w: Scene) -> None:
    """Renewals are off; the worker talks, or says nothing until it is done."""
    worker, by = await crew(w, None), other(w)
    worker.plight("renew_config")
    if w.chance.random() < 0.7:
        worker.chatter()
    await by.rest(worker.ttl_ms * w.chance.uniform(1.05, 2))
    await fate(w, by)
    await speak(w, worker, w.chance.choice(worker.held))
    worker.rest_in_peace()


async def renews_too_rarely(w: Scene) -> None:
    """Its interval is longer than the lock; the worker talks, or says nothing but what it must."""
    worker, by = await crew(w, w.chance.uniform(1.1, 2.5)), other(w)
    worker.plight("renew_config")
    if w.chance.random() < 0.7:
        worker.chatter()
    await by.rest(worker.ttl_ms * 1.05)
    await fate(w, by)
    await by.rest(worker.ttl_ms * 1.6)
    if worker.held:
        await speak(w, worker, w.chance.choice(worker.held))
    worker.rest_in_peace()


async def stops_renewing(w: Scene) -> None:
    """Its timer was stopped, as by a close that does not wait for jobs."""
    worker, by = await crew(w), other(w)
    await worker.rest(worker.ttl_ms * 0.7)
    worker.plight("renew_stopped")
    worker.stop_renewing()
    if w.chance.random() < 0.5:
        worker.chatter()
    await by.rest(worker.ttl_ms * w.chance.uniform(1.1, 2))
    await fate(w, by)
    await speak(w, worker, w.chance.choice(worker.held))
    worker.rest_in_peace()


async def late_but_lucky(w: Scene) -> None:
    """Renewals that came late, in time."""
    worker = await crew(w, w.chance.uniform(0.62, 0.97))
    await worker.rest(worker.ttl_ms * w.chance.uniform(1, 3))
    for held in list(worker.held):
        await worker.finish(held)


# ---------------------------------------------------------------- its own doing


async def ends_twice(w: Scene) -> None:
    """It ended the job, and goes on: finishes it again, or returns after a move."""
    worker = await crew(w)
    held = w.chance.choice(worker.held)
    if w.chance.random() < 0.4:
        await worker.finish(held, keep=w.chance.choice((-1, 0)))
    else:
        await worker.move(w.chance.choice(("delay", "retry", "back")), held)
    await worker.rest(w.chance.choice((1.0, 3.0, 200.0, 3000.0)))
    await worker.fail(held)


async def races(w: Scene) -> None:
    """A renewal was on its way when the job was finished."""
    worker = await crew(w, w.chance.choice((None, 0.5)))
    job, token = w.chance.choice(worker.held)
    await worker.finish((job, token))
    if w.chance.random() < 0.5:
        await worker.rest(w.chance.uniform(0, 20))
    await worker.say(asks.renew(job, token, worker.ttl_ms), worker.links[-1])


async def repeats(w: Scene) -> None:
    """Its finish was carried out, and the answer lost with the connection; it says it again on a new one."""
    worker = await crew(w, None)
    held = w.chance.choice(worker.held)
    ask = asks.finish(*held, keep=w.chance.choice((-1, 0))) if w.chance.random() < 0.7 else asks.move("delay", *held)
    sent = worker.link.send(ask)
    while not any(end.op for key, end in w.truth.ended.items() if key == held):
        await worker.rest(0.01)
    for link in worker.links:
        link.over()
    try:
        await sent
    except LostError:
        pass
    worker.reconnect()
    await worker.rest(w.chance.uniform(1, 300))
    await worker.say(ask)


# ---------------------------------------------------------------- others' doing


async def removed(w: Scene) -> None:
    """A client removes a job whose lock has run out, or deletes its key, or obliterates the queue, or empties the
    database."""
    worker, by = await crew(w), other(w)
    link, held = w.link(by), w.chance.choice(worker.held)
    kind = w.chance.choice(("remove", "DEL", "obliterate", "FLUSHDB", "kept nothing"))
    if kind == "remove":
        worker.stop_renewing()
        worker.plight("renew_stopped")
        await by.rest(worker.ttl_ms * 1.1)
        await link.ask(asks.remove(held[0]))
    elif kind == "DEL":  # the lock stays, and its holder renews it as before
        await link.ask(asks.plain(w.chance.choice(("DEL", "UNLINK")), f"emq:orders:{held[0]}"))
        w.truth.gone[held[0]] = "job_removed"
    elif kind == "obliterate":
        await link.ask(asks.pause())
        await link.ask(asks.obliterate())
        for job in list(w.recorder.locks):
            w.recorder.removed(job, "job_removed", clock.now())
    elif kind == "FLUSHDB":
        await link.ask(asks.plain("FLUSHDB"))
        for job in list(w.recorder.locks):
            w.recorder.removed(job, "job_removed", clock.now())
    else:
        worker.stop_renewing()
        worker.plight("renew_stopped")
        await by.rest(worker.ttl_ms * 1.1)
        await swept(w, by)
        while (taken := await by.pick()) is not None:
            await by.finish(taken, keep=0)
    await by.rest(w.chance.uniform(0.5, worker.ttl_ms / 2))
    await worker.fail(held)


async def vanished(w: Scene) -> None:
    """All is gone, and nobody was seen: Redis was emptied past us, or came back empty."""
    worker, by = await crew(w), other(w)
    held = w.chance.choice(worker.held)
    anew = w.chance.random() < 0.5
    for job in list(w.recorder.locks):
        w.recorder.removed(job, "failover_lost_lock" if anew else "job_vanished", clock.now())
    w.aside("FLUSHDB")
    if anew:
        w.lose_redis()
        await by.rest(w.chance.uniform(1, 50))
        worker.reconnect()
    await by.rest(w.chance.uniform(0.5, worker.ttl_ms / 3))
    await worker.fail(held)


async def lock_deleted(w: Scene) -> None:
    """The lock is deleted by hand, through us, past us, or evicted; or lost in a failover that kept the job."""
    heard = w.memory(7)
    worker, by = await crew(w), other(w)
    held = w.chance.choice(worker.held)
    key = b"emq:orders:%s:lock" % held[0].encode()
    how = w.chance.choice(("lock_deleted_by", "deleted_past_us", "evicted", "failover_lost_lock"))
    if how == "evicted" and heard and w.chance.random() < 0.7:
        how = "evicted_and_counted"
    w.recorder.dropped(held[0], how, clock.now())
    if how == "lock_deleted_by":
        await w.link(by).ask(asks.plain(w.chance.choice((b"DEL", b"UNLINK")), key))
    else:
        w.aside("DEL", key)
        w.memory(8 if how == "evicted_and_counted" else 7)
    if how == "failover_lost_lock":
        w.lose_redis()
        worker.reconnect()
    await by.rest(w.chance.uniform(0.5, worker.ttl_ms / 3))
    if w.chance.random() < 0.5:
        await worker.rest(worker.ttl_ms / 2)
    await worker.fail(held)
