"""Requests in enforce mode: read before they are passed on, and only what can be read in one way.

Two forms pass: multibulk with its CRLFs where they must be, and an inline line without quotes or control characters.
All else raises, and the connection is to be closed: on such bytes Redis and we could disagree about where a command
begins, and a command that nobody judged would run.

What comes out are pieces: bytes that may go on, and what they are. A command that must be judged comes whole, or, where
it is larger than may be held, without its bytes; one that need not be streams through.

Limits, each with its reason:

- No declared length makes us take room: what is held has been received. Redis's own limits on a declared count and
  length (`proto-max-bulk-len`, and 10 words of 16 KiB before a password is given) are Redis's to enforce: it closes
  the connection at that header, and runs nothing of what stands behind it.
- `held_bytes_max` bounds what is held of one command, each word counted as 64 bytes more, for that is what it takes.
- A length line is as short as its number, an inline command at most LINE_BYTES_MAX: Redis closes where it is longer.
  A name is no longer than any command's. Depth is none: requests are flat.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Final

from emqproxy.wire.alike import StrangerRule
from emqproxy.wire.frames import (
    COUNT_MAX,
    CRLF,
    NAME_BYTES_MAX,
    WINDOW_BYTES,
    ZERO_IN_NAME,
    ClientWireError,
    head_of,
    holds_any,
    strict_int,
)
from emqproxy.wire.inline import unquoted
from emqproxy.wire.items import NO_COMMAND, Held, Item, Piece, Request

WORD_BYTES: Final = 64
"""What a held word takes beside its bytes."""
LENGTH_LINE_BYTES_MAX: Final = 24
"""`$` and a number of 64 bits with its CRLF are shorter."""
EARLY_BYTES: Final = 64 * 1024
"""A command of which so much is held is asked after: it may be known by now that nobody needs to judge it."""
HELD_BYTES_MAX: Final = 8 * 1024 * 1024
_PARTS: Final = {b"*%d" % count: 1 + 2 * count for count in range(1, 512)}

Undecided = Callable[[Sequence["bytes | None"], int], bool]
"""Whether a command's first words, and how many it will have, leave open that somebody must judge it."""


class StrictReader:
    """One client's stream in enforce mode: `feed` each piece as it is read."""

    def __init__(
        self,
        wanted: Container[bytes],
        marked: Container[bytes],
        marks: tuple[bytes, ...],
        strangers: StrangerRule | None = None,
        undecided: Undecided | None = None,
    ) -> None:
        """As `RequestReader`'s. `undecided` is asked of a command that grows large, by its first words."""
        self.held_bytes_max = HELD_BYTES_MAX
        self._wanted, self._marked, self._marks, self._stranger = wanted, marked, marks, strangers
        self._undecided = undecided or (lambda _words, _length: True)
        self._rest = b""
        """A line, or the CRLF behind a word, whose end has not come."""
        self._count = self._left = self._longest = 0
        """Words of the open command, those whose end has not come, and the longest; none is open where none is left."""
        self._words: list[bytes | None] | None = None
        """Of the open command, if it may have to be judged."""
        self._held = bytearray()
        """The open command's bytes so far, if it may have to be judged."""
        self._named = False
        self._dropped = False
        """It was too large: the rest of it goes nowhere."""
        self._asked_at = 0
        self._payload = 0
        """Bytes of the open word still to come; its CRLF follows."""
        self._inside = False
        """A word's length was read, and the word with its CRLF has not ended."""
        self._body: bytearray | None = None

    @property
    def at_boundary(self) -> bool:
        """Nothing is open: what comes next begins a command."""
        return not self._left and not self._rest

    @property
    def held(self) -> Held | None:
        """Of the open command, if it may have to be judged."""
        return None if self._words is None or not self._left else Held(self._count, self._longest, self._taken())

    def _taken(self) -> int:
        return len(self._held) + WORD_BYTES * len(self._words or ())

    def feed(self, data: bytes) -> list[Piece]:
        """What may be judged and sent on now. Raises ClientWireError with `.args[1]` = the pieces before the fault."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        out: list[Piece] = []
        pos, slow_until = 0, 0
        try:
            while pos < len(data):
                if self._left:
                    pos = self._go_on(data, pos, out)
                elif data[pos] != 0x2A:
                    pos = self._inline(data, pos, out)
                else:
                    begun = pos
                    if pos >= slow_until:
                        pos = self._whole(data, pos, out)
                        slow_until = begun + WINDOW_BYTES if pos - begun < WINDOW_BYTES // 2 else 0
                    if pos == begun:
                        pos = self._start(data, pos)
        except ClientWireError as error:
            raise ClientWireError(error.args[0], out) from None
        return out

    # ---------------------------------------------------------------- whole commands

    def _whole(self, data: bytes, pos: int, out: list[Piece]) -> int:
        """Commands that lie whole and short before us; where the first begins that does not.

        Exact: where each length is that of the part between two line ends behind it, both readings agree, and those
        line ends are the CRLFs that must be there.
        """
        window = data[pos : pos + WINDOW_BYTES]
        parts = window.split(CRLF)
        at, last, begun, count = 0, len(parts) - 1, 0, 0
        while at < last:
            stop = at + _PARTS.get(parts[at], last + 1)
            if stop > last:
                break
            words: list[bytes | None] = parts[at + 2 : stop : 2]  # type: ignore[assignment]  # none is None yet
            if list(map(head_of, map(len, words))) != parts[at + 1 : stop : 2]:  # type: ignore[arg-type]
                break
            if self._must_be_judged(words):
                if count:
                    out.append(Piece(CRLF.join(parts[begun:at]) + CRLF, count))
                out.append(Piece(CRLF.join(parts[at:stop]) + CRLF, Request(words, len(words))))
                begun, count = stop, 0
            elif 0 in (words[0] or b"") or len(words[0] or b"") > NAME_BYTES_MAX:
                break
            else:
                count += 1
            at = stop
        if count:
            out.append(Piece(CRLF.join(parts[begun:at]) + CRLF, count))
        return pos + len(window) - len(CRLF.join(parts[at:]))

    def _must_be_judged(self, words: list[bytes | None]) -> bool:
        """Whether a whole command is anybody's; its name is upper case then."""
        name = words[0] or b""
        if name not in self._wanted:
            name = name.upper()
        if name in self._wanted:
            words[0] = name
            return self._stranger is None or not self._stranger(words)
        if name not in self._marked or not any(holds_any(word, self._marks) for word in words if word):
            return False
        words[0] = name
        return True

    # ---------------------------------------------------------------- commands in parts

    def _start(self, data: bytes, pos: int) -> int:
        count = self._length(data, pos, 0x2A, "an empty command, or a count that is no number as Redis writes it")
        if count is None:
            self._rest = data[pos:]
            return len(data)
        if not 0 < count <= COUNT_MAX:
            raise ClientWireError("an empty command, or one of more words than Redis reads")
        self._count = self._left = count
        self._words, self._longest, self._named, self._dropped = [], 0, False, False
        self._asked_at = min(EARLY_BYTES, self.held_bytes_max + 1)
        stop = data.find(CRLF, pos) + 2
        self._held += data[pos:stop]
        return stop

    def _go_on(self, data: bytes, pos: int, out: list[Piece]) -> int:
        """Reads on in the open command; what was read is held, goes on, or goes nowhere."""
        begun, before = pos, -1
        while self._left and pos != before:
            before, pos = pos, self._word(data, pos)
        raw = data[begun:pos]
        self._rest = data[pos:] if self._left else b""
        over = not self._left
        if self._words is not None:
            self._held += raw
            raw = b""
            if self._taken() >= self._asked_at and self._grows_too_large():
                out.append(Piece(b"", Request(self._words, self._count), too_large=True))
                self._dropped, self._words, self._body = True, None, None
            elif over and self._words is not None:
                item: Item = Request(self._words, self._count) if self._must_be_judged(self._words) else 1
                out.append(Piece(bytes(self._held), item))
                self._held.clear()
        if self._words is None:
            if not self._dropped and (self._held or raw):
                out.append(Piece(bytes(self._held) + raw, 1 if over else None))
            self._held.clear()
        return pos if over else len(data)

    def _grows_too_large(self) -> bool:
        """Much of a command is held. It goes on unjudged if nobody needs to, else it is held on, up to the limit."""
        assert self._words is not None
        taken = self._taken()
        self._asked_at = min(2 * taken, self.held_bytes_max + 1)
        if not self._named or not self._left:
            return taken > self.held_bytes_max
        self._words[0] = (self._words[0] or b"").upper()
        if not self._undecided(self._words, self._count):
            self._words = self._body = None
            return False
        return taken > self.held_bytes_max

    def _word(self, data: bytes, pos: int) -> int:
        """One word, or as much of it as there is; the position it came to."""
        if pos == len(data):
            return pos
        if not self._inside:
            size = self._length(data, pos, 0x24, "a word that is no bulk string, or a length as Redis never writes it")
            if size is None:
                return pos
            if size < 0:
                raise ClientWireError("a word of no length")
            pos = data.find(CRLF, pos) + 2
            self._inside, self._payload, self._longest = True, size, max(size, self._longest)
            if not self._named and size > NAME_BYTES_MAX:
                raise ClientWireError("a name that is longer than any command's")
            self._body = None if self._words is None else bytearray()
        if self._payload:
            step = min(self._payload, len(data) - pos)
            if self._body is not None:
                self._body += data[pos : pos + step]
            self._payload -= step
            pos += step
            if self._payload:
                return pos
        end = data[pos : pos + 2]
        if end != CRLF:
            if len(end) == 2 or not CRLF.startswith(end):
                raise ClientWireError("a word without CRLF behind it")
            return pos
        self._ended()
        return pos + 2

    def _ended(self) -> None:
        """The open word is whole."""
        self._inside = False
        self._left -= 1
        if self._words is None:
            return
        assert self._body is not None
        word, self._body = bytes(self._body), None
        self._words.append(word)
        if not self._named:
            self._named = True
            name = word.upper()
            if 0 in name:
                raise ClientWireError(ZERO_IN_NAME)
            if name not in self._wanted and name not in self._marked:
                self._words = None

    def _length(self, data: bytes, pos: int, kind: int, wrong: str) -> int | None:
        """The number on a length line; None where its end has not come."""
        if data[pos] != kind:
            raise ClientWireError(wrong)
        stop = data.find(CRLF, pos, pos + LENGTH_LINE_BYTES_MAX)
        number = strict_int(data[pos + 1 : stop]) if stop >= 0 else None
        if number is None and (stop >= 0 or len(data) - pos >= LENGTH_LINE_BYTES_MAX):
            raise ClientWireError(wrong)
        return number

    # ---------------------------------------------------------------- inline

    def _inline(self, data: bytes, pos: int, out: list[Piece]) -> int:
        stop = data.find(b"\n", pos)
        line = data[pos : stop if stop >= 0 else len(data)]
        words: list[bytes | None] = [*unquoted(line)]
        if stop < 0:
            self._rest = data[pos:]
            return len(data)
        item: Item = NO_COMMAND
        if words:
            item = Request(words, len(words)) if self._must_be_judged(words) else 1
        out.append(Piece(data[pos : stop + 1], item))
        return stop + 1
