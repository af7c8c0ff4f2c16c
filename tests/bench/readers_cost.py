"""What the wire's readers cost for one command or one reply: `python -m tests.bench.readers_cost`.

    --rounds R    how often each thing is measured; the median is printed (15)

Requests are what a worker sends: renewals in pipelines of 16 and one by one, a pickup, small plain commands; replies
are theirs, skimmed (nobody reads them) or kept. Times are microseconds of one core for one command or one frame; the
machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

from emqproxy.session.commands import RULES
from emqproxy.wire.replies import ELEMENT_BYTES_MAX, ReplyReader
from emqproxy.wire.requests import RequestReader

TURNS = 2000
BATCH = 16


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


SHA = b"9f8e7d6c5b4a39281706f5e4d3c2b1a098765432"
PREFIX = b"bull:orders:"
TOKEN = b"4e1243bd-22c6-46c9-9fb4-0123456789ab:17"
RENEWAL = command(b"EVALSHA", SHA, b"2", b"bench:1:lock", b"bench:stalled", b"token", b"30000", b"1")
LOWER = RENEWAL.replace(b"EVALSHA", b"evalsha")
KEYS = (b"wait", b"active", b"prioritized", b"events", b"stalled", b"limiter", b"delayed", b"paused", b"meta", b"pc")
PICKUP = command(
    b"evalsha", SHA, b"11", *(PREFIX + key for key in (*KEYS, b"marker")), PREFIX, b"1764500000000", bytes(90)
)
GET, SET = command(b"GET", b"key:000000012345"), command(b"SET", b"key:000000012345", b"xxx")
LARGE = command(b"SET", b"key:000000012345", bytes(100 * 1024))
HASH = b"".join(b"$9\r\nfield-%03d\r\n$13\r\n1764500000000\r\n" % number for number in range(18))
JOB = b"*4\r\n*36\r\n" + HASH + b"$5\r\n12345\r\n:0\r\n:0\r\n"

REQUESTS: dict[str, tuple[bytes, int]] = {
    "renewals, 16 at once": (RENEWAL * BATCH, BATCH),
    "renewals, 16 at once, lower case": (LOWER * BATCH, BATCH),
    "a renewal": (RENEWAL, 1),
    "a pickup": (PICKUP, 1),
    "GET, 16 at once": (GET * BATCH, BATCH),
    "a GET": (GET, 1),
    "a SET": (SET, 1),
    "a SET of 100 KiB": (LARGE, 1),
}
REPLIES: dict[str, tuple[bytes, int, int]] = {
    "a number, skimmed": (b":1\r\n", 1, 0),
    "a number, kept": (b":1\r\n", 1, ELEMENT_BYTES_MAX),
    "numbers, 16 at once, skimmed": (b":1\r\n" * BATCH, BATCH, 0),
    "numbers, 16 at once, kept": (b":1\r\n" * BATCH, BATCH, ELEMENT_BYTES_MAX),
    "bulks, 16 at once, skimmed": (b"$3\r\nxxx\r\n" * BATCH, BATCH, 0),
    "a pickup's job of 40 elements, kept": (JOB, 1, ELEMENT_BYTES_MAX),
    "a pickup's job of 40 elements, skimmed": (JOB, 1, 0),
}


def requests(data: bytes) -> Callable[[], object]:
    reader = RequestReader(RULES)

    def play() -> None:
        feed = reader.feed
        for _ in range(TURNS):
            feed(data)

    return play


def replies(data: bytes, limit: int) -> Callable[[], object]:
    reader = ReplyReader()

    def play() -> None:
        feed, read = reader.feed, reader.next
        for _ in range(TURNS):
            feed(data)
            while read(limit) is not None:
                pass

    return play


def skipped_lines(data: bytes) -> Callable[[], object]:
    reader = ReplyReader()

    def play() -> None:
        feed, skip = reader.feed, reader.skip_lines
        for _ in range(TURNS):
            feed(data)
            skip(BATCH)

    return play


def cost(play: Callable[[], object], count: int) -> float:
    """Microseconds for one of so many a turn; without the collector, whose turn would hit any of them."""
    gc.collect()
    gc.disable()
    began = time.process_time_ns()
    play()
    taken = time.process_time_ns() - began
    gc.enable()
    return taken / count / TURNS / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    rows = [(name, requests(data), count) for name, (data, count) in REQUESTS.items()]
    rows += [(name, replies(data, limit), count) for name, (data, count, limit) in REPLIES.items()]
    if hasattr(ReplyReader, "skip_lines"):
        rows += [("numbers, 16 at once, skip_lines", skipped_lines(b":1\r\n" * BATCH), BATCH)]
    for name, play, count in rows:
        median = statistics.median(cost(play, count) for _ in range(rounds))
        print(f"{name:42}{median:10.2f}  µs", flush=True)


if __name__ == "__main__":
    main()
