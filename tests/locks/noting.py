"""A job's story as notes, told to a doctor: one line a word, times in milliseconds."""

from __future__ import annotations

import itertools
from typing import Any

from emqproxy.locks.causes import Diagnosis
from emqproxy.locks.diagnosis import Doctor
from emqproxy.locks.notes import MS, Note

QUEUE = (0, "q:")
BEGAN_MS = -1_000_000
_SPEAKS = {
    "granted": ("acquire", "ok"),
    "renewed": ("renew", "ok"),
    "released": ("finish", "ok"),
    "not_mine": ("renew", "refused"),
    "absent": ("finish", "refused"),
    "held_by_other": ("finish", "refused"),
    "swept": ("reap", "ok"),
}


class Story:
    """Tokens are `worker:n`; `take`, `renew` and the rest are `say` of an effect."""

    def __init__(self, ttl_ms: int = 2000, began_ms: float = BEGAN_MS) -> None:
        self.ttl_ms = ttl_ms
        self.doctor = Doctor(int(began_ms * MS), 100)
        self._seq = itertools.count(1)

    def say(self, at_ms: float, effect: str, token: str = "a:1", **more: Any) -> Diagnosis | None:
        """A line about job 1 by default, whose call took `took_ms`."""
        op, outcome = _SPEAKS.get(effect, ("finish", "ok"))
        took_ms = more.pop("took_ms", 0)
        opened, closed = int(at_ms * MS), int((at_ms + took_ms) * MS)
        proves = effect in {"granted", "renewed"}
        fields = {"queue": QUEUE, "job": "q:1", "conn": 1, "ttl_ms": self.ttl_ms if proves else None} | more
        if token:
            fields |= {"token": token, "worker": token.partition(":")[0]}
        return self.doctor.observe(
            Note(
                next(self._seq),
                fields.pop("op", op),
                fields.pop("outcome", outcome),
                "absent" if effect == "swept" else effect,
                opened,
                closed,
                **fields,
            )
        )

    def close(self, at_ms: float, conn: int | None = 1) -> None:
        """A connection closes; without one, Redis is lost."""
        self.doctor.observe(
            Note(next(self._seq), "conn", "told", "sighted", at := int(at_ms * MS), at, target="closed", conn=conn)
        )

    def cause(self, at_ms: float, effect: str, token: str = "a:1", **more: Any) -> str | None:
        found = self.say(at_ms, effect, token, **more)
        return None if found is None else found.cause
