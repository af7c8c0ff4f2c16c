"""The pairing: a line of expected replies, filled by what the client sends and emptied by what the server answers.

    from_client(data, now)  → commands of interest; then `keep` or `forget` each    (forward the bytes as they are)
    from_server(data, now)  → exchanges: commands that were kept, with their answers (serve the client first)
    blinded                 → why nothing can be paired any more; then call `end` for what is left of the line
    end(now)                → exchanges whose answers will never be known

What cannot be paired with certainty is not guessed: the session goes blind, bytes go on, and says why, once.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from emqproxy.session.commands import CONFIRMATIONS, DENIALS, LOCK_MARK, MESSAGES, RULES, WRITES, Rule
from emqproxy.session.exchange import LOST, NOT_RUN, SILENT, UNREAD, Command, ErrorReply, Exchange, Missing, Reply
from emqproxy.session.intake import Intake
from emqproxy.session.modes import Proved, Run, Slot, Transaction
from emqproxy.session.replies import decode
from emqproxy.wire.frames import ClientWireError, ServerWireError
from emqproxy.wire.replies import ARRAY, ELEMENT_BYTES_MAX, ERROR, HEAD_BYTES_MAX, PUSH, STATUS, Frame, ReplyReader
from emqproxy.wire.requests import RequestReader

SLOT_BYTES: Final = 600
"""What a slot with its command and operation takes, about: counted against `limits.pending_bytes`."""
_NIL_EXEC: Final = frozenset({b"*-1\r\n", b"_\r\n"})


class Session:
    """One connection pair. No method raises on account of what a peer sent."""

    def __init__(self) -> None:
        self.blinded: str | None = None
        self._requests = RequestReader(RULES, WRITES, LOCK_MARK)
        self._replies = ReplyReader()
        self._line: deque[Slot | Run] = deque()
        self._intake = Intake(self._line)
        self._proved = Proved()
        self._over = False
        """Nothing is paired any more: the line's blind end has been reached."""
        self._done: list[Exchange] = []

    # ---------------------------------------------------------------- getters

    @property
    def client_name(self) -> str | None:
        """What the client calls itself."""
        return self._proved.name

    @property
    def pending_bytes(self) -> int:
        """Our own bookkeeping for what is unanswered."""
        queued = self._proved.transaction
        return (len(self._line) + (len(queued.queued) if queued else 0)) * SLOT_BYTES + self._intake.held_bytes

    @property
    def over(self) -> bool:
        """Nothing is paired any more; call `end` once."""
        return self._over

    @property
    def answered(self) -> bool:
        """Nothing is outstanding (True as well once nothing can be told)."""
        return self._over or not self._line

    # ---------------------------------------------------------------- facts in

    def from_client(self, data: bytes, now: int) -> list[Command]:
        """Commands of interest that are complete with these bytes."""
        if self.blinded is not None or self._intake.quit:
            return []
        fault = None
        try:
            items = self._requests.feed(data)
        except ClientWireError as error:
            fault, items = str(error.args[0]), error.args[1]
        commands = self._intake.take(items, now)
        if fault is not None and self._intake.blind is None:
            self._intake.close(fault, now)
        self.blinded = self._intake.blind
        return commands

    def keep(self, command: Command, *, words: bool = False) -> None:
        """Somebody reads this command's answer; `words` are held until then only if asked for."""
        command.wanted = True
        if not words:
            self._intake.drop_words(command)

    def forget(self, command: Command) -> None:
        """Nobody knows this command: its reply is counted and not kept."""
        self._intake.drop_words(command)

    def from_server(self, data: bytes, now: int) -> list[Exchange]:
        """Exchanges that are complete with these bytes."""
        if self._over:
            return []
        self._done = []
        self._replies.feed(data)
        try:
            while not self.over and (frame := self._replies.next(self._limit())) is not None:
                self._read(frame, now)
        except ServerWireError as error:
            self.blind(f"the server sent {error}")
        done, self._done = self._done, []
        return done

    def blind(self, reason: str) -> None:
        """From here on nothing is paired; `end` gives what is left."""
        self.blinded = self.blinded or reason
        self._over = True

    def end(self, now: int) -> list[Exchange]:
        """The connection closed, or went blind: what stood in line was never answered, or could not be read."""
        missing = UNREAD if self._over else LOST
        self._over, self._done = True, []
        transaction = self._proved.transaction
        if transaction is not None:
            runs = any(isinstance(s, Slot) and s.rule is Rule.EXEC for s in self._line)
            self._abandon_queue(transaction, missing if runs or missing is UNREAD else NOT_RUN, now)
        for slot in self._line:
            if isinstance(slot, Slot):
                self._finish(slot, missing, slot.opened, now, in_exec=False)
        self._line.clear()
        done, self._done = self._done, []
        return done

    # ---------------------------------------------------------------- replies

    def _limit(self) -> int:
        """How much of the next frame is to be kept."""
        for slot in self._line:
            if isinstance(slot, Run) or not slot.silent:  # a silent one leaves the line when another is answered
                return self._limit_of(slot)
        return HEAD_BYTES_MAX

    def _limit_of(self, slot: Slot | Run) -> int:
        if isinstance(slot, Run) or (slot.rule is Rule.SCRIPT and slot.command is not None and not slot.command.wanted):
            return HEAD_BYTES_MAX if self._proved.listening else 0
        if slot.rule is Rule.EXEC and not (self._proved.transaction and self._proved.transaction.queued):
            return HEAD_BYTES_MAX
        return ELEMENT_BYTES_MAX

    def _read(self, frame: Frame, now: int) -> None:
        """One frame: to whom is it an answer?"""
        if frame.kind == PUSH or (frame.kind == ARRAY and self._proved.listening and self._unasked(frame)):
            if frame.kind == PUSH:
                self._confirm(frame)
            return
        line = self._line
        while line and isinstance(head := line[0], Slot) and head.silent:
            line.popleft()
            self._finish(head, SILENT, head.opened, now, in_exec=False)
        if not line:
            self.blind("a reply to no question")
            return
        head = line[0]
        if isinstance(head, Run):
            self._plain(frame)
            head.count -= 1
            if not head.count:
                line.popleft()
            return
        if head.guarded and frame.kind == ERROR and self._denied(frame):
            self.blind("CLIENT REPLY may have been denied")
        elif head.rule is Rule.BLIND:
            self.blind(head.reason)
        elif head.rule in {Rule.SUBSCRIBE, Rule.UNSUBSCRIBE}:
            self._subscription(head, frame)
        else:
            line.popleft()
            self._answer(head, frame, now)

    def _plain(self, frame: Frame) -> None:
        transaction = self._proved.transaction
        if transaction is not None and frame.kind != ERROR:
            if frame.kind == STATUS:
                transaction.add(None)
            else:
                self.blind("inside MULTI, a reply that is neither QUEUED nor an error")

    def _answer(self, slot: Slot, frame: Frame, now: int) -> None:
        """The reply to a slot that has one reply."""
        transaction, rule = self._proved.transaction, slot.rule
        if rule is None:
            self._plain(frame)
        elif rule is Rule.QUIT:
            if frame.kind == ERROR:
                self.blind("QUIT was refused")
        elif rule is Rule.RESET:
            self._reset(frame, now)
        elif rule is Rule.MULTI:
            if frame.kind == STATUS:
                self._proved.transaction = Transaction()
        elif transaction is None:
            if rule not in {Rule.EXEC, Rule.DISCARD}:
                self._finish(slot, decode(frame.raw), slot.opened, now, in_exec=False)
        elif rule is Rule.EXEC:
            self._exec(slot, frame, transaction, now)
        elif rule is Rule.DISCARD:
            self._discard(frame, transaction, now)
        elif frame.kind == STATUS:
            transaction.add(slot)
            return
        else:
            self._finish(slot, decode(frame.raw), slot.opened, now, in_exec=False)
        if slot.moves_db:
            self._intake.db_settled(self._proved.db)

    def _exec(self, slot: Slot, frame: Frame, transaction: Transaction, now: int) -> None:
        self._proved.transaction = None
        results = decode(frame.raw) if transaction.queued or frame.kind == ERROR else []
        aborted = isinstance(results, ErrorReply) and results.prefix == "EXECABORT"
        if frame.kind == ERROR and not aborted:
            self.blind("EXEC was refused in a way that leaves open whether MULTI ended")
            self._abandon_queue(transaction, UNREAD, now)
        elif aborted or frame.raw in _NIL_EXEC:
            self._abandon_queue(transaction, NOT_RUN, now)
        elif isinstance(results, list) and len(results) == transaction.size:
            for index, queued in transaction.queued:
                self._finish(queued, results[index], slot.opened, now, in_exec=True)
        elif transaction.queued:
            self._abandon_queue(transaction, UNREAD, now)
            if results is not UNREAD:
                self.blind("EXEC answered with another number of results than commands were queued")

    def _discard(self, frame: Frame, transaction: Transaction, now: int) -> None:
        if frame.kind == ERROR:
            self.blind("DISCARD was refused inside MULTI")
            return
        self._proved.transaction = None
        self._abandon_queue(transaction, NOT_RUN, now)

    def _reset(self, frame: Frame, now: int) -> None:
        if frame.kind == ERROR:
            self.blind("RESET was refused")
            return
        if self._proved.transaction is not None:
            self._abandon_queue(self._proved.transaction, NOT_RUN, now)
        self._proved.reset()

    def _abandon_queue(self, transaction: Transaction, why: Missing, now: int) -> None:
        for _, queued in transaction.queued:
            self._finish(queued, why, queued.opened, now, in_exec=True)

    def _finish(self, slot: Slot, reply: Reply, opened: int, now: int, *, in_exec: bool) -> None:
        """A command has run, or never will: its effect on the connection, or its exchange."""
        proved, command = self._proved, slot.command
        if command is not None:
            self._intake.drop_held(command)
            if command.wanted:
                self._done.append(Exchange(command, reply, opened, now, proved.db, in_exec, proved.resp))
        elif isinstance(reply, (ErrorReply, Missing)):
            return
        elif slot.rule is Rule.SELECT and slot.value is not None:
            proved.db = slot.value
        elif slot.rule is Rule.HELLO and slot.value in {2, 3}:
            proved.resp = 3 if slot.value == 3 else 2
        if slot.text is not None:
            proved.name = slot.text.decode("utf-8", "backslashreplace") or None

    # ---------------------------------------------------------------- subscriptions

    def _unasked(self, frame: Frame) -> bool:
        value = decode(frame.raw)
        return isinstance(value, list) and bool(value) and value[0] in MESSAGES

    def _confirm(self, frame: Frame) -> None:
        """A push: a confirmation, if the head of the line waits for one; else nobody asked for it."""
        head = self._line[0] if self._line else None
        if isinstance(head, Slot) and head.rule in {Rule.SUBSCRIBE, Rule.UNSUBSCRIBE}:
            value = decode(frame.raw)
            if isinstance(value, list) and value and value[0] in CONFIRMATIONS:
                self._subscription(head, frame)

    def _subscription(self, head: Slot, frame: Frame) -> None:
        """A reply to a (P|S)(UN)SUBSCRIBE: one confirmation of several, or one error for all."""
        if frame.kind == ERROR:
            self._line.popleft()
            return
        value = decode(frame.raw)
        total = value[2] if isinstance(value, list) and len(value) == 3 and value[0] == head.name.lower() else None
        if not isinstance(total, int):
            self.blind(f"no confirmation of {head.name.decode()}")
            return
        subscriptions = self._proved.subscriptions
        if not head.replies:
            head.replies = max(1, subscriptions.of(head.name))
        subscriptions.confirm(head.name, total)
        head.replies -= 1
        if not head.replies:
            self._line.popleft()

    def _denied(self, frame: Frame) -> bool:
        value = decode(frame.raw)
        return not isinstance(value, ErrorReply) or value.prefix in DENIALS
