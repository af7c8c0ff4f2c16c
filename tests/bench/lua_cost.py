"""What a call of each script of ours costs Redis, beside the released one: `python -m tests.bench.lua_cost`.

    --rounds R   how often each scene is played (10)
    --only TEXT  scenes whose name has this in it

Each round starts from an empty database that the released scripts fill; then both sides take turns at its calls, fifty
in a pipeline. A call's cost is the server's own time on a core: calls/s are calls in one second of it. The ratio is the
median over pairs of neighbouring turns, ours / released; above 1 ours is quicker. Ends with exit code 1 where one is
below 0.9.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import hiredis

from tests.lua.calls import Call, Word, call, key, packed
from tests.lua.sequences import stage
from tests.lua.twins import Twins

NOW_MS: Final = 1_700_000_000_000
LIMIT: Final = 0.9
RUN: Final = 50
"""Calls in one turn."""
Made = Call | tuple[Word, ...]


class Scene(NamedTuple):
    """A name, what comes before the calls are counted, and the calls."""

    name: str
    before: Callable[[int], Sequence[Made]]
    call: Callable[[int, int], Call]
    """number from 1, and how many there are in all"""


def _add(script: str, number: int, parent: bool = False, queue: str = "q", **opts: Any) -> Call:
    args: list[Any] = [key(queue), "", "send", NOW_MS + number, None, None, None, None, None]
    if parent:
        args[4:7] = [key("p", "top"), key("p", "top:dependencies"), {"id": "top", "queueKey": key("p")[:-1]}]
    return call(script, queue, [packed(args), '{"to":"somebody"}', packed({"attempts": 3} | opts)])


def _pick(number: int, token: str = "t") -> Call:
    opts = {"token": token, "lockDuration": 100_000, "name": "w1"}
    return call("moveToActive-11", "q", [key("q"), NOW_MS + number, packed(opts)])


def _finish(number: int, target: str = "completed", fetch: str = "0", metrics: Any = "", **keep: int) -> Call:
    opts = {
        "token": "t", "lockDuration": 100_000, "name": "w1", "attempts": 3, "maxMetricsSize": metrics,
        "keepJobs": keep or {"count": -1},
    }  # fmt: skip
    field = "returnvalue" if target == "completed" else "failedReason"
    argv: list[Word] = [number, NOW_MS + number, field, '"done"', target, fetch, key("q"), packed(opts), ""]
    return call("moveToFinished-14", "q", argv, id=str(number), target=target)


def _waiting(count: int) -> list[Made]:
    return [_add("addStandardJob-9", number) for number in range(1, count + 1)]


def _active(count: int) -> list[Made]:
    return [*_waiting(count), *(_pick(number) for number in range(1, count + 1))]


def _children(count: int) -> list[Made]:
    top: Made = ("HSET", key("p", "top"), "name", "top")
    added = [_add("addStandardJob-9", number, parent=True) for number in range(1, count + 1)]
    waits: Made = ("ZADD", key("p", "waiting-children"), NOW_MS, "top")
    return [top, waits, *added, *(_pick(number) for number in range(1, count + 1))]


def _prioritized(count: int) -> list[Made]:
    return [_add("addPrioritizedJob-9", number, priority=1 + number % 5) for number in range(1, count + 1)]


def _due(count: int) -> list[Made]:
    return [_add("addDelayedJob-6", number, delay=1 + number) for number in range(1, count + 1)]


def _with_children(count: int) -> list[Made]:
    return [*_active(count), *(("SADD", key("q", f"{number}:dependencies"), "c") for number in range(1, count + 1))]


def _marked(count: int) -> list[Made]:
    made: list[Made] = []
    for queue in range(1, count + 1):
        name = f"s{queue}"
        made += [_add("addStandardJob-9", number, queue=name) for number in range(1, 11)]
        made += [("RENAME", key(name, "wait"), key(name, "active"))]
        made += [("SADD", key(name, "stalled"), *range(1, 11)), ("MSET", *_locks(name))]
    return made


def _locks(queue: str) -> list[str]:
    return [word for number in range(1, 6) for word in (key(queue, f"{number}:lock"), "t")]


def _nothing(count: int) -> list[Made]:
    return []


def _put_back(number: int, count: int) -> Call:
    last = count + 1 - number  # as it stands first in the list of the active
    return call("moveJobFromActiveToWait-9", "q", [last, "t", key("q", last)])


def _delay(number: int, count: int) -> Call:
    fields = packed(["failedReason", "it went wrong", "stacktrace", "[]"])
    argv: list[Word] = [key("q"), NOW_MS, number, "t", 1_000 + number, "0", fields]
    return call("moveToDelayed-8", "q", argv, id=str(number))


def _retry(number: int, count: int) -> Call:
    return call("retryJob-11", "q", [key("q"), NOW_MS, "RPUSH", number, "t", ""], id=str(number))


def _renew_ten(number: int, count: int) -> Call:
    ids = [str(1 + (number * 10 + n) % count) for n in range(10)]
    return call("extendLocks-1", "q", [key("q"), packed(["t"] * 10), packed(ids), 100_000])


SCENES: Final = (
    Scene("addStandardJob", _nothing, lambda n, _: _add("addStandardJob-9", n)),
    Scene("addStandardJob, a child", lambda _: _children(1), lambda n, _: _add("addStandardJob-9", n, parent=True)),
    Scene("addDelayedJob", _nothing, lambda n, _: _add("addDelayedJob-6", n, delay=1_000 + n)),
    Scene("addPrioritizedJob", _nothing, lambda n, _: _add("addPrioritizedJob-9", n, priority=1 + n % 5)),
    Scene("addParentJob", _nothing, lambda n, _: _add("addParentJob-6", n)),
    Scene("moveToActive", _waiting, lambda n, _: _pick(n)),
    Scene("moveToActive, prioritized", _prioritized, lambda n, _: _pick(n)),
    Scene("moveToActive, delayed jobs fall due", _due, lambda n, _: _pick(n)),
    Scene("moveToActive, nothing there", _nothing, lambda n, _: _pick(n)),
    Scene("moveToFinished", _active, lambda n, _: _finish(n)),
    Scene("moveToFinished, removes", _active, lambda n, _: _finish(n, count=0)),
    Scene("moveToFinished, keeps 100, metrics", _active, lambda n, _: _finish(n, metrics=1_000, count=100)),
    Scene("moveToFinished, failed", _active, lambda n, _: _finish(n, "failed")),
    Scene("moveToFinished, a child", _children, lambda n, _: _finish(n)),
    Scene("moveToFinished, fetches the next", lambda n: [*_waiting(n + 1), _pick(1)],
          lambda n, _: _finish(n, fetch="1")),
    Scene("moveToDelayed", _active, _delay),
    Scene("retryJob", _active, _retry),
    Scene("moveJobFromActiveToWait", _active, _put_back),
    Scene("moveToWaitingChildren", _with_children,
          lambda n, _: call("moveToWaitingChildren-7", "q", ["t", "", NOW_MS, n, key("q")], id=str(n))),
    Scene("extendLock", _active, lambda n, _: call("extendLock-2", "q", ["t", 100_000, n], id=str(n))),
    Scene("extendLocks, ten", _active, _renew_ten),
    Scene("releaseLock", _active, lambda n, _: call("releaseLock-1", "q", ["t", 100_000], id=str(n))),
    Scene("updateProgress", _active, lambda n, _: call("updateProgress-3", "q", [n, "50"], id=str(n))),
    Scene("moveStalledJobsToWait, ten", _marked,
          lambda n, _: call("moveStalledJobsToWait-8", f"s{n}", [1, key(f"s{n}"), NOW_MS, 120_000])),
)  # fmt: skip


def _spent_s(twins: Twins) -> float:
    """The server's time on a core so far."""
    (told,) = twins.ask([("INFO", "cpu")])
    return sum(float(value) for value in re.findall(rb"used_cpu_(?:sys|user):([\d.]+)", told))


def _round(twins: Twins, scene: Scene, count: int, ours_first: bool) -> Iterator[tuple[float, float]]:
    """Seconds for so many calls of theirs, and as many of ours that came right before or after; pair by pair."""
    twins.fresh()
    theirs = twins.shas(ours=False)
    faults = [reply for reply in twins.ask([_words(theirs, made) for made in scene.before(count)]) if _is_fault(reply)]
    turns = [range(at, at + RUN) for at in range(1, count + 1, RUN)]
    for pair in zip(turns[::2], turns[1::2], strict=True):
        spent_s = {}
        for numbers, ours in zip(pair, (ours_first, not ours_first), strict=True):
            calls = [_words(twins.shas(ours=ours), scene.call(number, count)) for number in numbers]
            began_s = _spent_s(twins)
            faults += [reply for reply in twins.ask(calls) if _is_fault(reply)]
            spent_s[ours] = _spent_s(twins) - began_s
        yield spent_s[False], spent_s[True]
    assert not faults, f"{scene.name}: {faults[0]!r}"


def _is_fault(reply: object) -> bool:
    return isinstance(reply, hiredis.ReplyError) or (isinstance(reply, int) and reply < 0)


def _words(shas: dict[str, bytes], made: Made) -> tuple[Word, ...]:
    if isinstance(made, tuple):
        return made
    return ("EVALSHA", shas[made.script], len(made.keys), *made.keys, *made.argv)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    slow = False
    print(f"{'':38}{'released':>12}{'ours':>12}{'ratio':>8}   calls/s of a core")
    with stage(options={}) as twins:
        for scene in (scene for scene in SCENES if asked.only in scene.name):
            count = 2 * RUN if scene.before is _marked else 20 * RUN
            pairs = [pair for turn in range(asked.rounds) for pair in _round(twins, scene, count, turn % 2 == 1)]
            ratio = statistics.median(theirs_s / ours_s for theirs_s, ours_s in pairs)
            theirs, ours = (RUN / statistics.median(side) for side in zip(*pairs, strict=True))
            slow = slow or ratio < LIMIT
            note = "   slow" if ratio < LIMIT else ""
            print(f"{scene.name:38}{theirs:>12,.0f}{ours:>12,.0f}{ratio:>8.2f}{note}", flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
