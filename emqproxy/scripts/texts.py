"""The protocol's scripts in our own text: the files of `lua/`, each with what it includes put in its place.

A line `--- include "NAME"` stands for `includes/NAME.lua`: the first one in a script for its text, every later one for
nothing, so that what is needed stands before what needs it. `load` is what a caller sends; the catalogue knows its sha.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

RELEASE: Final = "5.65.1"
"""The release of BullMQ whose scripts they do the work of, call by call."""

_INCLUDE: Final = re.compile(r'--- include "([a-z0-9_]+)"\Z')
_NEARLY: Final = re.compile(r"\s*--+\s*@?include\b")
_NAME: Final = re.compile(r"([A-Za-z0-9]+)-(\d{1,2})\Z")


class TextError(ValueError):
    """A text of ours that cannot be put together: our own fault, or an installation that lacks files."""


class OwnText(NamedTuple):
    """One script, ready to be sent."""

    script: str
    """`extendLock`"""
    arity: int
    """How many KEYS it takes."""
    text: str
    sha: str
    """Of the text in UTF-8: 40 hexadecimal digits, as EVALSHA takes them."""


@functools.cache
def names() -> tuple[str, ...]:
    """All scripts there are, `extendLock-2` and so on, sorted."""
    found = (entry.name for entry in _folder().iterdir() if entry.name.endswith(".lua"))
    return tuple(sorted(name.removesuffix(".lua") for name in found))


@functools.cache
def load(name: str) -> OwnText:
    """The script of a name with its arity, `extendLock-2`. Raises TextError."""
    named = _NAME.match(name)
    if named is None:
        raise TextError(f"{name}: not the name of a script with its arity, as extendLock-2 is one")
    text = assemble(name, _read)
    return OwnText(named[1], int(named[2]), text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def assemble(name: str, read: Callable[[str], str]) -> str:
    """A script's text with its includes in place. `read` gives a file's text by its name, `lock-2` or `includes/lock`,
    and raises TextError where there is none. Raises TextError for a circle, and for a line that is nearly a directive.
    """
    lines: list[str] = []
    done: set[str] = set()

    def add(file: str, within: tuple[str, ...]) -> None:
        for line in read(file).splitlines():
            directive = _INCLUDE.match(line)
            if directive is None:
                if _NEARLY.match(line):
                    raise TextError(f'{file}: {line.strip()!r}: a directive is written --- include "name"')
                lines.append(line)
                continue
            wanted = f"includes/{directive[1]}"
            if wanted in within:
                raise TextError(" -> ".join([*within, wanted]) + ": includes in a circle")
            if wanted not in done:
                add(wanted, (*within, wanted))
                done.add(wanted)

    add(name, (name,))
    return "\n".join(lines) + "\n"


@functools.cache
def _read(name: str) -> str:
    file = _folder() / f"{name}.lua"
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        raise TextError(f"{name}: there is no such file in lua/") from None


@functools.cache
def _folder() -> Traversable:
    """Inside the wheel `emqproxy/lua`; in a checkout `lua` beside the package."""
    package = files("emqproxy")
    for folder in (package / "lua", package / ".." / "lua"):
        if folder.is_dir():
            return folder
    raise TextError("lua/ is not installed beside emqproxy")
