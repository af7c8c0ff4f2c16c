"""Who speaks in a history that is enforced, and with which tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.locks.small_redis import unique


class Scheme(NamedTuple):
    """Who speaks, and with which tokens."""

    name: str
    conns: int
    """Of each worker."""
    token_of: Callable[[int, int], bytes] = unique
    intruder: str = ""
    """What a third does to any job: `bypass` or `delete`."""
    hides: bool = False
    """A worker's connections or tokens do not tell which are of one process, until they show it."""
    doors: int = 1
    """Sidecars before the one Redis."""


SCHEMES: Final = (
    Scheme("unique tokens", 1),
    Scheme("a pool with unique tokens", 2),
    Scheme("one fixed token for both, on a connection each", 1, lambda _, __: b"T"),
    Scheme("a pool with one token each", 2, lambda worker, _: b"p%d" % worker, hides=True),
    Scheme("a pool with random tokens", 2, lambda worker, pick: b"%d-%d" % (pick, worker), hides=True),
    Scheme('unique tokens and an intruder with the token "0"', 1, intruder="bypass"),
    Scheme("one fixed token and an intruder", 1, lambda _, __: b"T", intruder="bypass"),
    Scheme("one fixed token and a DEL by hand", 1, lambda _, __: b"T", intruder="delete"),
)
DOORS: Final = (
    Scheme("two sidecars, unique tokens", 1, doors=2),
    Scheme("two sidecars, one fixed token", 1, lambda _, __: b"T", doors=2),
    Scheme("two sidecars, a pool", 2, doors=2),
    Scheme("two sidecars, a DEL by hand", 1, lambda _, __: b"T", intruder="delete", doors=2),
)
