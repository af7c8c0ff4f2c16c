"""Every command of Redis, as data: how its answers pair, and which of its words are keys.

`data/commands.json` has a row a command: name, arity, pairing, flags, first, last and step of its keys, and where
more keys stand: `count:N` (their number is word N, they follow it), `option:WORD,…` (one behind each such option),
`rest:WORD` (all behind the word), `half:WORD` (the first half of what is behind it). Source: `COMMAND` of redis-server
7.0.15, a container's subcommands taken into its row; last what later servers and Valkey added that can touch a
string's key. A command that no row knows has one reply, as the protocol demands.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

import msgspec

from emqproxy.session.exchange import Word
from emqproxy.wire.frames import strict_int


class Spec(msgspec.Struct, frozen=True, array_like=True):
    """One row."""

    name: str
    """Upper case."""
    arity: int
    """Its number of words, the name among them; below 0: at least so many."""
    pairing: str
    """A value of `commands.Rule`, or `one`."""
    flags: str
    """Of Redis's flags those that matter here, with a blank between: `write blocking no_multi no_auth noscript`."""
    first: int
    last: int
    """-1: the last word."""
    step: int
    more: str = ""

    @property
    def writes(self) -> bool:
        """Whether it may change a key."""
        return "write" in self.flags.split()


def _load() -> dict[bytes, Spec]:
    raw = (files("emqproxy.session") / "data" / "commands.json").read_bytes()
    return {spec.name.encode(): spec for spec in msgspec.json.decode(raw, type=list[Spec])}


COMMANDS: Final = _load()
"""By upper-case name."""


def option_of(word: Word) -> bytes:
    """A word that may be an option's name, in upper case. Redis reads it up to its first zero byte."""
    return b"" if word is None else word.partition(b"\0")[0].upper()


LIST_MARKS: Final = (b":active", b":wait", b":paused", b":prioritized", b":delayed")
"""The ends of the keys that say where a queue's unfinished jobs are."""

KEY_ENDS: Final = frozenset({b"DEL", b"UNLINK", b"RENAME", b"RENAMENX", b"MOVE"})
"""Behind them a key of any type is not where it was."""


def key_positions(words: Sequence[Word], length: int | None = None) -> list[int]:
    """Which words are keys: their places in `words`, the command's name being word 0 (in any case).

    `length`: how many words it had, where `words` are only the first of them. Empty for a command that is unknown or
    has no keys. A command that Redis would refuse for its shape may give anything that is in range.
    """
    spec = COMMANDS.get((words[0] or b"").upper()) if words else None
    if spec is None:
        return []
    held, count = len(words), len(words) if length is None else length
    found: list[int] = []
    if spec.first:
        last = spec.last if spec.last >= 0 else count + spec.last
        found += range(spec.first, min(last + 1, held), spec.step)
    if spec.more:
        found += _more_positions(spec.more, words, count)
    return found


def _more_positions(more: str, words: Sequence[Word], count: int) -> list[int]:
    kind, _, what = more.partition(":")
    held = len(words)
    if kind == "count":
        at = int(what)
        number = strict_int(words[at] or b"") if at < held else None
        return list(range(at + 1, min(at + 1 + max(number or 0, 0), held)))
    names = {name.encode() for name in what.split(",")}
    places = [at for at, word in enumerate(words) if at and option_of(word) in names]
    if kind == "option":
        return [at + 1 for at in places if at + 1 < held]
    if not places:
        return []
    at = places[0]
    end = count if kind == "rest" else at + 1 + (count - at - 1) // 2
    return list(range(at + 1, min(end, held)))
