"""What the data plane counts of itself."""

from __future__ import annotations

import asyncio
import json

from emqproxy.proxy import clock
from emqproxy.proxy.tallies import CALLS_MAX, OTHER, CallTimes, Tallies, Times
from emqproxy.records import Calls, CallSite


def test_a_bound_counts_what_is_as_long_as_it() -> None:
    spread = Times((10, 20))
    for took in (0, 10, 11, 20, 21, 1_000):
        spread.add(took)
    assert (spread.told.counts, spread.told.sum_ns) == ((2, 2, 2), 1_062)


def site(script: str, sha: str = "a" * 40) -> CallSite:
    return CallSite("EVALSHA", script, sha, "catalogue", "6.7.0")


def test_calls_are_told_apart_by_script_and_by_the_errors_of_redis_alone() -> None:
    times = CallTimes()
    renewal, unnamed, by_hand = site("extendLock-2"), site("", "0" * 40), CallSite("DEL", "DEL", "", "", "")
    for error in ("", "", "READONLY", "A-TOKEN-FOR-AN-ERROR"):
        times.of(renewal, error).add(5)
    times.of(unnamed).add(1)
    times.of(by_hand).add(1)
    told = {(calls.command, calls.script, calls.error): sum(calls.took.counts) for calls in times.told}
    errors = {("EVALSHA", "extendLock-2", error): count for error, count in (("", 2), ("READONLY", 1), ("ERR", 1))}
    assert told == errors | {("EVALSHA", "0" * 40, ""): 1, ("DEL", "", ""): 1}


def test_scripts_without_number_are_counted_as_others() -> None:
    times = CallTimes()
    for number in range(2 * CALLS_MAX):
        times.of(site(f"script-{number}")).add(1)
    assert len(times.told) == CALLS_MAX + 1
    assert times.told[-1] == Calls(OTHER, OTHER, "", times.of(site("one more")).told)
    assert sum(times.told[-1].took.counts) == CALLS_MAX


def test_overhead_is_taken_once_a_turn_of_the_loop() -> None:
    async def turns() -> Tallies:
        tallies = Tallies()
        for _ in range(3):
            tallies.to_server(10, clock.now())
            tallies.to_client(7, clock.now())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return tallies

    tallies = asyncio.run(turns())
    told = tallies.told([], (True, {"ready": True}), CallTimes(), noscripts=1, unrecognised=2, guessed=3, faults=4)
    assert (told.to_server_bytes, told.to_client_bytes, sum(told.overhead.counts)) == (30, 21, 3)
    assert 0 < told.overhead.sum_ns < 10**10
    assert (told.noscripts, told.unrecognised, told.guessed, told.faults) == (1, 2, 3, 4)


def test_connections_are_counted_where_it_is_told() -> None:
    pairs, ready = [(True, 3), (False, 0), (True, 4)], (False, {"reason": "draining"})
    told = Tallies().told(pairs, ready, CallTimes(), noscripts=0, unrecognised=0, guessed=0, faults=0)
    assert (told.clients, told.servers, told.inflight) == (3, 2, 7)
    assert (told.ready, json.loads(told.ready_body)) == (False, {"reason": "draining"})
