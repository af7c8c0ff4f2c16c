"""The calls of one queue: each as it is sent, and what the truth has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgpack

from tests.scripts import talk

Words = list[bytes | None]
LOADED = (
    "moveToActive-11", "moveToFinished-14", "moveToDelayed-11", "retryJob-11", "moveJobFromActiveToWait-9",
    "moveToWaitingChildren-7", "releaseLock-1", "extendLock-2", "extendLocks-1", "moveStalledJobsToWait-9",
    "removeJob-2", "obliterate-2", "updateProgress-3", "pause-7",
)  # fmt: skip


class Ask(NamedTuple):
    """A call; `words` of a lock's time to live, which is another one for a Redis that is not to count it."""

    kind: str
    words: Callable[[object], Words]
    ttl_ms: int = 0
    pairs: tuple[tuple[str, str], ...] = ()
    """(job, token): what it speaks of; of a pickup the token alone, with no job."""
    target: str | None = None
    keep: int = -1

    @property
    def op(self) -> str:
        """The journal's word."""
        return {"pick": "acquire", "renew_all": "renew", "sweep": "reap", "back": "wait", "obliterate": "wipe"}.get(
            self.kind, self.kind
        )


def pick(token: str, ttl_ms: int) -> Ask:
    return Ask("pick", lambda ttl: talk.pick(token, ttl), ttl_ms, (("", token),))


def renew(job: str, token: str, ttl_ms: int) -> Ask:
    return Ask("renew", lambda ttl: talk.renew(job, token, ttl), ttl_ms, ((job, token),))


def renew_all(pairs: Sequence[tuple[str, str]], ttl_ms: int) -> Ask:
    jobs, tokens = [job for job, _ in pairs], [token for _, token in pairs]
    return Ask("renew_all", lambda ttl: talk.renew_all(jobs, tokens, ttl), ttl_ms, tuple(pairs))


def finish(job: str, token: str, target: str = "completed", keep: int = -1, fetch: str = "") -> Ask:
    def words(_: object) -> Words:
        packed = {"token": token, "keepJobs": {"count": keep}, "lockDuration": 1, "attempts": 1, "maxMetricsSize": ""}
        return [*talk.finish(job, token, target=target, fetch=fetch)[:-2], msgpack.packb(packed), b""]

    return Ask("finish", words, 0, ((job, token),), target, keep)


def move(kind: str, job: str, token: str) -> Ask:
    """`delay`, `retry`, `back`, `release` or `wait_children`."""
    made = {
        "delay": lambda _: talk.delay(job, token, 60_000_000),
        "retry": lambda _: talk.retry(job, token),
        "back": lambda _: talk.back(job, token),
        "release": lambda _: talk.release(job, token),
        "wait_children": lambda _: talk.to_children(job, token),
    }
    return Ask(kind, made[kind], 0, ((job, token),))


def progress(job: str) -> Ask:
    names = talk.keys(job, "events", "meta")
    return Ask("write", lambda _: talk.evalsha(talk.sha_of("updateProgress-3"), names, job, "1"), 0, ((job, ""),))


def remove(job: str) -> Ask:
    names, sha = talk.keys(job, f"repeat:{job}"), talk.sha_of("removeJob-2")
    return Ask("remove", lambda _: talk.evalsha(sha, names, job, "0", talk.PREFIX), 0, ((job, ""),))


def pause() -> Ask:
    names = talk.keys("wait", "paused", "meta", "prioritized", "events", "delayed", "marker")
    return Ask("other", lambda _: talk.evalsha(talk.sha_of("pause-7"), names, "paused", "0"))


def obliterate() -> Ask:
    names = [*talk.keys("meta"), talk.PREFIX]
    return Ask("obliterate", lambda _: talk.evalsha(talk.sha_of("obliterate-2"), names, 1000, "force"))


def sweep(limit: int = 100) -> Ask:
    return Ask("sweep", lambda _: talk.sweep(limit))


def plain(*words: bytes | str, kind: str = "other") -> Ask:
    sent: Words = [word if isinstance(word, bytes) else word.encode() for word in words]
    return Ask(kind, lambda _: list(sent))
