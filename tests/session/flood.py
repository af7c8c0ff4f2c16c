"""A pipeline that is written whole before one answer is given, through a real emqproxy: what comes back, what it took.

`python -m tests.session.flood` prints it for 600,000 commands of each kind; the tests send fewer of the costly ones.
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.processes import LOOPBACK, EmqProxy, RedisServer
from tests.session.talk import words

END = b"$7\r\nthe end\r\n"
EXTEND_LOCK = "dc9605328a4cc37f68acbf27cdd42e393f7b762e"
"""A published renewal script; that this Redis does not have it changes nothing for us: its answer is an error."""

KINDS = {
    "ping": words("PING"),
    "get": words("GET", "k"),
    "unknown script": words("EVALSHA", "f" * 40, 1, "app:1"),
    "on a lock": words("EVALSHA", "f" * 40, 1, "emq:q:1:lock"),
    "renewal": words("EVALSHA", EXTEND_LOCK, 2, "emq:q:1:lock", "emq:q:stalled", "t:1", 30000, 1),
    "select": words("SELECT", 0),
    "transaction": words("MULTI") + words("EXEC"),
    "raw write": words("SET", "emq:q:1:lock", "t"),
}


class Flood(NamedTuple):
    """What became of it."""

    answers: int
    lines: int
    """Line ends in all that came: each kind's answer has as many."""
    before_kb: int
    peak_kb: int
    """Of the proxy's resident memory: before, and the most it ever was."""
    took_s: float


def memory_kb(proxy: EmqProxy, row: str) -> int:
    """A row of the process's memory account: `VmRSS` now, `VmHWM` at most."""
    status = Path(f"/proc/{proxy.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{row}:")))


def flood(redis: RedisServer, proxy: EmqProxy, kind: str, count: int) -> Flood:
    """Writes all of it behind a call that blocks, then lets that go and reads: whole when the end has been answered."""
    before, began = memory_kb(proxy, "VmRSS"), time.monotonic()
    lines, tail = 0, b""
    with socket.create_connection((LOOPBACK, proxy.port), timeout=100) as conn:
        conn.sendall(words("BLPOP", "gate", 0))
        left = count
        while left:
            step = min(left, 10_000)
            conn.sendall(KINDS[kind] * step)
            left -= step
        conn.sendall(words("ECHO", "the end"))
        redis.call("LPUSH", "gate", "open")
        while not tail.endswith(END):
            piece = conn.recv(1 << 20)
            assert piece, "closed before the end"
            lines += piece.count(b"\n")
            tail = (tail + piece)[-len(END) :]
    return Flood(count, lines - 7, before, memory_kb(proxy, "VmHWM"), time.monotonic() - began)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000
    for kind in KINDS:
        with RedisServer() as redis, EmqProxy(redis.url) as proxy:
            found = flood(redis, proxy, kind, count)
            blind = sorted({line["reason"] for line in proxy.log if "cannot be followed" in line.get("event", "")})
            print(f"{kind:15s} {found.lines:8d} lines, {found.took_s:6.1f} s, RSS {found.before_kb / 1024:.0f} "
                  f"to {found.peak_kb / 1024:.0f} MiB, blind: {blind}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
