"""What a record costs the data plane's bus and the observer: `python -m tests.bench.observer_cost`.

    --jobs N      jobs, each with an acquire, a healthy renewal and a finish that ends its attempt (10,000)
    --rounds R    how often each thing is measured; the median is printed (5)
    --profile     says where the time goes, too, by function

Times are microseconds of one core for one record, threads included; what receives the spans is a process of its own
and not counted. Records come in the bus's own packets. `most a second` is how many records one core could take.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import io
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from emqproxy.locks.events import Granted, Lock, Place, Queue, Released, Renewed, Window
from emqproxy.locks.verdicts import Attempt, End, Finding, Grade, Verdict
from emqproxy.observer.inbox import Inbox
from emqproxy.observer.observe import Observer, collect_less
from emqproxy.proxy.bus import BATCH_MAX, Bus
from emqproxy.proxy.packets import pack
from emqproxy.records import Anchor, CallSite, Hello, JobFields, Line, Message, ObserverSettings, Peer, Record

TTL_MS: Final = 30_000
MS: Final = 1_000_000
QUEUES: Final = 4
CONNS: Final = 50
WAITING_MAX: Final = 4_000
"""Spans that may wait for the exporter before the next packet is given: nothing is dropped while it is measured."""


def records(jobs: int) -> Iterator[Record]:
    """What workers of BullMQ make: each finish carries the next pickup."""
    acquire, renew, finish = (
        CallSite("EVALSHA", script, sha * 40, "catalogue", "5.65.1-6.7.0")
        for script, sha in (("moveToActive-11", "a"), ("extendLock-2", "b"), ("moveToFinished-14", "c"))
    )
    peers = [Peer(conn, f"127.0.0.1:{40_000 + conn}", "bull:b3JkZXJz") for conn in range(CONNS)]
    seq, now = 0, time.monotonic_ns()
    for number in range(jobs):
        peer, queue = peers[number % CONNS], Queue(0, b"bull:queue%d:" % (number % QUEUES))
        lock = Lock(0, b"%s%d:lock" % (queue.prefix, number))
        token = b"4e1243bd-22c6-46c9-9fb4-%012d:%d" % (number % CONNS, number)

        def window(at: int) -> Window:
            return Window(at - 311_111, at)

        taken, renewed, done = (window(now + number * 100_000 + at * MS) for at in (0, 15_000, 15_100))
        attempt = Attempt(lock, queue, token, 0, taken, False, peer.conn, taken, TTL_MS, 0, 0, 0, False)
        fields = JobFields("send-mail", 0, 1, None, 1_796_000_000_000 + number)
        place = Place(peer.conn, 3 * number, 1)
        granted = Granted(place, taken, lock, queue, token, TTL_MS)
        verdict = Verdict(granted, Finding.SOUND, ttl_ms=TTL_MS, attempt=attempt, at=taken.closed)
        line = Line("acquire", "ok", fetched=True, job=fields)
        yield Record(seq + 1, line, verdict, peer, acquire, lag_ns=73_500)

        attempt = Attempt(lock, queue, token, 0, taken, False, peer.conn, renewed, TTL_MS, 1, 0, 0, False)
        extended = Renewed(Place(peer.conn, 3 * number + 1), renewed, lock, queue, token, TTL_MS)
        age_ms = (renewed.opened - taken.closed) / MS
        figures = (Grade.ON_TIME, age_ms, TTL_MS - age_ms, TTL_MS, attempt)
        verdict = Verdict(extended, Finding.SOUND, None, *figures, at=renewed.closed)
        yield Record(seq + 2, Line("renew", "ok", code=1), verdict, peer, renew, lag_ns=73_500)

        attempt = Attempt(
            lock, queue, token, 0, taken, False, peer.conn, renewed, TTL_MS, 1, 0, 0, False, End.RELEASED, done
        )
        released = Released(Place(peer.conn, 3 * number + 2), done, lock, queue, token)
        over = (attempt,)
        verdict = Verdict(released, Finding.SOUND, None, None, 100.0, 29_900.0, None, attempt, over, done.closed)
        yield Record(seq + 3, Line("finish", "ok", "completed", 0), verdict, peer, finish, lag_ns=73_500)
        seq += 3


# ---------------------------------------------------------------- what is measured


class Taken(NamedTuple):
    """What one round took."""

    us: float
    """For one record."""
    note: str = ""


def bus(told: list[Record]) -> Taken:
    """`tell` and what follows from it, to the packets: as the data plane does it, less the loop's own turns."""

    async def play() -> float:
        road = Bus(lambda _: hello(""), lambda: (), structlog.get_logger())
        road._greeted = True  # nobody is there: the packets are read here
        taken = 0
        rest = iter(told)
        while part := list(islice(rest, BATCH_MAX)):
            began = time.process_time_ns()
            for record in part:
                road.number()
                road.tell(record)
            road._send()
            taken += time.process_time_ns() - began
            while road._near is not None:
                road._far.setblocking(False)
                try:
                    road._far.recv(1 << 20)
                except BlockingIOError:
                    break
        road._hang_up()
        return taken / len(told) / 1000

    return Taken(asyncio.run(play()))


def decoding(stream: Path, count: int) -> Taken:
    def play() -> None:
        fd = os.open(stream, os.O_RDONLY)
        for _batch in Inbox(fd).batches():
            pass
        os.close(fd)

    return Taken(_cpu_us(play, count))


def observing(stream: Path, count: int, journal: str, endpoint: str | None, *, metrics: bool = False) -> Taken:
    """The whole observer, reading included."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT" if endpoint else "OTEL_TRACES_EXPORTER"] = endpoint or "none"
    observer = Observer(hello(journal, metrics=metrics), sys.stdout)
    queues = observer._telemetry.queues

    def play() -> None:
        fd = os.open(stream, os.O_RDONLY)
        for batch in Inbox(fd).batches():
            observer.on_batch(batch)
            for queue in queues:
                if queue.waiting > WAITING_MAX:
                    queue.force_flush()
        os.close(fd)
        observer.close()

    taken = _cpu_us(play, count)
    observer._telemetry.release()
    lost = sum(queue.undelivered for queue in queues)
    sent = sum(queue.tally.exported for queue in queues)
    return Taken(taken, f"{sent} spans, {lost} lost" if queues else "")


def hello(journal: str, *, metrics: bool = False) -> Hello:
    settings = ObserverSettings(journal=journal, admin_host="127.0.0.1" if metrics else "")
    return Hello("7a8f7f3e-0000-4000-8000-000000000001", "0", "redis", 6379, 0, settings)


def _cpu_us(play: Callable[[], None], count: int) -> float:
    """Of all threads, for one of so many."""
    gc.collect()
    began = time.process_time_ns()
    play()
    return (time.process_time_ns() - began) / count / 1000


# ---------------------------------------------------------------- what is needed for it


def packed(told: list[Record], path: Path) -> None:
    """The records as they stand on the pipe."""

    async def write() -> None:
        road = Bus(lambda _: hello(""), lambda: (), structlog.get_logger())
        messages: list[Message] = [Anchor(time.monotonic_ns(), time.time_ns(), 0, 0), *told]
        with path.open("wb") as file:
            for i in range(0, len(messages), BATCH_MAX):
                file.write(pack(messages[i : i + BATCH_MAX]))
        road._hang_up()

    asyncio.run(write())


class Sink(BaseHTTPRequestHandler):
    """A collector that takes everything and keeps nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Silent."""


def sink() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sink:
        sink()
        return
    told = list(records(arguments.jobs))
    collect_less()  # as the observer's process does
    collector = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.observer_cost", "--sink"], stdout=subprocess.PIPE, text=True
    )
    assert collector.stdout is not None
    url = f"http://127.0.0.1:{int(collector.stdout.readline())}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            stream, journal = Path(folder, "stream"), str(Path(folder, "journal"))
            packed(told, stream)
            print(f"{len(told):,} records, {stream.stat().st_size / len(told):.0f} bytes each on the pipe")
            rows: dict[str, Callable[[], Taken]] = {
                "bus, in the data plane": lambda: bus(told),
                "decoding": lambda: decoding(stream, len(told)),
                "observer, journal alone": lambda: observing(stream, len(told), journal, None),
                "observer, spans alone": lambda: observing(stream, len(told), "", url),
                "observer, metrics alone": lambda: observing(stream, len(told), "", None, metrics=True),
                "observer, journal and spans": lambda: observing(stream, len(told), journal, url),
                "observer, all three": lambda: observing(stream, len(told), journal, url, metrics=True),
            }
            for name, measure in rows.items():
                rounds = [measure() for _ in range(arguments.rounds)]
                us = statistics.median(taken.us for taken in rounds)
                print(f"{name:30}{us:8.2f} µs{1e6 / us:12,.0f} most a second  {rounds[-1].note}", flush=True)
                if arguments.profile:
                    print(profiled(measure))
    finally:
        collector.terminate()
        collector.wait()


def profiled(measure: Callable[[], Taken]) -> str:
    """The dearest functions, by their own time; of the main thread only."""
    profile = cProfile.Profile()
    profile.runcall(measure)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime").print_stats(28)
    return text.getvalue()


if __name__ == "__main__":
    main()
