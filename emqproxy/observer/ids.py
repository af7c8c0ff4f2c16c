"""Trace and attempt ids, computed from the names alone: several sidecars write one trace without talking.

    trace_id   = BLAKE2b-128(person "emqproxy.trace.1", namespace 00 db 00 job_key)
    attempt_id = BLAKE2b-64 (person "emqproxy.att.1",   namespace 00 db 00 job_key 00 token 00 number)

`namespace` is UTF-8, `db` and `number` decimal ASCII, `job_key` the exact bytes of the key, braces kept. An id is
never 0. Two environments that write to one backend need two namespaces, or their traces are merged.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from emqproxy.locks.events import Lock
from emqproxy.observer.names import job_key

_TRACE: Final = hashlib.blake2b(digest_size=16, person=b"emqproxy.trace.1")
_ATTEMPT: Final = hashlib.blake2b(digest_size=8, person=b"emqproxy.att.1")
"""To be copied for each id: that takes half the time of making one."""


class Job(NamedTuple):
    """A job, as users name it."""

    db: int
    key: bytes


def job(written: str) -> Job:
    """`emq:orders:42` or, where the database is not 0, `emq:orders:42@3`.

    A key that itself ends in `@` and digits is written with its database after it, `emq:orders:a@7@0`.
    """
    key, at, db = written.rpartition("@")
    if at and db.isascii() and db.isdigit():
        return Job(int(db), key.encode("utf-8", "surrogateescape"))
    return Job(0, written.encode("utf-8", "surrogateescape"))


def trace_id(namespace: str, db: int, key: bytes) -> int:
    """The trace of a job's spans, 128 bits; as text it is `f"{trace_id:032x}"`."""
    return _hashed(_TRACE, _identity(namespace, db, key))


def attempt_id(namespace: str, db: int, key: bytes, token: bytes, number: int) -> int:
    """The span of one attempt, 64 bits. `number`: how often this token took this job before, as seen by one sidecar."""
    return _hashed(_ATTEMPT, b"%b\0%b\0%d" % (_identity(namespace, db, key), token, number))


def trace_of(namespace: str, lock: Lock) -> int:
    """The trace of the job that this lock guards."""
    return trace_id(namespace, lock.db, job_key(lock))


def span_of(namespace: str, lock: Lock, token: bytes, number: int) -> int:
    """The span of one attempt on the job that this lock guards."""
    return attempt_id(namespace, lock.db, job_key(lock), token, number)


def _identity(namespace: str, db: int, key: bytes) -> bytes:
    return b"%b\0%d\0%b" % (namespace.encode(), db, key)


def _hashed(begun: hashlib.blake2b, data: bytes) -> int:
    own = begun.copy()
    own.update(data)
    return int.from_bytes(own.digest(), "big") or 1
