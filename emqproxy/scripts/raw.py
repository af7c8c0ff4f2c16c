"""Raw: a hand on a lock's key. DEL, SET, PEXPIRE, RENAME … outside the scripts, and calls of scripts that nobody knows.

What a key's name must be like is bounded by the configured prefixes: `prefix:queue:id:lock`. A deletion proves that the
lock is gone; a command that says it did nothing left it alone; after all else nothing is known of it. An unknown script
may have done anything to the locks among its KEYS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from emqproxy.locks.events import (
    Absent,
    AnyFact,
    AnyIntent,
    Deleted,
    Lock,
    Overwrite,
    Overwritten,
    Place,
    Queue,
    Untouched,
)
from emqproxy.records import Line
from emqproxy.scripts.answers import answered, code_of, failure, nothing_ran, part, window
from emqproxy.scripts.arguments import whole
from emqproxy.scripts.hands import ListHand, recognise_hand
from emqproxy.scripts.layouts import LOCK_SUFFIX
from emqproxy.scripts.operation import Happening, Script
from emqproxy.session.exchange import Command, ErrorReply, Exchange, Reply, Word
from emqproxy.session.table import COMMANDS, key_positions, option_of

SCRIPT_CALLS: Final = frozenset({b"EVAL", b"EVALSHA", b"FCALL"})
"""Those that may write."""
_DELETIONS: Final = frozenset({b"DEL", b"UNLINK"})
_IDLE_AT_0: Final = frozenset(
    (b"COPY", b"EXPIRE", b"EXPIREAT", b"MOVE", b"MSETNX", b"PERSIST", b"PEXPIRE", b"PEXPIREAT", b"RENAMENX", b"SETNX")
)
"""They answer 0 where they changed nothing."""
_IDLE_AT_NIL: Final = frozenset(
    (
        *(b"BLMOVE", b"BLMPOP", b"BLPOP", b"BRPOP", b"BRPOPLPUSH", b"BZMPOP", b"BZPOPMAX", b"BZPOPMIN"),
        *(b"LMOVE", b"LMPOP", b"RPOPLPUSH", b"ZMPOP"),
    )
)
"""They answer nil where there was nothing to move, or nothing came in time."""
_PIECEMEAL: Final = frozenset({b"MIGRATE"})
"""Behind an error some of their keys may have gone."""
_WORDS_MAX: Final = 64
"""Of a command no more words are held."""
_BITFIELD_WRITES: Final = frozenset({b"SET", b"INCRBY"})
_OWNERLESS: Final = b""


class LockKey(NamedTuple):
    """A lock's key that a command names."""

    key: bytes
    prefix: bytes
    """Its queue's, with the colon."""
    db: int | None = None
    """Where it is another database than the command's."""
    gone: bool = False
    """It stands where the command leaves nothing, if it succeeds."""


class Hand(msgspec.Struct, frozen=True):
    """A command on lock keys, or an unknown script with lock keys among its KEYS. Key i is part i of its place."""

    script: Script
    command: bytes
    keys: tuple[LockKey, ...]
    conditional: bool
    """A SET with NX or XX: nil says that it changed nothing."""
    beside: ListHand | None = None
    """What else it does to the queue."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return tuple(
            Overwrite(part(at, i), Queue(_db(key, db), key.prefix), Lock(_db(key, db), key.key), _OWNERLESS)
            for i, key in enumerate(self.keys)
        )

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        reply = exchange.reply
        line = failure(exchange, "raw")
        if answered(reply):
            line = Line("raw", "ok", code=None if self.command in SCRIPT_CALLS else code_of(reply))
        found = []
        for i, key in enumerate(self.keys):
            db = _db(key, exchange.db)
            proof = self._proof(key, reply)
            fact: AnyFact = proof(part(at, i), window(exchange), Lock(db, key.key), Queue(db, key.prefix), _OWNERLESS)
            found.append(Happening(fact, line))
        return tuple(found) if self.beside is None else (*found, *self.beside.happenings(exchange, at))

    def _proof(self, key: LockKey, reply: Reply) -> type[Absent | Deleted | Overwritten | Untouched]:
        if nothing_ran(reply):
            return Untouched
        if self.command in SCRIPT_CALLS:
            return Overwritten
        if isinstance(reply, ErrorReply):  # a single command that fails has changed nothing
            return Overwritten if self.command in _PIECEMEAL else Untouched
        if not answered(reply):
            return Overwritten
        code = code_of(reply)
        if self.command in _DELETIONS:
            return Overwritten if code is None else Deleted if code else Absent
        idle = reply is None and (self.conditional or self.command in _IDLE_AT_NIL)
        if idle or (code == 0 and self.command in _IDLE_AT_0):
            return Untouched
        return Deleted if key.gone else Overwritten


def recognise_write(command: Command, prefixes: Sequence[bytes]) -> Hand | ListHand | None:
    """A command that may change lock keys, a queue's lists or jobs; None where it changes none. `prefixes` end with
    their colon."""
    spec, words = COMMANDS.get(command.name), command.words
    if spec is None or not spec.writes or _only_reads(command.name, words):
        return None
    places = key_positions(words)
    found = list(_lock_keys([words[at] for at in places], prefixes))
    if command.name in {b"RENAME", b"RENAMENX", b"MOVE", b"COPY"} and len(words) > 2:
        found = _moved(command.name, words, prefixes)
    elif command.name == b"GETDEL":
        found = [key._replace(gone=True) for key in found]
    beside = recognise_hand(command, prefixes)
    if not found:
        return beside
    options = {option_of(word) for word in words[3:]} if command.name == b"SET" else set()
    conditional = bool(options & {b"NX", b"XX"}) and b"GET" not in options
    if beside is not None:
        beside = replace(beside, first_part=len(found))
    return Hand(Script(command.name.decode(), 0, "", "", ""), command.name, tuple(found), conditional, beside)


def _only_reads(name: bytes, words: Sequence[Word]) -> bool:
    """Whether a command that may write does not, as it was sent."""
    if name == b"GETEX":
        return len(words) == 2
    if name != b"BITFIELD" or len(words) >= _WORDS_MAX:  # what stands behind them is not known
        return False
    return not any(option_of(word) in _BITFIELD_WRITES for word in words[2:])


def recognise_unknown(command: Command, prefixes: Sequence[bytes]) -> Hand | None:
    """A call of a script or function that nobody knows, with lock keys among its KEYS; None where there are none."""
    words = command.words
    numkeys = whole(words[2]) if len(words) > 3 else None
    if command.name not in SCRIPT_CALLS or numkeys is None:
        return None
    found = tuple(_lock_keys(words[3 : 3 + numkeys], prefixes))
    if not found:
        return None
    code, sha = words[1] or b"", ""
    if command.name == b"EVALSHA":
        sha = code[:40].decode("ascii", "replace").lower()
    elif command.name == b"EVAL" and code:
        sha = hashlib.sha1(code, usedforsecurity=False).hexdigest()
    return Hand(Script("", 0, sha, "", ""), command.name, found, False)


def _moved(name: bytes, words: Sequence[Word], prefixes: Sequence[bytes]) -> list[LockKey]:
    """A key that leaves its place, and one that arrives: of RENAME, MOVE and COPY."""
    if name == b"MOVE":
        db = whole(words[2])
        leaves = list(_lock_keys(words[1:2], prefixes))
        arrives = [] if db is None else [key._replace(db=db) for key in leaves]
    else:
        options = [option_of(word) for word in words[3:]]
        at = options.index(b"DB") + 1 if name == b"COPY" and b"DB" in options[:-1] else 0
        db = whole(words[3 + at]) if at else None
        if name != b"COPY" and words[1] == words[2]:
            return []
        leaves = [] if name == b"COPY" else list(_lock_keys(words[1:2], prefixes))
        arrives = [key._replace(db=db) for key in _lock_keys(words[2:3], prefixes)]
    return [*(key._replace(gone=True) for key in leaves), *arrives]


def _lock_keys(words: Iterable[Word], prefixes: Sequence[bytes]) -> Iterable[LockKey]:
    """The lock keys among words, each once: `prefix:queue:id:lock`. A queue's name holds no colon, an id may."""
    for key in dict.fromkeys(words):
        if key is None or not key.endswith(LOCK_SUFFIX):
            continue
        for prefix in prefixes:
            if key.startswith(prefix):
                end = key.find(b":", len(prefix)) + 1
                if end and len(key) > end + len(LOCK_SUFFIX):
                    yield LockKey(key, key[:end])
                break


def _db(key: LockKey, db: int) -> int:
    return db if key.db is None else key.db
