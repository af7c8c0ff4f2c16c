"""Does the difference test see every line of lua/? `python -m tests.long.lua_mutants` deletes one after another.

    --batches B   random batches of sequences that a mutant meets, those first that reach its line (100)
    --only TEXT   files whose name has this in it
    --workers W   processes (one a core)

A line that begins a statement is deleted with the whole statement, an else or elseif with its block, any other line
that holds code as it is. A mutant is caught where a difference shows, or where its text does not compile. Beside the
lines, each `if` without an else is also replaced by what stands in it: conditions, counted apart. Ends with exit code 1
where less than 95 % of the lines are caught, and lists what survived.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emqproxy.scripts import texts
from tests.lua.directed import DIRECTED
from tests.lua.play import RECORD_BYTES, UnequalError, play
from tests.lua.released import ours
from tests.lua.sequences import STEPS_MAX, stage
from tests.lua.statements import Statement, code_lines, statements
from tests.lua.twins import LANES, SPARE_DB, ServerFaultError, Twins

LUA: Final = Path(texts.__file__).parents[2] / "lua"
SHARE_WANTED: Final = 0.95


@dataclass(frozen=True, slots=True)
class Mutant:
    """`text[start:end]` of a file gives way to `instead`; `reach` is the statement that must be run to notice."""

    file: str
    line: int
    said: str
    start: int
    end: int
    instead: str
    reach: int
    is_line: bool


@functools.cache
def source(file: str) -> str:
    """Of a file in lua/, by its name without `.lua`."""
    return (LUA / f"{file}.lua").read_text()


@functools.cache
def parsed(file: str) -> list[Statement]:
    return statements(source(file))


def files() -> list[str]:
    return sorted(path.relative_to(LUA).with_suffix("").as_posix() for path in LUA.rglob("*.lua"))


@functools.cache
def users(file: str) -> list[str]:
    """The scripts that a file is part of."""
    found = []
    for name in texts.names():
        read: list[str] = []
        texts.assemble(name, lambda part, read=read: (read.append(part), source(part))[1])  # type: ignore[misc]
        if file in read:
            found.append(name)
    return found


def mutants(file: str) -> Iterator[Mutant]:
    """All of a file."""
    text, found = source(file), parsed(file)
    begun = set()
    for number, at in enumerate(found):
        line = text.count("\n", 0, at.start) + 1
        said = text[at.start:at.end].split("\n", 1)[0]
        reach = number
        if at.kind == "clause" and at.body is not None:
            reach = next((n for n, inner in enumerate(found) if inner.start == at.body[0]), number)
        begun.add(line)
        yield Mutant(file, line, said, at.start, at.end, "", reach, is_line=True)
        if at.kind == "if" and at.body is not None:
            yield Mutant(file, line, said, at.start, at.end, text[slice(*at.body)], reach, is_line=False)
    for line, first in code_lines(text).items():
        if line not in begun:
            start, end = text.rfind("\n", 0, first) + 1, text.find("\n", first)
            reach = max(number for number, at in enumerate(found) if at.start <= first < at.end)
            yield Mutant(file, line, text[start:end].strip(), start, end, "", reach, is_line=True)


# ---------------------------------------------------------------- what reaches a statement


def counted(name: str) -> str:
    """A script that does what it does, and writes down in the spare database which statements it ran."""

    def read(file: str) -> str:
        text, index = source(file), files().index(file)
        for number, at in reversed(list(enumerate(parsed(file)))):
            if at.kind != "clause":
                text = f"{text[:at.start]}RAN['{index}.{number}'] = 1 {text[at.start:]}"
        return text

    return (
        f"local RAN = {{}}\nlocal function MAIN()\n{texts.assemble(name, read)}\nend\nlocal fine, reply = pcall(MAIN)\n"
        f'redis.call("SELECT", {SPARE_DB})\nfor place in pairs(RAN) do redis.call("SADD", "ran", place) end\n'
        "if not fine then error(reply) end\nreturn reply\n"
    )


def batch(number: int) -> list[list[bytes]]:
    """A sequence for each lane, always the same ones."""
    source = random.Random(number)
    return [[source.randbytes(RECORD_BYTES) for _ in range(STEPS_MAX)] for _ in range(LANES)]


def reached(number: int) -> tuple[int, set[str]]:
    """What a batch runs, as `file.statement`."""
    twins = _twins(counts=True)
    play(twins, batch(number))
    ran = twins.ask([("SELECT", SPARE_DB), ("SMEMBERS", "ran")])[1]
    return number, {place.decode() for place in ran}


# ---------------------------------------------------------------- one mutant


class _Stage:
    """One a process: its server ends with it, or when a mutant hangs."""

    twins: Twins | None = None
    counts = False


def _twins(*, counts: bool) -> Twins:
    if _Stage.twins is None or _Stage.counts != counts:
        _leave()
        _Stage.twins, _Stage.counts = stage(), counts
        for name in ours() if counts else ():
            _Stage.twins.replace(name, counted(name))
    return _Stage.twins


def _leave() -> None:
    if _Stage.twins is not None:
        _Stage.twins.__exit__()
    _Stage.twins = None


def judge(job: tuple[Mutant, list[int]]) -> tuple[Mutant, str]:
    """How a mutant was caught; empty where it survived."""
    mutant, numbers = job
    twins = _twins(counts=False)

    def read(file: str) -> str:
        text = source(file)
        return text[:mutant.start] + mutant.instead + text[mutant.end:] if file == mutant.file else text

    try:
        for name in users(mutant.file):
            twins.replace(name, texts.assemble(name, read))
    except (ServerFaultError, texts.TextError):
        return mutant, "does not compile"
    else:
        try:
            for number in numbers[:3]:
                play(twins, batch(number))
            for scene in DIRECTED:
                scene(twins)
            for number in numbers[3:]:
                play(twins, batch(number))
        except UnequalError:
            return mutant, "differs"
        except ServerFaultError as fault:
            _leave()
            return mutant, f"fault: {fault}"
        return mutant, ""
    finally:
        if _Stage.twins is not None:
            for name in users(mutant.file):
                twins.replace(name, ours()[name])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    began = time.monotonic()
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:  # see lua_equality
        ran = dict(pool.map(reached, range(asked.batches)))
        print(f"{asked.batches} batches of {LANES} sequences, {time.monotonic() - began:.0f} s", flush=True)
        jobs = [
            (mutant, sorted(number for number, at in ran.items() if f"{index}.{mutant.reach}" in at))
            for index, file in enumerate(files()) if asked.only in file
            for mutant in mutants(file)
        ]  # fmt: skip
        meets = {mutant: len(numbers) for mutant, numbers in jobs}
        results = []
        for count, done in enumerate(as_completed([pool.submit(judge, job) for job in jobs]), 1):
            mutant, how = done.result()
            results.append((mutant, how))
            if not how or how.startswith("fault"):
                kind = "line" if mutant.is_line else "condition"
                met = f"run in {meets[mutant]} batches"
                print(f"{mutant.file}.lua:{mutant.line}: {kind} {how or 'survives'}, {met}: {mutant.said}", flush=True)
            if count % 100 == 0:
                print(f"{count} of {len(jobs)}, {time.monotonic() - began:.0f} s", flush=True)
    return _report(results)


def _report(results: list[tuple[Mutant, str]]) -> int:
    for kind, is_line in (("conditions", False), ("lines", True)):
        of = [how for mutant, how in results if mutant.is_line == is_line]
        caught = sum(map(bool, of))
        share = caught / len(of) if of else 1.0
        compiled = sum(how != "does not compile" for how in of)
        print(f"{kind}: {caught} of {len(of)} caught, {share:.1%}; {compiled} compile")
    return 0 if share >= SHARE_WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
