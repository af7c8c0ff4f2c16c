"""A session whose commands are judged before they go on: enforce mode's. It can be gated and be set free again.

    from_client_judged(data, now, judge)  → what may be sent on; what was refused is replaced there
    from_server_judged(data, now)         → what the client is given; what answers a replacement is replaced by ours
    question(now)                         → after either: what is to be sent on our own account (see `standing`)
    waits                                 → after either: give it no more of the client's for now

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
from emqproxy.session.standing import (
    UNPROVEN_BYTES_MAX,
    WAITING_BYTES,
    denies,
    is_last_word,
    proves,
    trespass,
    trespasses,
)
from emqproxy.session.table import COMMANDS
from emqproxy.wire.alike import StrangerRule
from emqproxy.wire.frames import ClientWireError, ServerWireError, strict_int
from emqproxy.wire.items import Piece, Request
from emqproxy.wire.replies import HEAD_BYTES_MAX, PUSH, Frame
from emqproxy.wire.strict import HELD_BYTES_MAX, StrictReader

PLACEHOLDER: Final = b"*1\r\n$4\r\nPING\r\n"
REJECTED_WHEN_QUEUEING: Final = b"*1\r\n$3\r\nGET\r\n"
"""Of too few words: inside MULTI it makes Redis refuse the EXEC."""
_TOO_LARGE: Final = b"-EMQPROXY too_large a command larger than limits.judge_bytes that needs judging\r\n"
_TOO_LARGE_YET: Final = (
    b"-EMQPROXY too_large a command of this size that needs judging, before Redis has answered this connection: send"
    b" PING, or AUTH, and wait for its answer\r\n"
)
HELD_BACK_BYTES_MAX: Final = 1024 * 1024
"""No answer to a replacement is as long as this: what is begun then is a message, and goes on."""

Judge = Callable[[Command], "bytes | None"]
"""None: it may pass, and whoever judged it has kept or forgotten it; else what its client is answered."""


class GatedSession(Session):
    """Begins free: `gate` and `free` may be called where `at_boundary` says so."""

    def __init__(self, pending_bytes_max: int = PENDING_BYTES_MAX, strangers: StrangerRule | None = None) -> None:
        super().__init__(pending_bytes_max, strangers)
        self.judge_bytes = HELD_BYTES_MAX
        """A larger command that needs judging is refused."""
        self._strangers = strangers
        self._strict = StrictReader(RULES, WRITES, self._marks, strangers, self._undecided)
        self._proven = False
        """Redis has done what it was asked."""
        self._pieces, self._asked_at = 0, -1
        """So many pieces have gone on, and had when we last asked: once for each open command."""
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

    @property
    def waits(self) -> bool:
        """Much is held of a command, and an answer is out that may tell whether more of it may be."""
        if self._proven or self.blinded is not None or self.over:
            return False
        held = self._strict.held
        return held is not None and held.taken >= WAITING_BYTES and not self.answered

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
            self._pieces += 1
            intake.settle()
            if self._line and self.pending_bytes > self._pending_bytes_max:
                fault = "its unanswered requests take more than limits.pending_bytes"
                break
            out.append(self._passed(piece, now, judge))
            if intake.blind is not None or intake.quit:
                break
        self.blinded = intake.blind or fault
        return b"".join(out)

    def question(self, now: int) -> bytes:
        """What goes on although no client sent it; mostly nothing."""
        held = None if self._proven or self._asked_at == self._pieces else self._strict.held
        if held is None or not trespasses(held) or self.blinded is not None or self.over or self._intake.quit:
            return b""
        sent = self._intake.sent
        if sent.multi and (self._line or self._pairing.proved.transaction is not None):  # else it was refused
            return b""
        if not sent.heard:
            return b""
        self._asked_at = self._pieces
        self._intake.settle()
        self._intake.refusable(Request([b"SCRIPT"], 1), now)
        self._intake.refuse_last(b"")
        return trespass(held)

    def _passed(self, piece: Piece, now: int, judge: Judge) -> bytes:
        """One piece, or what goes in its place."""
        intake, item = self._intake, piece.item
        if item is None:
            return piece.raw
        if piece.too_large and not isinstance(item, int):
            intake.refusable(item, now)
            for_good = self._proven or self.judge_bytes <= UNPROVEN_BYTES_MAX
            return self._replaced(_TOO_LARGE if for_good else _TOO_LARGE_YET)
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
                frame = replies.next(pairing.limit() if self._proven else pairing.limit() or HEAD_BYTES_MAX)
                if frame is None:
                    break
                begun, self._read_to = self._read_to - bytes_at, replies.read_to
                pairing.read(frame, now)
                answer = pairing.take_answer()
                if self._given_instead(frame, answer):
                    out += [buffer[sent:begun], answer or b""]
                    sent = self._read_to - bytes_at
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

    def _given_instead(self, frame: Frame, answer: bytes | None) -> bool:
        """Whether `answer` is given for a frame; and what the frame says of whom Redis knows this client to be."""
        if (proved := proves(frame)) is not None:
            self._proven = proved
        if not answer:
            return answer is not None and not is_last_word(frame)
        return not denies(frame) and not is_last_word(frame)

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
