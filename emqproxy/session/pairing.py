"""What the server sends empties the line of expected replies: to whom is each frame an answer?

Exact at every reply: `Proved` follows the replies alone. Where no answer fits, `over` says why, and nothing is read on.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from emqproxy.session.commands import CONFIRMATIONS, DENIALS, MESSAGES, Rule
from emqproxy.session.exchange import LOST, NOT_RUN, SILENT, UNREAD, ErrorReply, Exchange, Missing, Reply
from emqproxy.session.intake import Intake
from emqproxy.session.modes import Proved, Run, Slot, Transaction
from emqproxy.session.replies import decode, push_inside
from emqproxy.wire.replies import ARRAY, ELEMENT_BYTES_MAX, ERROR, HEAD_BYTES_MAX, PUSH, STATUS, Frame

_NIL_EXEC: Final = frozenset({b"*-1\r\n", b"_\r\n"})


class Pairing:
    """Frames in, exchanges out (`done`, which the caller takes)."""

    def __init__(self, line: deque[Slot | Run], intake: Intake) -> None:
        self.proved = Proved()
        self.over: str | None = None
        """Why nothing is paired any more."""
        self.done: list[Exchange] = []
        self._answer_ours: bytes | None = None
        self._line = line
        self._intake = intake

    def counted(self) -> int:
        """So many of the next replies need only be counted, whatever they are (a push is none)."""
        line = self._line
        if not line or not isinstance(head := line[0], Run):
            return 0
        proved = self.proved
        return 0 if proved.transaction is not None or proved.listening else head.count

    def take_answer(self) -> bytes | None:
        """What stands for the frame that was read last: it answers what we put in a refused command's place."""
        answer, self._answer_ours = self._answer_ours, None
        return answer

    def passed(self, count: int) -> None:
        """So many replies went by, of those that need only be counted."""
        head = self._line[0]
        assert isinstance(head, Run)
        head.count -= count
        if not head.count:
            self._line.popleft()

    def limit(self) -> int:
        """How much of the next frame is to be kept."""
        for slot in self._line:
            if isinstance(slot, Run) or not slot.silent:  # a silent one leaves the line when another is answered
                return self._limit_of(slot)
        return HEAD_BYTES_MAX

    def read(self, frame: Frame, now: int) -> None:
        """One frame."""
        line, proved = self._line, self.proved
        if frame.kind == PUSH or (frame.kind == ARRAY and proved.listening and _unasked(frame)):
            if frame.kind == PUSH:
                self._confirm(frame)
            return
        while line and isinstance(head := line[0], Slot) and head.silent:
            line.popleft()
            self._finish(head, SILENT, head.opened, now, in_exec=False)
        if not line:
            self.over = "a reply to no question"
            return
        head = line[0]
        if isinstance(head, Run):
            if proved.transaction is not None:
                self._plain(frame)
            head.count -= 1
            if not head.count:
                line.popleft()
        elif head.guarded and frame.kind == ERROR and _denied(frame):
            self.over = "CLIENT REPLY may have been denied"
        elif head.rule is Rule.BLIND:
            self.over = head.reason
        elif head.rule is Rule.SUBSCRIBE or head.rule is Rule.UNSUBSCRIBE:
            self._subscription(head, frame)
        elif head.rule is Rule.REFUSED:
            line.popleft()
            self._refused(head, frame)
        else:
            line.popleft()
            self._answer(head, frame, now)

    def end(self, now: int) -> None:
        """The connection closed, or went blind: what stood in line was never answered, or could not be read."""
        missing = LOST if self.over is None else UNREAD
        transaction = self.proved.transaction
        if transaction is not None:
            runs = any(isinstance(s, Slot) and s.rule is Rule.EXEC for s in self._line)
            self._abandon_queue(transaction, missing if runs or missing is UNREAD else NOT_RUN, now)
        for slot in self._line:
            if isinstance(slot, Slot):
                self._finish(slot, missing, slot.opened, now, in_exec=False)
        self._line.clear()

    # ---------------------------------------------------------------- replies

    def _limit_of(self, slot: Slot | Run) -> int:
        if isinstance(slot, Run) or (slot.rule is Rule.SCRIPT and slot.command is not None and not slot.command.wanted):
            return HEAD_BYTES_MAX if self.proved.listening else 0
        if slot.rule is Rule.EXEC and not (self.proved.transaction and self.proved.transaction.queued):
            return HEAD_BYTES_MAX
        return ELEMENT_BYTES_MAX

    def _plain(self, frame: Frame) -> None:
        transaction = self.proved.transaction
        if transaction is not None and frame.kind != ERROR:
            if frame.kind == STATUS:
                transaction.add(None)
            else:
                self.over = "inside MULTI, a reply that is neither QUEUED nor an error"

    def _answer(self, slot: Slot, frame: Frame, now: int) -> None:
        """The reply to a slot that has one reply."""
        transaction, rule = self.proved.transaction, slot.rule
        if rule is Rule.SCRIPT and transaction is None:
            self._finish(slot, decode(frame.raw), slot.opened, now, in_exec=False)
            return
        if rule is None:
            self._plain(frame)
        elif rule is Rule.RESET:
            self._reset(frame, now)
        elif rule is Rule.QUIT:
            if frame.kind == ERROR:
                self.over = "QUIT was refused"
        elif rule is Rule.MULTI:
            if frame.kind == STATUS:
                self.proved.transaction = Transaction()
        elif transaction is None:
            if rule is not Rule.EXEC and rule is not Rule.DISCARD:
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
            self._intake.db_settled(self.proved.db)

    def _refused(self, slot: Slot, frame: Frame) -> None:
        """What stood in a refused command's place is answered."""
        self._answer_ours = slot.text
        self._intake.refused -= 1
        if self.proved.transaction is not None and frame.kind != ERROR:
            self.over = "inside MULTI, something was queued for a command that was refused"

    def _exec(self, slot: Slot, frame: Frame, transaction: Transaction, now: int) -> None:
        self.proved.transaction = None
        if push_inside(frame.raw):
            self.over = "a push inside EXEC's answer"
            self._abandon_queue(transaction, UNREAD, now)
            return
        results = decode(frame.raw) if transaction.queued or frame.kind == ERROR else []
        aborted = isinstance(results, ErrorReply) and results.prefix == "EXECABORT"
        if frame.kind == ERROR and not aborted:
            self.over = "EXEC was refused in a way that leaves open whether MULTI ended"
            self._abandon_queue(transaction, UNREAD, now)
        elif aborted or frame.raw in _NIL_EXEC:
            self._abandon_queue(transaction, NOT_RUN, now)
        elif isinstance(results, list) and len(results) == transaction.size:
            for index, queued in transaction.queued:
                self._finish(queued, results[index], slot.opened, now, in_exec=True)
        elif transaction.queued:
            self._abandon_queue(transaction, UNREAD, now)
            if results is not UNREAD:
                self.over = "EXEC answered with another number of results than commands were queued"

    def _discard(self, frame: Frame, transaction: Transaction, now: int) -> None:
        if frame.kind == ERROR:
            self.over = "DISCARD was refused inside MULTI"
            return
        self.proved.transaction = None
        self._abandon_queue(transaction, NOT_RUN, now)

    def _reset(self, frame: Frame, now: int) -> None:
        if frame.kind == ERROR:
            self.over = "RESET was refused"
            return
        if self.proved.transaction is not None:
            self._abandon_queue(self.proved.transaction, NOT_RUN, now)
        self.proved.reset()

    def _abandon_queue(self, transaction: Transaction, why: Missing, now: int) -> None:
        for _, queued in transaction.queued:
            self._finish(queued, why, queued.opened, now, in_exec=True)

    def _finish(self, slot: Slot, reply: Reply, opened: int, now: int, *, in_exec: bool) -> None:
        """A command has run, or never will: its effect on the connection, or its exchange."""
        proved, command = self.proved, slot.command
        if command is not None:
            if command.wanted:
                self._intake.answered(command)
                self.done.append(Exchange(command, reply, opened, now, proved.db, in_exec, proved.resp))
        elif isinstance(reply, (ErrorReply, Missing)):
            return
        elif slot.rule is Rule.SELECT and slot.value is not None:
            proved.db = slot.value
        elif slot.rule is Rule.HELLO and slot.value in {2, 3}:
            proved.resp = 3 if slot.value == 3 else 2
        if slot.text is not None:
            proved.name = slot.text.decode("utf-8", "backslashreplace") or None

    # ---------------------------------------------------------------- subscriptions

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
            self.over = f"no confirmation of {head.name.decode()}"
            return
        subscriptions = self.proved.subscriptions
        if not head.replies:
            head.replies = max(1, subscriptions.of(head.name))
        subscriptions.confirm(head.name, total)
        head.replies -= 1
        if not head.replies:
            self._line.popleft()


def _unasked(frame: Frame) -> bool:
    """Whether this array is what a subscribed RESP 2 connection is sent."""
    value = decode(frame.raw)
    return isinstance(value, list) and bool(value) and value[0] in MESSAGES


def _denied(frame: Frame) -> bool:
    value = decode(frame.raw)
    return not isinstance(value, ErrorReply) or value.prefix in DENIALS
