"""The small machines of a connection: what has been sent, and what the replies have proved.

`Sent` runs ahead: it predicts from requests alone, and is used only where the prediction is certain or where being
wrong costs nothing but a blind connection. `Proved` follows the replies and is exact at every reply.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from emqproxy.session.commands import CHANNEL_KINDS, Rule
from emqproxy.session.exchange import Command


class Slot(msgspec.Struct, eq=False, gc=False):
    """A place in the line of expected replies, for a command whose reply or effect must be known."""

    rule: Rule | None
    """None: a plain command, kept apart because it is `guarded`."""
    opened: int
    command: Command | None = None
    silent: bool = False
    """CLIENT REPLY keeps its answer back: it leaves the line when the next reply comes."""
    guarded: bool = False
    """The first reply after a silence: if it says that commands are denied, CLIENT REPLY may have been, too."""
    replies: int = 1
    """Of a (P|S)(UN)SUBSCRIBE: confirmations still to come; 0 where that shows only when its turn comes."""
    name: bytes = b""
    """Of a (P|S)(UN)SUBSCRIBE: upper case."""
    value: int | None = None
    """Of SELECT: the database; of HELLO: the version."""
    text: bytes | None = None
    """The client name it sets; of a REFUSED slot: what its client is answered."""
    moves_db: bool = False
    """The connection's database may change when it is answered."""
    reason: str = ""
    """Of a BLIND slot: why."""


class Run(msgspec.Struct, eq=False, gc=False):
    """A run of plain commands: so many replies, nobody reads them."""

    count: int


class Sent(msgspec.Struct):
    """The state a connection is in if all that was sent is accepted."""

    db: int = 0
    multi: bool = False
    multi_db: int | None = None
    """The database selected inside the open MULTI: holds inside it, and after EXEC."""
    off: bool = False
    skip: bool = False
    """The next command's reply is kept back."""
    guard: bool = False
    """The next slot in line is the first after a silence."""
    subscribed: bool = False

    @property
    def db_now(self) -> int:
        """The database the next command will run in."""
        return self.db if self.multi_db is None else self.multi_db

    @property
    def heard(self) -> bool:
        """A command that is sent now is answered for certain, and the answer is its own."""
        return not (self.off or self.skip or self.guard)

    def silenced(self) -> bool:
        """Whether this command's answer is kept back; takes the SKIP with it."""
        silent = self.off or self.skip
        self.skip = False
        return silent

    def left_multi(self, *, executed: bool) -> None:
        """EXEC or DISCARD was sent."""
        if executed and self.multi_db is not None:
            self.db = self.multi_db
        self.multi, self.multi_db = False, None

    def reset(self) -> None:
        """RESET was sent."""
        self.db, self.multi, self.multi_db, self.off, self.skip, self.subscribed = 0, False, None, False, False, False


class Transaction(msgspec.Struct):
    """An open MULTI, as the replies proved it."""

    size: int = 0
    """Commands that were answered QUEUED."""
    queued: list[tuple[int, Slot]] = msgspec.field(default_factory=list)
    """Those whose result matters, with their place in EXEC's reply."""

    def add(self, slot: Slot | None) -> None:
        """A command was answered QUEUED."""
        if slot is not None:
            self.queued.append((self.size, slot))
        self.size += 1


class Subscriptions(msgspec.Struct):
    """How many subscriptions of each kind the confirmations have proved."""

    channels: int = 0
    patterns: int = 0
    shards: int = 0

    def __bool__(self) -> bool:
        return self.channels + self.patterns + self.shards > 0

    def of(self, command: bytes) -> int:
        """How many there are of the kind that this command works on."""
        return int(getattr(self, CHANNEL_KINDS[command]))

    def confirm(self, command: bytes, total: int) -> None:
        """A confirmation came: it gives the sum of channels and patterns, or the number of shard channels."""
        kind = CHANNEL_KINDS[command]
        if kind == "channels":
            self.channels = total - self.patterns
        elif kind == "patterns":
            self.patterns = total - self.channels
        else:
            self.shards = total


class Proved(msgspec.Struct):
    """The state that the replies have proved: exact for the command whose reply is read next."""

    db: int = 0
    resp: Literal[2, 3] = 2
    name: str | None = None
    """As given in CLIENT SETNAME or HELLO."""
    transaction: Transaction | None = None
    subscriptions: Subscriptions = msgspec.field(default_factory=Subscriptions)

    @property
    def listening(self) -> bool:
        """Messages may come as ordinary arrays: RESP 2 knows no push."""
        return self.resp == 2 and bool(self.subscriptions)

    def reset(self) -> None:
        """RESET was answered."""
        self.db, self.resp, self.name, self.transaction, self.subscriptions = 0, 2, None, None, Subscriptions()
