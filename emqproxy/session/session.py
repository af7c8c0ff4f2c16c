"""The pairing: a line of expected replies, filled by what the client sends and emptied by what the server answers.

    from_client(data, now)  → commands of interest; then `keep` or `forget` each    (forward the bytes as they are)
    from_server(data, now)  → exchanges: commands that were kept, with their answers (serve the client first)
    blinded                 → why nothing can be paired any more; then call `end` for what is left of the line
    end(now)                → exchanges whose answers will never be known

What cannot be paired with certainty is not guessed: the session goes blind, bytes go on, and says why, once. Neither is
what would take more memory than it may: commands that nobody wants are counted and cost nothing, however many are sent
before one is answered; past `pending_bytes_max` of bookkeeping for those somebody wants the session goes blind, too.
What stands in line by then is still paired.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from emqproxy.session.commands import LOCK_MARK, RULES, WRITES
from emqproxy.session.exchange import Command, Exchange
from emqproxy.session.intake import Intake
from emqproxy.session.modes import Run, Slot
from emqproxy.session.pairing import Pairing
from emqproxy.wire.alike import StrangerRule
from emqproxy.wire.frames import ClientWireError, ServerWireError
from emqproxy.wire.replies import ReplyReader
from emqproxy.wire.requests import RequestReader

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
CALL_BYTES: Final = 1_200
"""What a call that somebody wants takes until it is answered: slot, command, operation, its place in the ledger.
Measured over 60,000 renewals in flight."""
SLOT_BYTES: Final = 150
"""What any other place in the line takes."""


class Session:
    """One connection pair. No method raises on account of what a peer sent."""

    def __init__(self, pending_bytes_max: int = PENDING_BYTES_MAX, strangers: StrangerRule | None = None) -> None:
        self.blinded: str | None = None
        self._pending_bytes_max = pending_bytes_max
        self._marks = (LOCK_MARK,) if strangers is None else strangers.prefixes
        """Without one of them a write is nothing to a queue."""
        self._requests = RequestReader(RULES, WRITES, self._marks, strangers)
        self._replies = ReplyReader()
        self._line: deque[Slot | Run] = deque()
        self._intake = Intake(self._line, () if strangers is None else strangers.prefixes)
        self._pairing = Pairing(self._line, self._intake)

    # ---------------------------------------------------------------- getters

    @property
    def client_name(self) -> str | None:
        """What the client calls itself."""
        return self._pairing.proved.name

    @property
    def pending_bytes(self) -> int:
        """Our own bookkeeping for what is unanswered."""
        intake, transaction = self._intake, self._pairing.proved.transaction
        slots = len(self._line) + (len(transaction.queued) if transaction else 0)
        return slots * SLOT_BYTES + intake.kept * CALL_BYTES + intake.held_bytes

    @property
    def over(self) -> bool:
        """Nothing is paired any more; call `end` once."""
        return self._pairing.over is not None

    @property
    def answered(self) -> bool:
        """Nothing is outstanding (True as well once nothing can be told)."""
        return self.over or not self._line

    @property
    def quit(self) -> bool:
        """The client has asked Redis to close."""
        return self._intake.quit

    # ---------------------------------------------------------------- facts in

    def from_client(self, data: bytes, now: int) -> list[Command]:
        """Commands of interest that are complete with these bytes."""
        if self.blinded is not None or self._intake.quit:
            return []
        intake = self._intake
        intake.settle()
        if self._line and self.pending_bytes > self._pending_bytes_max:
            intake.close("its unanswered requests take more than limits.pending_bytes", now)
            self.blinded = intake.blind
            return []
        fault = None
        try:
            items = self._requests.feed(data)
        except ClientWireError as error:
            fault, items = str(error.args[0]), error.args[1]
        commands = intake.take(items, now)
        if fault is not None and intake.blind is None:
            intake.close(fault, now)
        self.blinded = intake.blind
        return commands

    def keep(self, command: Command, *, words: bool = False) -> None:
        """Somebody reads this command's answer; `words` are held until then only if asked for."""
        command.wanted = True
        self._intake.kept += 1
        if words:
            self._intake.hold_words(command)
        else:
            self._intake.drop_words(command)

    def forget(self, command: Command) -> None:
        """Nobody knows this command: its reply is counted and not kept. So it is with one that is never kept."""
        self._intake.drop_words(command)

    def from_server(self, data: bytes, now: int) -> list[Exchange]:
        """Exchanges that are complete with these bytes."""
        pairing, replies = self._pairing, self._replies
        if pairing.over is not None:
            return []
        replies.feed(data)
        try:
            while pairing.over is None:
                counted = pairing.counted()
                if counted and (passed := replies.skip(counted)):
                    pairing.passed(passed)
                    if replies.exhausted:
                        break
                    continue
                frame = replies.next(pairing.limit())
                if frame is None:
                    break
                pairing.read(frame, now)
        except ServerWireError as error:
            pairing.over = f"the server sent {error}"
        if pairing.over is not None:
            self.blinded = self.blinded or pairing.over
        done, pairing.done = pairing.done, []
        return done

    def blind(self, reason: str) -> None:
        """From here on nothing is paired; `end` gives what is left."""
        self.blinded = self.blinded or reason
        self._pairing.over = self._pairing.over or reason

    def end(self, now: int) -> list[Exchange]:
        """The connection closed, or went blind: what stood in line was never answered, or could not be read."""
        pairing = self._pairing
        pairing.end(now)
        pairing.over = pairing.over or "it ended"
        done, pairing.done = pairing.done, []
        return done
