"""More of what can befall: strangers' tokens, errors, slowness, our own pauses, jobs that are not as they should be."""

from __future__ import annotations

import asyncio
from typing import Final

from emqproxy.proxy import clock
from tests.causes import asks, mishaps
from tests.causes.mishaps import Mishap, crew, other, speak, swept
from tests.causes.scene import Scene
from tests.causes.truth import Ending
from tests.causes.workers import Worker


async def granted_twice(w: Scene) -> None:
    """The id is pushed by hand while its lock lives, through us or past us, and another worker is given it."""
    worker, by = await crew(w), other(w)
    job, token = w.chance.choice(worker.held)
    await by_hand(w, by, "LREM", "emq:orders:active", "0", job)
    await by_hand(w, by, "LPUSH", "emq:orders:wait", job)
    taken = await by.pick()
    assert taken is not None
    await by.rest(w.chance.uniform(0.5, worker.ttl_ms / 2))
    if w.chance.random() < 0.3:
        await by.finish(taken)
    await worker.fail((job, token))


async def by_hand(w: Scene, by: Worker, *words: str) -> None:
    """Somebody's own command, which the sidecar sees or does not."""
    if w.chance.random() < 0.5:
        w.aside(*words)
    else:
        await w.link(by).ask(asks.plain(*words))


async def bypassed(w: Scene) -> None:
    """A stranger moves the job with the token "0"; the owner's renewals still succeed, its finish does not."""
    worker, by = await crew(w), other(w)
    job, token = w.chance.choice(worker.held)
    await by.say(asks.finish(job, "0", target="failed"))
    await by.rest(w.chance.uniform(0.5, worker.ttl_ms))
    await worker.fail((job, token))


# ---------------------------------------------------------------- strangers


async def strange_token(w: Scene) -> None:
    """A token that nobody was given, an empty one, an old one of the same worker."""
    worker, by = await crew(w), other(w)
    job = w.chance.choice(worker.held)[0]
    kind = w.chance.choice(("invented", "empty", "suffix"))
    said = {"invented": "made:up", "empty": "", "suffix": f"{worker.name}:99"}[kind]
    speaker = worker if kind == "suffix" else by
    ask = asks.finish(job, said) if w.chance.random() < 0.5 else asks.renew(job, said, by.ttl_ms)
    await speaker.say(ask)
    if kind != "empty" and w.chance.random() < 0.5:
        await speaker.say(asks.move("delay", job, said))
    await worker.rest(worker.ttl_ms / 2)
    for held in list(worker.held):
        await worker.finish(held)


async def one_token(w: Scene) -> None:
    """Two workers with one token: the second pickup voids the fence."""
    worker = await crew(w, None, tokens="SAME", most=1)
    second = Worker(w, worker.ttl_ms, None, "SAME")
    await second.rest(worker.ttl_ms * 1.2)
    await swept(w, second)
    await second.pick()


async def before_us(w: Scene) -> None:
    """The job was given out before we began to watch; then its lock is lost."""
    job, token = w.add(), "old:1"
    w.truth.unseen.add((job, token))
    w.aside("LREM", "emq:orders:wait", "0", job)
    w.aside("LPUSH", "emq:orders:active", job)
    w.aside("HSET", f"emq:orders:{job}", "ats", "1")
    worker = Worker(w, 2000, None)
    await worker.rest(w.chance.uniform(1, 20_000))
    if w.chance.random() < 0.5:
        await worker.say(asks.renew(job, token, 2000))
    await worker.say(asks.finish(job, token))


# ---------------------------------------------------------------- Redis


async def refused_by_redis(w: Scene) -> None:
    """Redis refuses to write for a while; what it refused did not happen, and locks run out of it."""
    worker, by = await crew(w), other(w)
    worker.plight("server_refused")
    by.plight("server_refused")
    w.refuses = w.chance.choice(("OOM", "READONLY", "BUSY", "LOADING", "MASTERDOWN", "NOPERM"))
    await worker.rest(worker.ttl_ms * w.chance.uniform(0.6, 2))
    w.refuses = None
    await worker.rest(worker.ttl_ms * w.chance.uniform(0, 0.2))
    await speak(w, worker, w.chance.choice(worker.held))


async def wrong_type(w: Scene) -> None:
    """Another release's layout, or another program's key."""
    worker = await crew(w, None)
    w.recorder.erring = "script_mismatch"
    w.aside("DEL", "emq:orders:stalled")
    w.aside("SET", "emq:orders:stalled", "x")
    job, token = w.chance.choice(worker.held)
    await worker.say(asks.renew(job, token, worker.ttl_ms))


async def bad_pickup(w: Scene) -> None:
    """A lock without a duration: an error, and the job is in the active list without a lock."""
    worker = await crew(w, None)
    w.recorder.erring = "pickup_failed_dirty"
    w.add()
    await worker.say(asks.pick("t:1", 0))


async def slow(w: Scene) -> None:
    """Redis stands still: a renewal that was sent in time is carried out too late."""
    worker = await crew(w, 0.5)
    worker.plight("slow_redis")
    held = w.chance.choice(worker.held)
    w.stall_redis(worker.ttl_ms * w.chance.uniform(1.2, 2))
    if w.chance.random() < 0.3:
        await worker.finish(held)
    else:
        await worker.rest(worker.ttl_ms * 2.5)
        await speak(w, worker, held)


async def own_pause(w: Scene) -> None:
    """We stand still for longer than a lock lives: no fault of the worker's."""
    worker = await crew(w, w.chance.choice((0.25, 0.5)))
    for_ms = worker.ttl_ms * w.chance.uniform(1.1, 2)
    worker.plight("proxy_pause")
    w.pause(for_ms)
    if w.chance.random() < 0.3:  # the answer to a pickup lies here while its lock runs out
        w.add()
        asking = asyncio.ensure_future(worker.pick())
        await worker.rest(for_ms + 5)
        if (late := await asking) is not None:
            w.truth.plight[late] = "proxy_pause"
    finish = w.chance.random() < 0.5
    held = w.chance.choice(worker.held)
    if finish:
        await worker.rest(for_ms * w.chance.uniform(0, 1))
        await worker.fail(held)
    else:
        await worker.rest(for_ms + 5)
        await worker.rest(w.chance.uniform(0, worker.ttl_ms))
        await speak(w, worker, held)


# ---------------------------------------------------------------- jobs


async def ghost(w: Scene) -> None:
    """An id without a job is given out."""
    worker = await crew(w, None)
    w.aside("LPUSH", "emq:orders:wait", "900")
    await worker.pick()


async def too_often(w: Scene) -> None:
    """A job that is found without a lock too often is failed by whoever takes it."""
    worker = await crew(w, None, most=1)
    by = other(w)
    worker.plight("renew_config")
    await by.rest(worker.ttl_ms * 1.1)
    await by.say(asks.sweep(0))
    await by.say(asks.sweep(0))
    await by.pick()


async def has_children(w: Scene) -> None:
    """Its children are not done, or it has none to wait for: nothing was lost."""
    worker = await crew(w)
    held = w.chance.choice(worker.held)
    if w.chance.random() < 0.6:
        w.aside("SADD", f"emq:orders:{held[0]}:dependencies", "emq:orders:77")
        await worker.say(asks.finish(*held))
        w.aside("DEL", f"emq:orders:{held[0]}:dependencies")
    else:
        await worker.say(asks.move("wait_children", *held))
    await worker.rest(worker.ttl_ms)
    await worker.finish(held)


async def off_the_list(w: Scene) -> None:
    """The id is taken off the active list by hand: the finish says so, and takes the lock along."""
    worker, by = await crew(w), other(w)
    held = w.chance.choice(worker.held)
    await by_hand(w, by, "LREM", "emq:orders:active", "0", held[0])
    w.truth.plight[held] = "not_in_active"
    w.truth.end(*held, Ending(clock.now(), "not_in_active"))
    await worker.finish(held)


async def taken_by_itself(w: Scene) -> None:
    """The worker picks its own lost job again, under another suffix, and then ends the first attempt."""
    worker, by = await crew(w, None, most=1), other(w)
    worker.plight("renew_config")
    worker.chatter()
    first = worker.held[0]
    await by.rest(worker.ttl_ms * w.chance.uniform(1.1, 1.5))
    await swept(w, by)
    await worker.pick()
    await worker.rest(w.chance.uniform(0, worker.ttl_ms / 2))
    await worker.fail(first)
    worker.rest_in_peace()


async def two_at_once(w: Scene) -> None:
    """Two causes close by: one worker is blocked while something else befalls another."""
    second = w.chance.choice((mishaps.ends_twice, mishaps.races, mishaps.late_but_lucky, strange_token, has_children))
    await asyncio.gather(mishaps.blocked(w), second(w))


ALL: Final[tuple[tuple[Mishap, int], ...]] = (
    (mishaps.blocked, 6), (mishaps.blocked_for_less, 4), (mishaps.killed, 1), (mishaps.unlinked, 4),
    (mishaps.never_renews, 3),
    (mishaps.renews_too_rarely, 3), (mishaps.stops_renewing, 4), (mishaps.late_but_lucky, 3),
    (mishaps.ends_twice, 3), (mishaps.races, 3), (mishaps.repeats, 3), (mishaps.removed, 5), (mishaps.vanished, 3),
    (mishaps.lock_deleted, 5), (granted_twice, 3), (bypassed, 3), (strange_token, 5), (one_token, 2),
    (before_us, 2), (refused_by_redis, 3), (wrong_type, 2), (bad_pickup, 2), (slow, 3), (own_pause, 4), (ghost, 2),
    (too_often, 2), (has_children, 2), (off_the_list, 2), (taken_by_itself, 3), (two_at_once, 2),
)  # fmt: skip
"""With weights."""
