"""Elixir, Rust, .NET, Go and PHP on the wire: what each does otherwise than another. No client's code stands here."""

from __future__ import annotations

import uuid
from typing import Any

import hiredis
import msgpack

from tests.e2e.dialects import HEALTHY_MS, NOW_MS, PROPERTY, Dialect, Wire, Words, job_id, sha
from tests.scripts.talk import PICK_KEYS


class Elixir(Dialect):
    """A pool: each call goes over another connection. One token for the process. Batches after SCRIPT LOAD."""

    package = "bullmq5"
    sizes = (3,)
    one_token = True
    gives_up = True
    fetches = "1"

    def hello(self) -> None:
        assert b"redis_version" in self.wires[0].call("INFO", "server")

    def token(self) -> str:
        return self._id

    def renew(self, jobs: dict[str, str], ttl_ms: int = HEALTHY_MS) -> list[str]:
        return [job.decode() for job in self.run("extendLocks-1", self._renewals(jobs, ttl_ms))]

    def renew_in_a_pipeline(self, jobs: dict[str, str]) -> list[Any]:
        """SCRIPT LOAD, then EVALSHA by EVALSHA in one write; on another connection a transaction of the same."""
        text = self.text("extendLock-2")
        assert self.wire().call("SCRIPT", "LOAD", text) == sha(text)
        calls = [("EVALSHA", sha(text), *self._renewal(job, token, HEALTHY_MS)) for job, token in jobs.items()]
        plain = self.wire().pipeline(*calls)
        *queued, done = self.wire().pipeline(("MULTI",), *calls, ("EXEC",))
        assert queued == [b"OK", *[b"QUEUED"] * len(calls)]
        return [*plain, *done]

    def renew_and_finish_at_once(self, job: str, token: str) -> int:
        """Over two connections, neither waits for the other: what the renewal was answered."""
        finishing, renewing = self.wire(), self.wire()
        finishing.write(("EVAL", self.text("moveToFinished-14"), *self._finish(job, token, "completed")))
        renewing.write(("EVAL", self.text("extendLock-2"), *self._renewal(job, token, HEALTHY_MS)))
        assert finishing.read() == 0
        answer: int = renewing.read()
        return answer


class Rust(Dialect):
    """One multiplexed connection; a renewal for each job, whose answer it ignores."""

    fetches = "1"

    def renew(self, jobs: dict[str, str], ttl_ms: int = HEALTHY_MS) -> list[str]:
        sha_, text = sha(self.text("extendLock-2")), self.text("extendLock-2")
        calls = [self._renewal(job, token, ttl_ms) for job, token in jobs.items()]
        wire = self.wire()
        replies = wire.pipeline(*(("EVALSHA", sha_, *call) for call in calls))
        for i, reply in enumerate(replies):
            if isinstance(reply, hiredis.ReplyError):
                assert str(reply).startswith("NOSCRIPT"), reply
                replies[i] = wire.call("EVAL", text, *calls[i])
        return [job for job, reply in zip(jobs, replies, strict=True) if not reply]


class DotNet(Dialect):
    """The library's handshake on two connections; a text's first call is SCRIPT LOAD and EVAL in one write."""

    sizes = (2,)

    def hello(self) -> None:
        commands, subscriptions = self.wires
        self._loaded: set[bytes] = set()
        for wire in self.wires:
            naming = ("CLIENT", "SETNAME", "dotnet"), ("CLIENT", "SETINFO", "LIB-NAME", "SE.Redis")
            wire.pipeline(*naming, ("CLIENT", "ID"))
        commands.pipeline(
            ("CONFIG", "GET", "slave-read-only"), ("CONFIG", "GET", "databases"), ("INFO", "replication"),
            ("INFO", "server"), ("CLUSTER", "NODES"), ("GET", "__Booksleeve_TieBreak"),
        )  # fmt: skip
        for wire in self.wires:
            assert wire.call("ECHO", self._id) == self._id.encode()
        subscriptions.call("SUBSCRIBE", "__Booksleeve_MasterChanged")
        assert commands.call("PING") == b"PONG"

    def wire(self) -> Wire:
        return self.wires[0]

    def run(self, label: str, rest: Words) -> Any:
        text = self.text(label)
        if text in self._loaded:
            return self.wire().call("EVALSHA", sha(text), *rest)
        self._loaded.add(text)
        loaded, reply = self.wire().pipeline(("SCRIPT", "LOAD", text), ("EVAL", text, *rest))
        assert loaded == sha(text)
        return reply

    def renew(self, jobs: dict[str, str], ttl_ms: int = HEALTHY_MS) -> list[str]:
        return [job.decode() for job in self.run("extendLocks-1", self._renewals(jobs, ttl_ms))]


class EchoMqGo(Dialect):
    """A pool; a bare uuid for each job; a renewal for each job by its own goroutine."""

    package = "bullmq5"
    sizes = (4,)

    def token(self) -> str:
        return str(uuid.uuid4())

    def drop(self, job: str) -> tuple[int, int]:
        """What it does where it cannot pack a finish's options: no script, no token."""
        return (
            self.wire().call("LREM", self.prefix + b"active", 1, job),
            self.wire().call("DEL", self.prefix + job.encode() + b":lock"),
        )


class GoBullMq(Dialect):
    """The layouts of 4.x, EVAL always; it may wait in BLMOVE, and then acquires the job by its id."""

    package = "bullmq4"
    sizes = (2,)

    def hello(self) -> None:
        assert self.wires[0].call("CLIENT", "SETNAME", "bull:b3JkZXJz") == b"OK"

    def run(self, label: str, rest: Words) -> Any:
        reply = self.wire().call("EVAL", self.text(label), *rest)
        assert not isinstance(reply, hiredis.ReplyError), reply
        return reply

    def pick(self, token: str, ttl_ms: int = HEALTHY_MS) -> str | None:
        packed = msgpack.packb({"token": token, "lockDuration": ttl_ms})
        moved = self.wire().call("BLMOVE", self.prefix + b"wait", self.prefix + b"active", "RIGHT", "LEFT", 1)
        assert moved is not None
        call = self._keyed(PICK_KEYS[:10], self.prefix, NOW_MS, moved, packed)
        return job_id(self.run("moveToActive-10", call))

    def finish(self, job: str, token: str, target: str = "completed") -> Any:
        names = (*PICK_KEYS[:10], target, job, f"metrics:{target}")
        args = (job, NOW_MS, PROPERTY[target], "null", target, "{}", "0", self.prefix, self._packed(token))
        return self.run("moveToFinished-13", self._keyed(names, *args))

    def sweep(self) -> list[str]:
        names = ("stalled", "wait", "active", "failed", "stalled-check", "meta", "paused", "events")
        failed, moved = self.run("moveStalledJobsToWait-8", self._keyed(names, 1, self.prefix, NOW_MS, 1))
        assert failed == []
        return [job.decode() for job in moved]


class Php(Dialect):
    """A producer and administrator, no worker: EVAL always."""

    def run(self, label: str, rest: Words) -> Any:
        return self.wire().call("EVAL", self.text(label), *rest)

    def add(self, job: str) -> Any:
        return self.run("addStandardJob-9", self._addition(job))

    def add_all(self, *jobs: str) -> list[Any]:
        """In a transaction."""
        calls = [("EVAL", self.text("addStandardJob-9"), *self._addition(job)) for job in jobs]
        done: list[Any] = self.wire().pipeline(("MULTI",), *calls, ("EXEC",))[-1]
        return done

    def remove(self, job: str) -> Any:
        return self.run("removeJob-2", self._keyed((job, "repeat"), job, "1", self.prefix))

    def _addition(self, job: str) -> Words:
        names = ("wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker")
        told = [self.prefix.decode(), job, "n", NOW_MS, None, None, None, None, None]
        return self._keyed(names, msgpack.packb(told), "{}", msgpack.packb({"jobId": job, "attempts": 1}))
