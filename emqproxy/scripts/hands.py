"""Hands: what a command outside the scripts does to a queue's lists, or to a job's own key. No lock is touched.

Who pushes the id of a job that is held into `wait` gives it out a second time; who takes it out of `active` makes its
holder's finish fail; who deletes its hash makes all fail. What workers of old releases do lawfully is no hand: they pop
from `wait` themselves, into `active`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from emqproxy.locks.events import AnyFact, AnyIntent, Lock, Nothing, Place, Queue, Untouched
from emqproxy.records import Line
from emqproxy.scripts.answers import answered, code_of, failure, part, window
from emqproxy.scripts.layouts import LOCK_SUFFIX, SUFFIXES, lock_key
from emqproxy.scripts.operation import Happening, Script
from emqproxy.session.exchange import Command, Exchange, Reply, Word
from emqproxy.session.table import KEY_ENDS, LIST_MARKS, key_positions, option_of

JOB: Final = "job"
"""What stands for a list's name where a job's own key is deleted."""
WHOLE_LIST: Final = b""
"""What stands for a job where none is named: the whole list was changed."""
TARGETS: Final = frozenset(end[1:].decode() for end in LIST_MARKS) | {JOB}
_ACTIVE: Final = b"active"
_IDS_FROM: Final = {
    b"LPUSH": 2, b"RPUSH": 2, b"LPUSHX": 2, b"RPUSHX": 2, b"LINSERT": 4, b"LSET": 3, b"LREM": 3, b"ZREM": 2,
    b"ZINCRBY": 3,
}  # fmt: skip
"""Where the ids stand in commands that name them; of ZADD see `_members`."""
_POPS: Final = frozenset({b"LPOP", b"RPOP"})
_POPS_OF_SOME: Final = frozenset({b"BLPOP", b"BRPOP", b"LMPOP", b"BLMPOP"})
"""Their answers name the key first."""
_ZPOPS: Final = frozenset({b"ZPOPMIN", b"ZPOPMAX", b"BZPOPMIN", b"BZPOPMAX", b"ZMPOP", b"BZMPOP"})
_MOVES: Final = frozenset({b"LMOVE", b"BLMOVE", b"RPOPLPUSH", b"BRPOPLPUSH"})
_COUNTED: Final = frozenset({b"DEL", b"UNLINK"})
"""They answer how many of their keys are gone."""
_LENGTHS: Final = frozenset({b"LPUSH", b"RPUSH", b"LPUSHX", b"RPUSHX", b"LINSERT", b"SORT", b"ZUNIONSTORE"})
"""They answer how long the list is then."""
_ZADD_OPTIONS: Final = frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"})
_OF_A_QUEUE: Final = {
    *(end[1:] for ends in SUFFIXES.values() for end in ends),
    *(b"delay", b"jobs", b"priority", b"processed", b"rate-limiter", b"stalled-check"),
}
"""What stands behind a queue's prefix in keys that are no job's: today's, and what old releases had."""
_SCHEDULED: Final = re.compile(rb"repeat:.+:\d+\Z", re.DOTALL)
"""The id of a job that a scheduler made."""
_OF_A_JOB: Final = (b":logs", b":dependencies", b":unsuccessful", b":processed", b":failed")
"""What stands behind a job's key in others of its."""


class Touch(NamedTuple):
    """A job that a command names, or with no id a whole list."""

    prefix: bytes
    """Its queue's, with the colon."""
    job_id: bytes | None
    """None: the reply names it."""
    target: str
    """The list's name, or JOB."""


class ListHand(msgspec.Struct, frozen=True):
    """A command on a queue's lists or jobs. Its parts begin at `first_part`: those before are another's."""

    script: Script
    command: bytes
    touches: tuple[Touch, ...]
    names: int
    """So many keys were named in all: of a DEL that answers so, each is gone."""
    first_part: int = 0

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:  # noqa: ARG002  as every operation's
        """None: it touches no lock."""
        return ()

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        """A line for each job it names, by its command or its answer; or for the queue."""
        told = list(self._told(exchange.reply)) if answered(exchange.reply) else list(self.touches)
        found: list[Happening] = []
        for i, touch in enumerate(told):
            place, span, queue = part(at, self.first_part + i), window(exchange), Queue(exchange.db, touch.prefix)
            fact: AnyFact = Nothing(place, span, queue)
            if touch.job_id:
                lock = Lock(exchange.db, lock_key(touch.prefix, touch.job_id))
                fact = Untouched(place, span, lock, queue, b"")
            line = failure(exchange, "raw", target=touch.target)
            if answered(exchange.reply):
                line = Line("raw", "ok", target=touch.target, code=self._code(exchange.reply))
            found.append(Happening(fact, line))
        return tuple(found)

    def _told(self, reply: Reply) -> Iterator[Touch]:
        for touch in self.touches:
            if touch.job_id is not None:
                yield touch
                continue
            popped = reply if isinstance(reply, list) else [reply]
            if self.command in _POPS_OF_SOME:
                popped = popped[1:] if popped[0] == touch.prefix + touch.target.encode() else []
                popped = popped[0] if popped and isinstance(popped[0], list) else popped
            yield from (touch._replace(job_id=job_id) for job_id in popped if isinstance(job_id, bytes) and job_id)

    def _code(self, reply: Reply) -> int | None:
        """The answer, where it says of each what was done to it."""
        code = code_of(reply)
        if code is None or code <= 0:
            return code
        if self.command in _COUNTED:
            return 1 if code == self.names else None
        return None if self.command in _LENGTHS else code


def recognise_hand(command: Command, prefixes: Sequence[bytes]) -> ListHand | None:
    """What a write does to lists and jobs; None where it does nothing to them. `prefixes` end with their colon."""
    name, words = command.name, command.words
    keys = list(dict.fromkeys(words[at] for at in key_positions(words)))
    if name in {b"RENAME", b"RENAMENX"} and len(keys) < 2:
        return None
    touches = list(_touched(command, _changed(name, keys), prefixes))
    if name in KEY_ENDS:
        leaves = keys if name in _COUNTED else keys[:1]
        touches += [touch for key in leaves if (touch := _job_of(key, prefixes)) is not None]
    if not touches:
        return None
    return ListHand(Script(name.decode(), 0, "", "", ""), name, tuple(touches), len(keys))


def _changed(name: bytes, keys: list[Word]) -> list[Word]:
    """Of a command's keys those that it may write to."""
    if name in {b"SORT", b"COPY"}:
        return keys[1:]
    return keys[:1] if name.endswith(b"STORE") else keys


def _touched(command: Command, keys: Sequence[Word], prefixes: Sequence[bytes]) -> Iterator[Touch]:
    name, words = command.name, command.words
    lists = [_list_of(key, prefixes) for key in keys]
    if name in _MOVES and len(lists) == 2:
        yield from _moved(*lists)
        return
    for found in lists:
        if found is None or name in _ZPOPS:
            continue
        prefix, where = found
        if name in _POPS or name in _POPS_OF_SOME:
            if where == _ACTIVE:
                yield Touch(prefix, None, where.decode())
        elif name in _IDS_FROM or name == b"ZADD":
            for job_id in _members(words) if name == b"ZADD" else words[_IDS_FROM[name] :]:
                if job_id:
                    yield Touch(prefix, job_id, where.decode())
        else:
            yield Touch(prefix, WHOLE_LIST, where.decode())


def _moved(source: tuple[bytes, bytes] | None, into: tuple[bytes, bytes] | None) -> Iterator[Touch]:
    """Of a move between two lists: out of `active`, and to where jobs wait from elsewhere."""
    if source is not None and source[1] == _ACTIVE:
        yield Touch(source[0], None, _ACTIVE.decode())
    elif source is not None:
        return
    if into is not None and into[1] != _ACTIVE:
        yield Touch(into[0], None, into[1].decode())


def _members(words: Sequence[Word]) -> Sequence[Word]:
    """Of a ZADD; none where it only changes those that are there."""
    at = 2
    while at < len(words) and option_of(words[at]) in _ZADD_OPTIONS:
        if option_of(words[at]) == b"XX":
            return ()
        at += 1
    return words[at + 1 :: 2]


def _job_of(key: Word, prefixes: Sequence[bytes]) -> Touch | None:
    """The job whose own key this is."""
    if key is None or (split := _split(key, prefixes)) is None:
        return None
    prefix, rest = split
    if rest in _OF_A_QUEUE or rest.endswith((LOCK_SUFFIX, *_OF_A_JOB)) or rest.startswith((b"metrics:", b"de:")):
        return None
    if rest.startswith(b"repeat:") and not _SCHEDULED.match(rest):
        return None
    return Touch(prefix, rest, JOB)


def _list_of(key: Word, prefixes: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Whose list a key is, and which."""
    if key is None or not key.endswith(LIST_MARKS) or (split := _split(key, prefixes)) is None:
        return None
    return split if b":" + split[1] in LIST_MARKS else None


def _split(key: bytes, prefixes: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """A queue's prefix, with its colon, and what stands behind it. A queue's name holds no colon."""
    for prefix in prefixes:
        if key.startswith(prefix):
            end = key.find(b":", len(prefix)) + 1
            return (key[:end], key[end:]) if end and len(key) > end else None
    return None
