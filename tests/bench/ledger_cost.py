"""What the ledger costs, in memory and time, at 10, 1,000 and 50,000 leases: `python -m tests.bench.ledger_cost`.

    --leases N…   other sizes
    --rounds R    how often each thing is measured; the median is printed (15)

The leases lie on queues of at most 1,000 jobs each. A row says what was done once: "a healthy renewal" is `asked` and
`observe`, as the data plane calls them. Times are microseconds of one core; the machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    AnyIntent,
    Deleted,
    Granted,
    Lock,
    Nothing,
    Place,
    Queue,
    Release,
    Released,
    Renew,
    Renewed,
    Sweep,
    Take,
    Window,
)
from emqproxy.locks.ledger import LockLedger

MS = 1_000_000
TTL_MS = 30_000
JOBS_A_QUEUE = 1000
CONNS = 50
SAMPLE = 500
"""How many leases a round touches; fewer where there are fewer."""
DUE = 1000
PICKUPS = 50


class Site(NamedTuple):
    """One lease and who holds it."""

    queue: Queue
    lock: Lock
    token: bytes
    conn: int


class Bench:
    """A ledger with so many leases that were just granted, and a clock that goes on a little with each call."""

    def __init__(self, leases: int) -> None:
        self.sites = [_site(number) for number in range(leases)]
        self.now = 0
        self.requests = 0
        self.ledger = LockLedger(locks_max=leases + DUE)
        for site in self.sites:
            self.grant(site)
        self.sample = self.sites[:SAMPLE]  # of one queue: its pickups bear on all of them

    # ---------------------------------------------------------------- as the data plane calls it

    def place(self, conn: int) -> Place:
        self.requests += 1
        return Place(conn, self.requests)

    def window(self) -> Window:
        """100 µs, a microsecond after the last one."""
        self.now += 101_000
        return Window(self.now - 100_000, self.now)

    def exchange(self, intent: AnyIntent, fact: AnyFact) -> None:
        """One request and its answer."""
        self.ledger.asked(intent, fact.window.opened)
        self.ledger.observe(fact)

    def grant(self, site: Site) -> None:
        place, window = self.place(site.conn), self.window()
        take = Take(place, site.queue, site.token, TTL_MS)
        self.exchange(take, Granted(place, window, site.lock, site.queue, site.token, TTL_MS))

    def renewal(self, site: Site) -> tuple[Renew, Renewed]:
        place, window = self.place(site.conn), self.window()
        intent = Renew(place, site.queue, site.lock, site.token, TTL_MS)
        return intent, Renewed(place, window, site.lock, site.queue, site.token, TTL_MS)

    # ---------------------------------------------------------------- what is measured: microseconds for one of each

    def healthy_renewal(self) -> float:
        exchanges = [self.renewal(site) for site in self.sample]

        def play() -> None:
            for intent, fact in exchanges:
                self.exchange(intent, fact)

        return _each(play, len(exchanges))

    def renewal_among_pickups(self) -> float:
        """50 pickups of the queue are out all the while; afterwards they are answered."""
        pickups = self.pickups_out()
        taken = self.healthy_renewal()
        self.pickups_answered(pickups)
        return taken

    def pickup_answered(self) -> float:
        """A pickup that found nothing, while up to a thousand renewals wait for it and 49 others."""
        pickups = self.pickups_out()
        self.healthy_renewal()
        return _each(lambda: self.pickups_answered(pickups), PICKUPS)

    def pickups_out(self) -> list[Take]:
        queue, opened = self.sample[0].queue, self.window().opened
        pickups = [Take(self.place(conn), queue, b"idle:%d" % conn, TTL_MS) for conn in range(PICKUPS)]
        for take in pickups:
            self.ledger.asked(take, opened)
        return pickups

    def pickups_answered(self, pickups: list[Take]) -> None:
        window = Window(self.now - 100_000, self.now)
        for take in pickups:
            self.ledger.observe(Nothing(take.place, window, take.queue))

    def group_of_four(self) -> float:
        """A renewal, a release, a sweep and the next pickup of one job, on four connections, all at once."""
        groups = []
        for site in self.sample:
            self.ledger.observe(Deleted(self.place(0), self.window(), site.lock, site.queue, b""))
            self.grant(site)
            window = self.window()
            renew, release, sweep, take = (Place(CONNS + i, self.place(0).request) for i in range(4))
            intents: list[AnyIntent] = [
                Renew(renew, site.queue, site.lock, site.token, TTL_MS),
                Release(release, site.queue, site.lock, site.token),
                Sweep(sweep, site.queue),
                Take(take, site.queue, site.token, TTL_MS),
            ]
            facts: list[AnyFact] = [
                Granted(take, window, site.lock, site.queue, site.token, TTL_MS),
                Absent(sweep, window, site.lock, site.queue, b"", swept=True),
                Released(release, window, site.lock, site.queue, site.token),
                Renewed(renew, window, site.lock, site.queue, site.token, TTL_MS),
            ]
            groups.append((window.opened, intents, facts))

        def play() -> None:
            for opened, intents, facts in groups:
                for intent in intents:
                    self.ledger.asked(intent, opened)
                for fact in facts:
                    self.ledger.observe(fact)

        return _each(play, len(groups))

    def judged(self) -> float:
        intents = [Release(Place(site.conn, 0), site.queue, site.lock, site.token) for site in self.sample]
        return _each(lambda: [self.ledger.judge(intent, self.now) for intent in intents], len(intents))

    def idle_tick(self) -> float:
        return _each(lambda: [self.ledger.tick(self.now) for _ in range(SAMPLE)], SAMPLE)

    def tick_with_lapses(self) -> float:
        """One tick in which up to 1,000 locks lapse."""
        due = self.sites[:DUE]
        for site in due:  # whatever was played before, it is theirs
            self.grant(site)
        later = self.now + (TTL_MS + 100) * MS
        for site in self.sites[DUE:]:  # the others live on
            self.now = max(self.now, later - TTL_MS * MS)
            self.exchange(*self.renewal(site))
        self.now = max(self.now, later)
        lapsed: list[int] = []
        taken = _each(lambda: lapsed.append(len(self.ledger.tick(self.now))), 1)
        assert lapsed == [len(due)], lapsed
        return taken


def _site(number: int) -> Site:
    queue = Queue(0, b"bull:queue%d:" % (number // JOBS_A_QUEUE))
    token = b"4e1243bd-22c6-46c9-9fb4-%012d:1" % number
    return Site(queue, Lock(0, b"%s%d:lock" % (queue.prefix, number)), token, number % CONNS)


def _each(play: Callable[[], object], count: int) -> float:
    """Microseconds for one of so many; without the collector, whose turn would hit any of them."""
    gc.collect()
    gc.disable()
    began = time.process_time_ns()
    play()
    taken = time.process_time_ns() - began
    gc.enable()
    return taken / count / 1000


def memory(leases: int) -> float:
    """Bytes a lease, its keys and tokens among them."""
    gc.collect()
    tracemalloc.start()
    bench = Bench(leases)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(bench.ledger) == leases
    return taken / leases


ROWS: dict[str, Callable[[Bench], float]] = {
    "a healthy renewal": Bench.healthy_renewal,
    "a renewal, 50 pickups of its queue out": Bench.renewal_among_pickups,
    "a pickup's answer, 500 renewals waiting": Bench.pickup_answered,
    "a group of four overlapping facts": Bench.group_of_four,
    "judge": Bench.judged,
    "tick, nothing due": Bench.idle_tick,
    "tick, 1,000 lapses due": Bench.tick_with_lapses,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leases", type=int, nargs="+", default=[10, 1000, 50_000])
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    sizes, rounds = arguments.leases, arguments.rounds
    print(f"{'':42}" + "".join(f"{size:>12,}" for size in sizes) + "  leases")
    print(f"{'memory a lease':42}" + "".join(f"{memory(size):12,.0f}" for size in sizes) + "  bytes", flush=True)
    benches = [Bench(size) for size in sizes]
    for name, measure in ROWS.items():
        few = rounds if measure is not Bench.tick_with_lapses else min(rounds, 5)
        medians = [statistics.median(measure(bench) for _ in range(few)) for bench in benches]
        print(f"{name:42}" + "".join(f"{median:12,.1f}" for median in medians) + "  µs", flush=True)


if __name__ == "__main__":
    main()
