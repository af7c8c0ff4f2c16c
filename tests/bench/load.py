"""The client: redis-benchmark, which is C and takes a few microseconds a call, whatever it sends.

It puts another number in each place of `__rand_int__`, so that a renewal's lock is one of LOCKS and the job id that
is taken out of `stalled` another: the work is the same.
"""

from __future__ import annotations

import csv
import hashlib
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import bullmq
import hiredis
import msgpack

from tests.bench.contenders import Script, Stage
from tests.bench.meter import pin
from tests.processes import LOOPBACK, inline

PREFIX = b"bench:orders:"
"""Not one of emqproxy's prefixes, so that calls of an unknown script are nobody's; a known one counts everywhere."""
TOKEN = b"5b1f4f0e-6a3c-4a8e-9d53-2f5a7c1f0b61:1"
TTL_MS = 3_600_000
NUMBER = "__rand_int__"
_CHUNK = 500

_COMMANDS = Path(bullmq.__file__).parent / "commands"
OWN_RENEWAL = b"""
local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SREM', KEYS[2], ARGV[3])
return 1
"""
_TEXTS: dict[Script, bytes] = {"own": OWN_RENEWAL, "extendLock": (_COMMANDS / "extendLock-2.lua").read_bytes()}
_PICKUP = (_COMMANDS / "moveToActive-11.lua").read_bytes()
_PICKUP_KEYS = b"wait active prioritized events stalled limiter delayed paused meta pc marker".split()


@dataclass(frozen=True)
class Result:
    """One run of the client."""

    calls: int
    seconds: float
    p50_ms: float
    p99_ms: float
    client_cpu_s: float

    @property
    def per_s(self) -> float:
        return self.calls / self.seconds


def renewal(script: Script, locks: int) -> list[str]:
    """redis-benchmark's words for a renewal of one of the locks."""
    sha = hashlib.sha1(_TEXTS[script]).hexdigest()
    prefix, token = PREFIX.decode(), TOKEN.decode()
    words = ["EVALSHA", sha, "2", f"{prefix}{NUMBER}:lock", f"{prefix}stalled", token, str(TTL_MS), NUMBER]
    return ["-r", str(locks), *words]


def fire(port: int, calls: int, options: list[str], words: list[str], core: int | None = None) -> Result:
    """Runs redis-benchmark to its end; `core` is the only one it may use."""
    command = ["redis-benchmark", "-h", LOOPBACK, "-p", str(port), "-n", str(calls), "--csv", *options, *words]
    popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if core is not None:
            pin([popen.pid], core)
        assert popen.stdout is not None
        assert popen.stderr is not None
        said, complained = popen.stdout.read(), popen.stderr.read()
        _, status, used = os.wait4(popen.pid, 0)
        popen.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if popen.returncode is None:
            popen.kill()
            popen.wait()
        for pipe in (popen.stdout, popen.stderr):
            if pipe is not None:
                pipe.close()
    rows = list(csv.reader(said.splitlines()))
    if popen.returncode or not rows or len(rows[-1]) < 8:
        raise RuntimeError(f"redis-benchmark: {said[-300:]} {complained[-300:]}")
    row = dict(zip(("name", "per_s", "avg", "min", "p50", "p95", "p99", "max"), rows[-1], strict=True))
    seconds = calls / float(row["per_s"])
    return Result(calls, seconds, float(row["p50"]), float(row["p99"]), used.ru_utime + used.ru_stime)


# ---------------------------------------------------------------- what stands in Redis before


def load_scripts(stage: Stage) -> None:
    for text in (*_TEXTS.values(), _PICKUP):
        assert stage.redis.call("SCRIPT", "LOAD", text).startswith(b"$40\r\n")


def set_locks(stage: Stage, locks: int) -> None:
    """All locks held, past the proxy."""
    speak(stage.redis.port, [inline("SET", lock_key(number), TOKEN, "PX", str(TTL_MS)) for number in range(locks)])


def grant_locks(stage: Stage, locks: int) -> None:
    """As many jobs, and real pickups of them through the proxy: it has seen each lock granted to TOKEN."""
    adds = []
    for number in range(locks):
        job = b"%012d" % number
        adds.append(inline("HSET", PREFIX + job, "name", "n", "data", "{}", "opts", "{}", "timestamp", "1"))
        adds.append(inline("LPUSH", PREFIX + b"wait", job))
    speak(stage.redis.port, adds)
    keys = [PREFIX + name for name in _PICKUP_KEYS]
    packed = msgpack.packb({"token": TOKEN.decode(), "lockDuration": TTL_MS, "limiter": None, "name": "w"})
    sha = hashlib.sha1(_PICKUP).hexdigest()
    now_ms = str(int(time.time() * 1000))
    speak(stage.port, [inline("EVALSHA", sha, str(len(keys)), *keys, PREFIX, now_ms, packed)] * locks)
    held = stage.redis.call("EXISTS", *(lock_key(number) for number in range(locks)))
    assert held == b":%d\r\n" % locks, held


def set_values(stage: Stage, values: int, size: int) -> None:
    """The keys that redis-benchmark's GET asks for."""
    speak(stage.redis.port, [inline("SET", b"key:%012d" % number, b"x" * size) for number in range(values)])


def lock_key(number: int) -> bytes:
    return PREFIX + b"%012d:lock" % number


def speak(port: int, commands: list[bytes]) -> None:
    """Commands in pipelines; each answer is waited for, an error is one of ours."""
    reader = hiredis.Reader()
    with socket.create_connection((LOOPBACK, port), timeout=30) as conn:
        for first in range(0, len(commands), _CHUNK):
            chunk = commands[first : first + _CHUNK]
            conn.sendall(b"".join(chunk))
            for _ in chunk:
                while (reply := reader.gets()) is False:
                    reader.feed(conn.recv(1 << 18))
                if isinstance(reply, hiredis.ReplyError):
                    raise reply


def calls_of(stage: Stage, command: str) -> int:
    """How often Redis ran a command so far, all of them without a fault."""
    said = stage.redis.call("INFO", "commandstats").decode()
    line = next(line for line in said.splitlines() if line.startswith(f"cmdstat_{command}:"))
    cells = dict(cell.split("=") for cell in line.partition(":")[2].split(","))
    assert cells["failed_calls"] == cells["rejected_calls"] == "0", line
    return int(cells["calls"])
