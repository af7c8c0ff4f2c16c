"""The part of requirements.lock that some packages need, with its hashes: `cut_lock.py LOCK [PACKAGE...]` → stdout.

Without PACKAGE: what the project itself needs to run, as `pyproject.toml` beside the lock names it, and no extra. Run
inside the image's build: knows the standard library only, and asks no index. The lock says of each package who needs
it (`# via`), so the closure is read from it; a package too many is possible where an extra asks for it, none too few.
"""

# ruff: noqa: INP001  a program, no package

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """As PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> Iterator[tuple[str, set[str], str]]:
    """Of each package in the lock: its name, who needs it, and its lines."""
    for text in re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE):
        if found := NAME.match(text):
            comments = re.findall(r"^ +#(?: +via)?(?: +(\S+).*)?$", text, flags=re.MULTILINE)
            yield normal(found[0]), {normal(name) for name in comments if name}, text


def cut(lock: str, roots: Iterable[str]) -> str:
    """The lines of `roots` and of all that they need. LookupError where the lock has no such package."""
    packages = list(entries(lock))
    wanted = {normal(root) for root in roots}
    if missing := wanted - {name for name, _, _ in packages}:
        raise LookupError(f"not in the lock: {', '.join(sorted(missing))}")
    grown = True
    while grown:
        more = {name for name, needed_by, _ in packages if needed_by & wanted} - wanted
        wanted |= more
        grown = bool(more)
    return "".join(text for name, _, text in packages if name in wanted)


def needs(pyproject: str) -> list[str]:
    """The names of what the project needs to run."""
    found = (NAME.match(line) for line in tomllib.loads(pyproject)["project"]["dependencies"])
    return [name[0] for name in found if name]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.stdout.write(cut(path.read_text(), sys.argv[2:] or needs(path.with_name("pyproject.toml").read_text())))
