"""A worker's calls by hand, over one connection that counts: all that can happen to a lock, and what Redis refuses."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Sequence
from typing import Any

import hiredis
import msgpack

from tests.processes import LOOPBACK, EmqProxy, eventually, inline
from tests.scripts.talk import (
    PREFIX,
    back,
    delay,
    evalsha,
    finish,
    keys,
    lock,
    pick,
    release,
    renew,
    renew_all,
    retry,
    sha_of,
    sweep,
    text_of,
)

PASSWORD, SECRET = "canary-password-1b7e", "canary-payload-90ac"
TOKEN = "c4a4a49e-1111-4222-8333-canary0token"
JOB = "canary-job"
SHORT_MS = 700
MAIL = b"bull:mail:"
SCRIPTS = (
    "addStandardJob-9", "moveToActive-11", "extendLock-2", "extendLocks-1", "moveToFinished-14", "moveToDelayed-11",
    "retryJob-11", "moveJobFromActiveToWait-9", "releaseLock-1", "moveStalledJobsToWait-9", "removeJob-2",
)  # fmt: skip
ADD_KEYS = ("wait", "paused", "meta", "id", "completed", "delayed", "active", "events", "marker")


class Client:
    """One connection through the proxy, which counts what goes over it."""

    def __init__(self, port: int) -> None:
        self.sent_bytes = self.got_bytes = 0
        self.calls: Counter[tuple[str]] = Counter()
        """Script calls that were answered, by script."""
        self._socket = socket.create_connection((LOOPBACK, port), timeout=20)
        self._reader = hiredis.Reader()
        self._names = {sha_of(label): label for label in SCRIPTS}

    def ask(self, sent: Sequence[bytes | str | int | None]) -> Any:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in sent if word is not None]
        data = inline(*words)
        self._socket.sendall(data)
        self.sent_bytes += len(data)
        while (reply := self._reader.gets()) is False:
            got = self._socket.recv(65_536)
            self.got_bytes += len(got)
            self._reader.feed(got)
        if words[0] == b"evalsha":
            self.calls[(self._names[words[1]],)] += 1
        return reply

    def close(self) -> None:
        self._socket.close()


def add(job: str, prefix: bytes = PREFIX) -> list[bytes | None]:
    packed = msgpack.packb([prefix.decode(), job, "resize", 17, None, None, None, None, None])
    data = f'{{"secret":"{SECRET}"}}'
    return evalsha(sha_of("addStandardJob-9"), keys(*ADD_KEYS, prefix=prefix), packed, data, msgpack.packb({}))


def remove(job: str) -> list[bytes | None]:
    return evalsha(sha_of("removeJob-2"), keys(job, "repeat"), job, "0", PREFIX)


def play(client: Client, proxy: EmqProxy) -> None:
    """All that can happen to a lock, and what Redis refuses besides."""
    ask = client.ask
    assert ask(["AUTH", PASSWORD]) == b"OK"
    assert "NOSCRIPT" in str(ask(pick(f"{TOKEN}:0")))
    for label in SCRIPTS:
        ask(["SCRIPT", "LOAD", text_of(label)])
    ask(["EVAL", "return 1", 1, PREFIX + b"meta"])  # nobody knows it
    for number in range(6):
        ask(add(f"{JOB}-{number}"))
    for number in range(2):
        ask(add(f"{JOB}-mail-{number}", MAIL))
    ask(pick(f"{TOKEN}:1", 10 * 60_000, MAIL))  # held to the end
    for number in range(3):
        assert ask(pick(f"{TOKEN}:{number}"))[1] == f"{JOB}-{number}".encode()
    for _ in range(3):
        assert ask(renew(f"{JOB}-0", f"{TOKEN}:0")) == 1
    assert ask(renew_all([f"{JOB}-1", f"{JOB}-2", f"{JOB}-9"], [f"{TOKEN}:1", f"{TOKEN}:2", "x"])) == [
        f"{JOB}-9".encode()
    ]
    assert ask(renew(f"{JOB}-0", "another")) == 0
    assert ask(remove(f"{JOB}-0")) == 0
    assert ask(finish(f"{JOB}-0", "another")) == -6
    assert ask(finish(f"{JOB}-0", f"{TOKEN}:0", fetch="1", ttl_ms=SHORT_MS))[1] == f"{JOB}-3".encode()
    # Late, if it comes in time at all: of a lock of 700 ms, half a second has passed.
    eventually(lambda: ask(["PTTL", lock(f"{JOB}-3").key]) < 0.3 * SHORT_MS, what="a lock that is nearly over")
    ask(renew(f"{JOB}-3", f"{TOKEN}:0", SHORT_MS))
    ask(pick(f"{TOKEN}:2", 2 * SHORT_MS, MAIL))  # nobody speaks for it again
    proxy.wait_journal(lambda line: line["op"] == "lapse" and line["job"] == f"{JOB}-mail-1")
    assert ask(renew(f"{JOB}-3", f"{TOKEN}:0", SHORT_MS)) == 0
    ask(sweep())
    eventually(lambda: ask(["EXISTS", PREFIX + b"stalled-check"]) == 0, what="a sweep may run again")
    ask(sweep())
    assert ask(finish(f"{JOB}-3", f"{TOKEN}:0")) < 0
    assert ask(finish(f"{JOB}-1", f"{TOKEN}:1", target="failed")) == 0
    ask(delay(f"{JOB}-2", f"{TOKEN}:2"))
    for token, give_back in (("4", retry), ("5", back), ("6", release)):
        job = ask(pick(f"{TOKEN}:{token}"))[1].decode()
        ask(give_back(job, f"{TOKEN}:{token}"))
    held = ask(pick(f"{TOKEN}:7"))[1].decode()
    ask(["DEL", lock(held).key])
    ask(["SET", b"bull:broken:wait", "no list"])
    assert "WRONGTYPE" in str(ask(pick(f"{TOKEN}:8", prefix=b"bull:broken:")))
    ask(pick(f"{TOKEN}:9", prefix=b"bull:empty:"))
