"""The wipe family: FLUSHALL, FLUSHDB and SWAPDB. No scripts, and yet they end locks by the database.

Their lines name no job and no queue; of a SWAPDB there is one for each of its databases.
"""

from __future__ import annotations

from typing import Final

import msgspec

from emqproxy.locks.events import AnyIntent, Nothing, Place, Queue, Window, Wipe, Wiped
from emqproxy.records import Line
from emqproxy.scripts.answers import answered, failure
from emqproxy.scripts.arguments import whole
from emqproxy.scripts.operation import Happening, Script
from emqproxy.session.exchange import NOT_RUN, Command, ErrorReply, Exchange

WIPES: Final = frozenset({b"FLUSHALL", b"FLUSHDB", b"SWAPDB"})


class Wiping(msgspec.Struct, frozen=True):
    """A recognised wipe."""

    script: Script
    dbs: tuple[int, ...] | None
    """Which databases; None: the one it runs in, empty: all."""

    def intents(self, at: Place, db: int) -> tuple[AnyIntent, ...]:
        """It may end locks anywhere: one intent."""
        return (Wipe(at, Queue(db, b"")),)

    def happenings(self, exchange: Exchange, at: Place) -> tuple[Happening, ...]:
        """Wiped, unless Redis said that it did not; an answer that never came may have been an OK."""
        window = Window(exchange.opened, exchange.closed)
        queue = Queue(exchange.db, b"")
        line = Line("wipe", "ok") if answered(exchange.reply) else failure(exchange, "wipe")
        if exchange.reply is NOT_RUN or isinstance(exchange.reply, ErrorReply):
            return (Happening(Nothing(at, window, queue), line),)
        dbs: tuple[int | None, ...] = (exchange.db,) if self.dbs is None else self.dbs or (None,)
        wiped = (Wiped(at._replace(part=i + 1), window, db) for i, db in enumerate(dbs))
        return (*(Happening(fact, line) for fact in wiped), Happening(Nothing(at, window, queue), None))


def recognise_wipe(command: Command) -> Wiping | None:
    """By its name; None where Redis will refuse it, or swap a database with itself."""
    script = Script(command.name.decode(), 0, "", "", "")
    if command.name == b"FLUSHALL":
        return Wiping(script, ())
    if command.name == b"FLUSHDB":
        return Wiping(script, None)
    numbers = [whole(word) for word in command.words[1:3]]
    if len(command.words) != 3 or None in numbers or numbers[0] == numbers[1]:
        return None
    return Wiping(script, tuple(number for number in numbers if number is not None))
