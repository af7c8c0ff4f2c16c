"""A job as users name it on the command line: its key, `emq:orders:42`, with `@3` behind it in database 3."""

from __future__ import annotations

import re
from typing import Final

from emqproxy.command_errors import CommandError
from emqproxy.observer import ids

_AFTER_THE_JOB: Final = re.compile(r"\A[^@]*\Z|@[0-9]{1,8}\Z")
"""Nothing, or its database: a slip there must not become the id of another job."""


def read_job(job: str) -> ids.Job:
    """Its database and its key. Raises CommandError where it is none."""
    if _AFTER_THE_JOB.search(job) is None:
        raise CommandError(
            f"JOB: {job!r}: no database's number stands after the @; write it there, like emq:orders:42@3, "
            "or @0 after an id that has an @ itself"
        )
    found = ids.job(job)
    parts = found.key.split(b":")
    if len(parts) < 3 or not (parts[0] and parts[1] and parts[-1]):
        raise CommandError(f"JOB: {job!r} is no job's key; write PREFIX:QUEUE:ID, like emq:orders:42")
    return found
