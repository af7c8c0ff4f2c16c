"""Scripts known by the shape of their calls only: an unknown sha, keys and arguments like those of one family.

The last resort, and bounded: every key is of one queue under a configured prefix and stands where a layout has it, and
every argument whose form is known has that form. Where all layouts that fit read the same, the call gives the family's
operation, except that whatever the family does not answer leaves the locks it names unseen, as after an unknown hand.
Where they differ, or where a family's answer would prove too much for a guess (a removal), it gives one `write` line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from emqproxy.locks.events import (
    AnyFact,
    AnyIntent,
    Granted,
    Lock,
    Nothing,
    Overwrite,
    Overwritten,
    Perhaps,
    Place,
    Queue,
    Untouched,
)
from emqproxy.records import Line
from emqproxy.scripts.answers import answered, code_of, failure, nothing_ran, window
from emqproxy.scripts.arguments import Call, entry, plain, split, unpack, whole
from emqproxy.scripts.families import FAMILIES, Recogniser
from emqproxy.scripts.layouts import LOCK_SUFFIX, SUFFIXES, Layout, NamedJob, named_job
from emqproxy.scripts.operation import Happening, Operation, Script
from emqproxy.scripts.release import Ending
from emqproxy.session.exchange import Exchange, Reply, Word

KEYS_TOLD_MIN: Final = 2
"""Keys of a layout whose ends are told: fewer than these, and any script on a queue's key would fit."""

_OWNERLESS: Final = b""
_OF_A_JOB: Final = frozenset(("lock", "job_logs", "job_dependencies", "job_unsuccessful"))
_QUEUE_KEYS: Final = {role: ends for role, ends in SUFFIXES.items() if role not in _OF_A_JOB and role != "prefix"}
_QUEUE_ENDS: Final = frozenset(end[1:] for ends in _QUEUE_KEYS.values() for end in ends)
_LINE_ONLY: Final = frozenset(("removeJob", "cleanJobsInSet", "removeOrphanedJobs", "releaseLock"))
"""Their answers are too plain (0, 1, a list) for what they would prove."""
_LOCK_FAMILIES: Final = frozenset(
    (
        "moveToActive", "moveToFinished", "moveToDelayed", "retryJob", "moveToWaitingChildren",
        "moveJobFromActiveToWait", "moveStalledJobsToWait", "extendLock", "extendLocks",
    )
)  # fmt: skip


class Surmise(msgspec.Struct, frozen=True):
    """A call that is read as a lock family's, on the strength of its shape."""

    script: Script
    operation: Operation

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        return self.operation.intents(at, db)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        return tuple(self._doubted(happening, exchange.reply) for happening in self.operation.happenings(exchange, at))

    def _doubted(self, happening: Happening, reply: Reply) -> Happening:
        """What the family would not have answered was perhaps no call of it: the lock may be anybody's now."""
        fact = happening.fact
        if isinstance(fact, Perhaps) or (isinstance(fact, Granted) and not _is_job(reply)):
            told = Overwritten(fact.place, fact.window, fact.lock, fact.queue, fact.token)
            return Happening(told, happening.line)
        return happening


class Guess(msgspec.Struct, frozen=True):
    """A call that may be of several scripts, or of one that proves too much: a write to a queue, perhaps to a job."""

    script: Script
    prefix: bytes
    job: NamedJob | None

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        if self.job is None:
            return ()
        return (Overwrite(at, Queue(db, self.prefix), Lock(db, self.job.lock), _OWNERLESS),)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        reply, span, queue = exchange.reply, window(exchange), Queue(exchange.db, self.prefix)
        line = Line("write", "ok", code=code_of(reply)) if answered(reply) else failure(exchange, "write")
        fact: AnyFact = Nothing(at, span, queue)
        if self.job is not None:
            proof = Untouched if nothing_ran(reply) else Overwritten
            fact = proof(at, span, Lock(exchange.db, self.job.lock), queue, _OWNERLESS)
        return (Happening(fact, line),)


class Shapes:
    """All layouts whose shape is telling, by number of keys."""

    def __init__(self, rows: Mapping[tuple[str, int], Sequence[Layout]], prefixes: Sequence[bytes]) -> None:
        """`prefixes` end with their colon."""
        self._prefixes = tuple(prefixes)
        self._by_arity: dict[int, list[tuple[Layout, Recogniser]]] = {}
        for (name, arity), layouts in rows.items():
            recogniser = FAMILIES.get(name)
            for layout in layouts:
                if recogniser is not None and _is_telling(layout):
                    self._by_arity.setdefault(arity, []).append((layout, recogniser))

    def may_fit(self, words: Sequence[Word]) -> bool:
        """Whether a script call's first key is within the prefixes: what most calls of strangers are not."""
        key = words[3] if len(words) > 3 else None
        return key is not None and key.startswith(self._prefixes)

    def read(self, sha: str, words: Sequence[Word]) -> Operation | None:
        """What a call of a script that nobody knows looks like; None where it looks like nothing. Never raises."""
        call = split(words)
        candidates = () if call is None else self._by_arity.get(len(call.keys), ())
        if call is None or not candidates:
            return None
        found: list[tuple[Layout, Operation]] = []
        prefix = b""
        for layout, recogniser in candidates:
            of = _queue_of(layout, call, self._prefixes)
            if of is None or not _arguments_fit(layout, call, of):
                continue
            operation = recogniser(Script(layout.script, layout.arity, sha, "shape", ""), layout, call)
            if operation is None:
                return None
            prefix = of
            found.append((layout, operation))
        return _settled(sha, prefix, found, call) if found else None


def _settled(sha: str, prefix: bytes, found: list[tuple[Layout, Operation]], call: Call) -> Operation | None:
    operation, names = found[-1][1], {layout.script for layout, _ in found}
    name = operation.script.name
    if len(names) == 1 and name not in _LINE_ONLY and all(agree(other, operation) for _, other in found):
        return Surmise(operation.script, operation) if name in _LOCK_FAMILIES else operation
    if any(key is not None and key.endswith(LOCK_SUFFIX) for key in call.keys):
        return None  # it is a hand on that lock
    jobs = {named_job(layout, call) for layout, _ in found}
    script = operation.script if len(names) == 1 else Script("", 0, sha, "shape", "")
    return Guess(script, prefix, jobs.pop() if len(jobs) == 1 else None)


def agree(one: Operation, other: Operation) -> bool:
    """Whether two readings of a call are the same in all that facts are made of."""
    if isinstance(one, Ending) and isinstance(other, Ending):
        # How long a delay is stands in one release's arguments and not in its neighbour's; no fact is made of it.
        return one == msgspec.structs.replace(other, delay_ms=one.delay_ms)
    return one == other


def _is_telling(layout: Layout) -> bool:
    row = layout.row
    if any(role.endswith("…") for role in row.args):
        return False
    # A batch renewal has one key, and two packed lists of one length and a time besides.
    return row.script == "extendLocks" or sum(role in SUFFIXES for role in row.keys) >= KEYS_TOLD_MIN


def _queue_of(layout: Layout, call: Call, prefixes: tuple[bytes, ...]) -> bytes | None:
    """The one queue's prefix whose keys stand where the layout has them; None where they do not."""
    prefix: bytes | None = None
    for role, key in zip(layout.row.keys, call.keys, strict=True):
        if key is None:
            return None
        if role in _QUEUE_KEYS:
            end = next((end for end in _QUEUE_KEYS[role] if key.endswith(end)), None)
            of = None if end is None else key[: len(key) - len(end) + 1]
            if of is None or (prefix is not None and of != prefix):
                return None
            prefix = of
    if prefix is None or not _is_queue(prefix, prefixes):
        return None
    for role, key in zip(layout.row.keys, call.keys, strict=True):
        if key is None or not key.startswith(prefix) or not _key_fits(role, key, prefix):
            return None
    return prefix


def _is_queue(prefix: bytes, prefixes: tuple[bytes, ...]) -> bool:
    """`emq:orders:`, whose name holds no colon."""
    return any(
        prefix.startswith(start) and len(start) < prefix.find(b":", len(start)) == len(prefix) - 1 for start in prefixes
    )


def _key_fits(role: str, key: bytes, prefix: bytes) -> bool:
    if role == "prefix":
        return key == prefix
    if role in _OF_A_JOB:
        return any(key.endswith(end) and len(key) > len(prefix) + len(end) for end in SUFFIXES[role])
    if role == "job":
        return len(key) > len(prefix) and key[len(prefix) :] not in _QUEUE_ENDS and not key.endswith(LOCK_SUFFIX)
    return True


def _arguments_fit(layout: Layout, call: Call, prefix: bytes) -> bool:
    """Whether each argument has the form of its role. One more than the layout has is tolerated: a client sends it."""
    roles, args = layout.row.args, call.args
    if not 0 <= len(args) - len(roles) <= 1:
        return False
    if any(role in _FORMS and not _FORMS[role](word) for role, word in zip(roles, args, strict=False)):
        return False
    if layout.word(call, "prefix") not in {None, prefix} or not _job_fits(layout, call, prefix):
        return False
    takes = layout.script in {"moveToActive", "moveToFinished"} or layout.word(call, "fetch_next") == b"1"
    if takes and not _is_holder(layout.word(call, "packed_options")):
        return False
    tokens, ids = layout.word(call, "tokens"), layout.word(call, "job_ids")
    return tokens is None or _lengths(tokens) == _lengths(ids) is not None


def _job_fits(layout: Layout, call: Call, prefix: bytes) -> bool:
    """The job's id, its key and its lock's are of one job of the queue."""
    job_id, job, lock = (layout.word(call, role) for role in ("job_id", "job", "lock"))
    if job_id is None or job_id == b"":
        return "job_id" not in layout.row.args
    named = prefix + job_id
    return job in {None, named} and lock in {None, named + LOCK_SUFFIX}


def _lengths(packed: Word) -> int | None:
    listed = unpack(packed)
    return len(listed) if isinstance(listed, list) else None


def _is_job(reply: Reply) -> bool:
    """Exactly the answer of a pickup that gave a job out: its hash, its id, 0, 0."""
    match reply:
        case [list() as flat, _, 0, 0]:
            return len(flat) % 2 == 0
        case [dict(), _, 0, 0]:
            return True
        case _:
            return False


def _is_holder(word: Word) -> bool:
    """Packed options that say who takes the lock, and for how long."""
    options = unpack(word)
    return bool(plain(entry(options, b"token"))) and bool(whole(entry(options, b"lockDuration")))


def _one_of(*words: bytes) -> Callable[[Word], bool]:
    allowed = frozenset(words)
    return lambda word: word in allowed


def _is_number(word: Word) -> bool:
    return whole(word) is not None


def _is_packed_list(word: Word) -> bool:
    return word == b"" or isinstance(unpack(word), list)


_FORMS: Final[dict[str, Callable[[Word], bool]]] = {
    "timestamp": _is_number,
    "token": bool,
    "duration_ms": lambda word: bool(whole(word)),
    "packed_options": lambda word: word == b"" or isinstance(unpack(word), dict),
    "packed_arguments": lambda word: isinstance(unpack(word), list),
    "tokens": lambda word: isinstance(unpack(word), list),
    "fields": _is_packed_list,
    "fetch_next": _one_of(b"", b"0", b"1", b"false", b"true"),
    "skip_attempt": _one_of(b"", b"0", b"1", b"false", b"true"),
    "push_command": _one_of(b"LPUSH", b"RPUSH"),
    "target": _one_of(b"completed", b"failed"),
    "delayed_timestamp": _is_number,
    "delay_ms": _is_number,
    "max_stalled_count": _is_number,
    "max_check_time_ms": _is_number,
    "count": _is_number,
    "force": _one_of(b"", b"force"),
}
"""By the role of an argument: whether a word has its form. Roles not named here have any."""
