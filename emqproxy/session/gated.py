"""A session whose commands are judged before they go on: enforce mode's. It can be gated and be set free again.

    from_client_judged(data, now, judge)  → what may be sent on; what was refused is replaced there
    from_server_judged(data, now)         → what the client is given; what answers a replacement is replaced by ours

A refused command keeps its place because something harmless goes upstream in its stead, whose one answer is swapped
for ours: a PING; inside MULTI a command that Redis rejects when queueing it, so that it aborts the EXEC. Where CLIENT
REPLY keeps answers back, the replacement uses up a SKIP as the command would have, and there is nothing to swap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from emqproxy.session.commands import LOCK_MARK, RULES, WRITES, Rule
from emqproxy.session.exchange import Command, Exchange, Word
from emqproxy.session.modes import Run, Slot
from emqproxy.session.session import PENDING_BYTES_MAX, Session
from emqproxy.session.table import COMMANDS
from emqproxy.wire.alike import StrangerRule
from emqproxy.wire.frames import ClientWireError, ServerWireError, strict_int
from emqproxy.wire.replies import ERROR, PUSH
from emqproxy.wire.strict import HELD_BYTES_MAX, Piece, StrictReader

PLACEHOLDER: Final = b"*1\r\n$4\r\nPING\r\n"
REJECTED_WHEN_QUEUEING: Final = b"*1\r\n$3\r\nGET\r\n"
"""Of too few words: inside MULTI it makes Redis refuse the EXEC."""
UNPROVEN_BYTES_MAX: Final = 1024 * 1024
"""Held of one command on a connection to which Redis has given no answer but errors yet: it may be nobody who may do
anything. Redis itself holds 10 words of 16 KiB for such a client, but only where a password is asked, which we cannot
know before it has answered; the longest text that real clients send first has 40 kB."""
HELD_BACK_BYTES_MAX: Final = 1024 * 1024
"""No answer to a replacement is as long as this: what is begun then is a message, and goes on."""

Judge = Callable[[Command], "bytes | None"]
"""None: it may pass, and whoever judged it has kept or forgotten it; else what its client is answered."""


class GatedSession(Session):
    """Begins free: `gate` and `free` may be called where `at_boundary` says so."""

    def __init__(
        self, pending_bytes_max: int = PENDING_BYTES_MAX, strangers: StrangerRule | None = None
    ) -> None:
        super().__init__(pending_bytes_max, strangers)
        self.judge_bytes = HELD_BYTES_MAX
        """A larger command that needs judging is refused."""
        self.refusal_of_large: Callable[[Command], bytes] = _too_large
        self._strangers = strangers
        self._strict = StrictReader(RULES, WRITES, LOCK_MARK, strangers, self._undecided)
        self._proven = False
        self._read_to = 0
        """Of what the server sent: where the last whole frame ended."""
        self._held_back = b""
        """The begin of a frame that may be the answer to a replacement."""

    @property
    def at_boundary(self) -> bool:
        """No command is open, as far as its bytes have been looked at."""
        return self._requests.at_boundary and self._strict.at_boundary

    @property
    def swaps(self) -> bool:
        """An answer of ours is still to be given."""
        return self._intake.refused > 0 or bool(self._held_back)

    @property
    def open_bytes(self) -> int:
        """Where a command is open: at least so many of the next bytes are of it."""
        return self._requests.open_bytes

    @property
    def answered(self) -> bool:
        """As a session's; what cannot be paired any more is not waited for, nor what CLIENT REPLY keeps back."""
        awaited = (item for item in self._line if isinstance(item, Run) or not item.silent)
        head = next(awaited, None)
        return self.over or head is None or (isinstance(head, Slot) and head.rule is Rule.BLIND)

    def gate(self) -> None:
        """From here on commands are judged; call it at a boundary, when all answers that came were read."""
        self._read_to = self._replies.read_to

    # ---------------------------------------------------------------- requests

    def from_client_judged(self, data: bytes, now: int, judge: Judge) -> bytes:
        """What may be sent on. Where `blinded` is set afterwards, nothing that follows may, and the connection is to be
        closed when what was asked before is answered; so it is after a QUIT, without being blinded."""
        intake, out = self._intake, []
        if self.blinded is not None or intake.quit:
            return b""
        self._strict.held_bytes_max = self.judge_bytes if self._proven else min(self.judge_bytes, UNPROVEN_BYTES_MAX)
        fault = None
        try:
            pieces = self._strict.feed(data)
        except ClientWireError as error:
            fault, pieces = str(error.args[0]), error.args[1]
        for piece in pieces:
            intake.settle()
            if self._line and self.pending_bytes > self._pending_bytes_max:
                fault = "its unanswered requests take more than limits.pending_bytes"
                break
            out.append(self._passed(piece, now, judge))
            if intake.blind is not None or intake.quit:
                break
        self.blinded = intake.blind or fault
        return b"".join(out)

    def _passed(self, piece: Piece, now: int, judge: Judge) -> bytes:
        """One piece, or what goes in its place."""
        intake, item = self._intake, piece.item
        if item is None:
            return piece.raw
        if piece.too_large and not isinstance(item, int):
            command = intake.refusable(item, now)
            return self._replaced(self.refusal_of_large(command))
        commands = intake.take((item,), now)
        if intake.blind is not None:
            return b""
        if not commands:
            return piece.raw
        answer = judge(commands[0])
        return piece.raw if answer is None else self._replaced(answer)

    def _replaced(self, answer: bytes) -> bytes:
        return REJECTED_WHEN_QUEUEING if self._intake.refuse_last(answer) else PLACEHOLDER

    def _undecided(self, words: Sequence[Word], length: int) -> bool:
        """Whether it shows only later that nobody needs to judge a large command."""
        name = words[0] or b""
        if name in WRITES:
            spec = COMMANDS[name]
            if spec.more or not 0 <= spec.last < len(words):
                return True
            return any(word is not None and word.endswith(LOCK_MARK) for word in words[1:])
        if name != b"EVALSHA" or self._strangers is None or len(words) < 4:
            return True
        keys = strict_int(words[2] or b"")
        return keys is None or len(words) < min(length, 3 + keys) or not self._strangers(words)

    # ---------------------------------------------------------------- answers

    def from_server_judged(self, data: bytes, now: int) -> tuple[bytes, list[Exchange]]:
        """What the client is given, and the exchanges that are complete."""
        pairing, replies = self._pairing, self._replies
        if pairing.over is not None:
            return b"", []
        bytes_at, buffer, sent = replies.fed - len(self._held_back), self._held_back + data, 0
        out: list[bytes] = []
        replies.feed(data)
        try:
            while pairing.over is None:
                counted = pairing.counted() if self._proven else 0
                if counted and (passed := replies.skip(counted)):
                    pairing.passed(passed)
                    self._read_to = replies.read_to
                    continue
                frame = replies.next(pairing.limit())
                if frame is None:
                    break
                begun, self._read_to = self._read_to - bytes_at, replies.read_to
                pairing.read(frame, now)
                if answer := pairing.take_answer():
                    out += [buffer[sent:begun], answer]
                    sent = self._read_to - bytes_at
                else:
                    self._proven = self._proven or frame.kind != ERROR
        except ServerWireError as error:
            pairing.over = f"the server sent {error}"
        done, pairing.done = pairing.done, []
        whole, self._held_back = self._read_to - bytes_at, b""
        if self.over:  # an error that Redis says before it closes is still the client's to read
            self.blinded = self.blinded or pairing.over
            out.append(b"" if self._intake.refused else buffer[sent:])
        elif 0 <= whole < len(buffer) and self._answers_a_replacement(buffer, whole):  # else its begin has gone on
            out.append(buffer[sent:whole])
            self._held_back = buffer[whole:]
        else:
            out.append(buffer[sent:])
        return b"".join(out), done

    def _answers_a_replacement(self, buffer: bytes, at: int) -> bool:
        """Whether the frame that is begun there may be one that is to be swapped."""
        if not self._intake.refused or buffer[at] == PUSH or len(buffer) - at > HELD_BACK_BYTES_MAX:
            return False
        for item in self._line:
            if isinstance(item, Run):
                return False
            if not item.silent:
                return item.rule is Rule.REFUSED
        return False


def _too_large(_: Command) -> bytes:
    return b"-EMQPROXY too_large a command larger than limits.judge_bytes that needs judging\r\n"
