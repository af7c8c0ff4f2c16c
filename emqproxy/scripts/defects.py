"""What is wrong with a call in itself, whatever is known of locks: a hand on a lock's key, a script that nobody knows
on the protocol's keys, a known script whose keys and arguments do not hold together, a pickup without a lock's time.

Source: CONTRACT, `[rules]`; the names of its rules are used here as words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from emqproxy.locks.events import AnyIntent, Nothing, Place, Queue, Take
from emqproxy.records import Line
from emqproxy.scripts.acquire import WILDCARD
from emqproxy.scripts.answers import answered, failure, window
from emqproxy.scripts.arguments import Call, sha_of, split
from emqproxy.scripts.families import EXACT
from emqproxy.scripts.layouts import SUFFIXES, Layout
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.scripts.raw import SCRIPT_CALLS, Hand
from emqproxy.session.exchange import Command, Exchange

_QUEUE_ROLES: Final = frozenset(SUFFIXES) - {"lock", "job_logs", "job_dependencies", "job_unsuccessful"}

ANY_ARITY: Final = -1
"""Of a script that is known by its name or by its sha alone."""


class Defect(NamedTuple):
    """A rule by its name, and in words what is wrong."""

    rule: str
    words: str


class Stranger(msgspec.Struct, frozen=True):
    """A call that nobody can read, on a queue's keys: one `write` line, so that what is said of it has a place."""

    script: Script
    prefix: bytes
    """The queue's, with the colon; empty where no queue can be told."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:  # noqa: ARG002  as every operation's
        """None: it bears on no lock that it names."""
        return ()

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        line = Line("write", "ok") if answered(exchange.reply) else failure(exchange, "write")
        return (Happening(Nothing(at, window(exchange), Queue(exchange.db, self.prefix)), line),)


class KnownScripts(NamedTuple):
    """What a catalogue tells of a sha."""

    script: Script | None
    """None: nobody knows it."""
    layout: Layout | None
    """None: it has none, or several."""


def of_call(
    command: Command, operation: Operation | None, known: KnownScripts, prefixes: tuple[bytes, ...]
) -> Defect | None:
    """What is wrong with a command, which was recognised as `operation` (None: as none), or None. `prefixes` end with
    their colon."""
    if command.name not in SCRIPT_CALLS:
        if isinstance(operation, Hand):
            return Defect("raw_lock_write", f"{command.name.decode()} on a lock's key outside the protocol's scripts")
        return None
    call = split(command.words)
    if known.script is not None:
        return _malformed(known.script, known.layout, with_its_keys(call, known.script))
    if operation is not None and operation.script.match not in {"shape", ""}:
        return None
    keys = () if call is None else call.keys
    if not any(key is not None and key.startswith(prefixes) for key in keys):
        return None
    what = f"the function {_shown(command.words[1])}" if command.name == b"FCALL" else "a script that nobody knows"
    return Defect("unknown_script", f"{what} on a queue's keys; learn it by emqproxy scripts add or scripts.allow")


def of_pickup(intents: Iterable[AnyIntent], ttl_ms_min: int, ttl_ms_max: int) -> Defect | None:
    """What is wrong with the pickup or fetch-next among a call's intents, or None."""
    for intent in intents:
        if not isinstance(intent, Take) or intent.anything or intent.token in {b"", WILDCARD}:
            continue
        if intent.ttl_ms is None:
            return Defect("bad_duration", "a pickup without a lockDuration above 0; its job would be active unlocked")
        if not ttl_ms_min <= intent.ttl_ms <= ttl_ms_max:
            bounds = f"limits.ttl_ms_min {ttl_ms_min} to limits.ttl_ms_max {ttl_ms_max}"
            return Defect("bad_duration", f"a pickup with a lockDuration of {intent.ttl_ms} ms; write one of {bounds}")
    return None


def stranger(command: Command, known: KnownScripts, prefixes: tuple[bytes, ...]) -> Stranger:
    """A script call as one that nobody can read."""
    call = split(command.words)
    keys = () if call is None else call.keys
    script = known.script or Script("", 0, sha_called(command), "", "")
    for key in keys:
        for start in prefixes:
            if key is not None and key.startswith(start) and (end := key.find(b":", len(start)) + 1):
                return Stranger(script, key[:end])
    return Stranger(script, b"")


def sha_called(command: Command) -> str:
    """The sha1 of the script that a command calls, lower case; empty for a function, or a text too large to hold."""
    code = command.words[1] if len(command.words) > 1 else None
    if not code or command.name == b"FCALL":
        return ""
    return (sha_of(code) if command.name == b"EVAL" else code[:40].lower()).decode("ascii", "replace")


def with_its_keys(call: Call | None, script: Script) -> Call | None:
    """A call without the keys behind those that its script takes, where they are nothing to it."""
    if call is None or script.name in EXACT or not 0 <= script.arity < len(call.keys):
        return call
    return Call(call.keys[: script.arity], call.args)


def _malformed(script: Script, layout: Layout | None, call: Call | None) -> Defect | None:
    if call is None:  # Redis refuses it
        return None
    if script.arity not in {len(call.keys), ANY_ARITY}:
        return Defect("malformed_call", f"{script.label} with a numkeys of {len(call.keys)}; it takes {script.arity}")
    if layout is None:
        return None
    prefix = layout.word(call, "prefix")
    for role, key in zip(layout.row.keys, call.keys, strict=True):
        ends = SUFFIXES.get(role)
        if ends is None or key is None:
            continue
        if not key.endswith(ends):
            return Defect("malformed_call", f"{script.label} whose key for {role} does not end with {_named(ends)}")
        if prefix and role in _QUEUE_ROLES and not key.startswith(prefix):
            words = "whose keys and ARGV are of different prefixes; a client's keyPrefix would do that"
            return Defect("malformed_call", f"{script.label} {words}")
    if not layout.fits(call) and None not in call.keys:
        return Defect("malformed_call", f"{script.label} whose job's key is not the one of its prefix and id")
    return None


def _named(ends: tuple[bytes, ...]) -> str:
    return " or ".join(end.decode() for end in ends)


def _shown(name: bytes | None) -> str:
    """For an error line: no line break of a client's may end it."""
    return "".join(c if c.isprintable() else "?" for c in (name or b"")[:40].decode("ascii", "replace"))
