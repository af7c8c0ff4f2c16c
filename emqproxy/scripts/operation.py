"""What a recognised call is to the rest of the house: its intents before, its happenings after.

A family's file (acquire, renew, release, reap) reads KEYS and ARGV by the script's layout and gives an `Operation`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from emqproxy.locks.events import AnyFact, AnyIntent, Place
from emqproxy.records import Line
from emqproxy.session.exchange import Exchange


class Script(msgspec.Struct, frozen=True):
    """A script of the protocol, as the catalogue knows it."""

    name: str
    arity: int
    sha: str
    """Lower case."""
    match: str
    """How it was known: `catalogue`, `learned` or `shape` (CONTRACT, "Recognition"); empty where nobody knows it."""
    releases: str
    """First and last release with this text, `5.60.0-5.81.5`; empty for a learned one."""

    @property
    def label(self) -> str:
        """`moveToFinished-14`. Of a command that is no script its name, `DEL`; of a script nobody knows nothing."""
        return f"{self.name}-{self.arity}" if self.name and self.sha else self.name


class Happening(NamedTuple):
    """One fact of an exchange, with its line; None where the fact is only the ledger's business (an empty pickup)."""

    fact: AnyFact
    line: Line | None


class Operation(Protocol):
    """A recognised call whose arguments have been read. It holds what it needs and nothing of a job's data."""

    @property
    def script(self) -> Script: ...

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        """What it is about to attempt. `at` has part 0; the parts are the operation's to give out."""
        ...

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        """What its answer proves. Each intent is answered by exactly one fact with the same Place. Never raises on
        account of what a peer sent."""
        ...
