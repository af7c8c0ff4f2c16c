"""Makes a corpus small: `python -m tests.long.framing_corpus --to FILE FROM...`.

FROM are corpora as `fuzz_framing --corpus` writes them, or folders as `strict_atheris` fills them. Of each class (what
we did and what Redis did, as `framing_roads` names it) and of each kind of answer some stay, cut down as long as they
stay of their class. FILE has a line of Python's bytes for each; the tests send them all.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.long.framing_roads import Roads

KEPT_PER_CLASS: Final = 2
INPUT_BYTES_MAX: Final = 3_000
TRIES: Final = 80


def read(path: Path) -> Iterator[bytes]:
    """The inputs of a file or of atheris's folder, whose last byte only says where to cut."""
    if path.is_dir():
        yield from (one.read_bytes()[:-1] for one in sorted(path.iterdir()))
        return
    for line in path.read_text().splitlines():
        data = ast.literal_eval(line)
        assert isinstance(data, bytes)
        yield data


def minimised(inputs: list[bytes], roads: Roads) -> list[bytes]:
    """The smallest of each class, each cut down."""
    classes: dict[str, list[bytes]] = {}
    for data in sorted(dict.fromkeys(inputs), key=len):
        few = classes.setdefault(_class(data, roads), [])
        if len(few) < KEPT_PER_CLASS and len(data) <= INPUT_BYTES_MAX:
            few.append(data)
    small = {_cut_down(data, kind, roads) for kind, few in classes.items() for data in few}
    return sorted(small, key=lambda data: (len(data), data))


def _class(data: bytes, roads: Roads) -> str:
    found = roads.travel(data, random.Random(0))
    assert not found.faults, found
    return f"{found.kind} {min(found.refused, 2)} {found.died_directly}"


def _cut_down(data: bytes, kind: str, roads: Roads) -> bytes:
    """Leaves out what it can: lines first, then bytes, in halving steps."""
    tries = 0
    parts = data.splitlines(keepends=True)
    for units in (parts, None):
        rest = units if units is not None else [data[at : at + 1] for at in range(len(data))]
        step = max(1, len(rest) // 2)
        while tries < TRIES:
            at = 0
            while at < len(rest) and tries < TRIES:
                fewer = rest[:at] + rest[at + step :]
                tries += 1
                if fewer and _class(b"".join(fewer), roads) == kind:
                    rest = fewer
                else:
                    at += step
            if step == 1:
                break
            step //= 2
        data = b"".join(rest)
    return data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("sources", type=Path, nargs="+")
    given = parser.parse_args()
    inputs = [data for source in given.sources for data in read(source)]
    with Roads() as roads:
        small = minimised(inputs, roads)
    given.to.write_text("".join(f"{data!r}\n" for data in small))
    print(f"{len(inputs)} inputs; {len(small)} stay, of {sum(map(len, small))} bytes, the largest of {len(small[-1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
