"""What clients send: multibulk and inline commands, as redis-server frames them.

The reader counts commands that nobody wants and holds the words of those somebody does, up to its limits. It accepts
what Redis accepts (the two bytes behind a bulk are not checked, `*0` and blank lines are no command) and nothing else.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from emqproxy.wire.alike import Alike, StrangerRule
from emqproxy.wire.frames import (
    COUNT_MAX,
    CR,
    CRLF,
    HELD_BYTES_MAX,
    HELD_WORD_BYTES_MAX,
    HELD_WORDS_MAX,
    LINE_BYTES_MAX,
    MARKED_WORD_BYTES_MAX,
    NAME_BYTES_MAX,
    SMALL,
    WINDOW_BYTES,
    ZERO_IN_NAME,
    ClientWireError,
    head_of,
    holds_any,
    strict_int,
)
from emqproxy.wire.inline import read_line
from emqproxy.wire.items import NO_COMMAND, Item, Request, add_unwanted

_PARTS: Final = {b"*%d" % count: 1 + 2 * count for count in range(1, HELD_WORDS_MAX + 1)}
"""Between line ends: the parts of a command of so many words, where no word has a line end inside."""


class RequestReader:
    """A reader of one client's byte stream. Call `feed` with each piece; what it returns is complete."""

    def __init__(
        self,
        wanted: Container[bytes],
        marked: Container[bytes] = (),
        marks: tuple[bytes, ...] = (),
        strangers: StrangerRule | None = None,
    ) -> None:
        """Upper-case names: `wanted` always; `marked` are held if a mark stands in the bytes, and may be if not. A
        wanted command whose words are a stranger's is counted as one that nobody wants."""
        self._stranger = strangers
        self._alike = Alike(marks, strangers)
        self._wanted, self._marked, self._marks = wanted, marked, marks
        self._marking: bool | None = False
        """The commands in `marked` are held in this piece; None: nobody has looked yet."""
        self._word_bytes_max = HELD_WORD_BYTES_MAX
        self._rest = b""
        """An incomplete line: at most LINE_BYTES_MAX."""
        self._left = 0
        """Words of the open command whose length line was not read yet."""
        self._open = False
        self._count = 0
        self._words: list[bytes | None] | None = None
        """The open command's words, if somebody wants it."""
        self._held = 0
        self._body: bytearray | None = None
        """A wanted word whose end has not come yet; `_missing` says how much of it."""
        self._missing = 0
        self._skip = 0
        """Bytes up to the end of the word whose payload is not held, or has been."""

    @property
    def at_boundary(self) -> bool:
        """Nothing is open: what comes next begins a command."""
        return not self._open and not self._rest

    @property
    def open_bytes(self) -> int:
        """Where a command is open: at least so many of the next bytes are of it."""
        return max(1, self._skip, self._missing)

    def feed(self, data: bytes) -> list[Item]:
        """Complete commands, in order. Raises ClientWireError with `.args[1]` = what was complete before the fault."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        out: list[Item] = []
        pos, end, named_at, self._marking = 0, len(data), -1, None
        slow_until, alike = 0, self._alike
        match, made = alike.within(data), alike.made
        try:
            while pos < end:
                if self._open:
                    if self._left == self._count:
                        named_at = pos
                    pos = self._words_from(data, pos, end)
                    if self._left == 0 and not self._skip and self._body is None:
                        self._finish(out)
                elif data[pos] == 0x2A:
                    if match is not None and (found := match(data, pos)) is not None:
                        add_unwanted((found.end() - pos) // alike.length, out)
                        pos = found.end()
                        continue
                    if pos >= slow_until:
                        begun, pos = pos, self._whole(data, pos, out)
                        if made != alike.made:
                            match, made = alike.within(data), alike.made
                        if pos - begun < WINDOW_BYTES // 2:
                            # Or a stream of what `_whole` cannot read would be looked at again for each command.
                            slow_until = begun + WINDOW_BYTES
                        if pos != begun:
                            continue
                    pos = self._start(data, pos, end, out)
                else:
                    pos = self._inline(data, pos, end, out)
            if self._open and self._words is None and named_at >= 0 and self._marks and self._left < self._count:
                self._again(data, named_at, end)
        except ClientWireError as error:
            raise ClientWireError(error.args[0], out) from None
        return out

    def _marks_in(self, data: bytes) -> bool:
        if self._marking is None:
            self._marking = holds_any(data, self._marks)
        return self._marking

    def _again(self, data: bytes, named_at: int, end: int) -> None:
        """The open command is cut: its mark may stand in the next piece, so from its name on it is read as marked."""
        self._marking = True
        self._rest, self._body, self._skip, self._left = b"", None, 0, self._count
        self._words_from(data, named_at, end)

    # ---------------------------------------------------------------- multibulk

    def _whole(self, data: bytes, pos: int, out: list[Item]) -> int:
        """Reads commands that lie whole and short before us, nearly all; where the first begins that does not.

        Exact: where each length equals that of the part between two line ends behind it, both readings agree.
        """
        window = data[pos : pos + WINDOW_BYTES]
        parts = window.split(CRLF)
        at, last = 0, len(parts) - 1
        wanted, stranger, unwanted = self._wanted, self._stranger, 0
        marked, alike = self._marked, self._alike
        while at < last:
            stop = at + _PARTS.get(parts[at], last + 1)
            if stop > last:
                break
            words: list[bytes | None] = parts[at + 2 : stop : 2]  # type: ignore[assignment]  # none is None yet
            heads = parts[at + 1 : stop : 2]
            if list(map(head_of, map(len, words))) != heads:  # type: ignore[arg-type]
                break
            name = sent = parts[at + 2]
            if name not in wanted:
                name = name.upper()
            if name in wanted or (name in marked and self._marks_in(data)):
                words[0] = name
                if stranger is not None and stranger(words):
                    alike.saw(heads, sent, words[1], False)
                    unwanted += 1
                    at = stop
                    continue
                if unwanted:
                    add_unwanted(unwanted, out)
                    unwanted = 0
                out.append(Request(words, len(words)))
            elif 0 in name:
                break
            else:
                alike.saw(heads, sent, None, name in marked)
                unwanted += 1
            at = stop
        if unwanted:
            add_unwanted(unwanted, out)
        return pos + len(window) - len(CRLF.join(parts[at:]))

    def _start(self, data: bytes, pos: int, end: int, out: list[Item]) -> int:
        line_end = data.find(CR, pos, end)
        if line_end < 0 or line_end + 1 >= end:
            return self._keep(data, pos)
        count = strict_int(data[pos + 1 : line_end])
        if count is None or count > COUNT_MAX:
            raise ClientWireError("an invalid multibulk length")
        if count <= 0:
            out.append(NO_COMMAND)
        else:
            self._open, self._left, self._count, self._words, self._held = True, count, count, None, 0
        return line_end + 2

    def _words_from(self, data: bytes, pos: int, end: int) -> int:
        """Reads on in the open command's words; the position it came to."""
        if self._skip:
            step = min(self._skip, end - pos)
            self._skip -= step
            return pos + step
        if self._body is not None:
            return self._body_from(data, pos, end)
        left, words = self._left, self._words
        while left:
            line_end = data.find(CR, pos, pos + 24)
            if line_end < 0 or line_end + 1 >= end:
                self._left = left
                if end - pos >= 24:
                    raise ClientWireError("an invalid bulk length")
                return self._keep(data, pos)
            size = SMALL.get(data[pos + 1 : line_end])
            if size is None:
                size = strict_int(data[pos + 1 : line_end])
            if data[pos] != 0x24 or size is None or size < 0:
                raise ClientWireError("a word that is no bulk string")
            pos = line_end + 2
            stop = pos + size
            if left == self._count:
                words = self._name(data, pos, stop, end, size)
                if words is None and stop > end and end - pos < NAME_BYTES_MAX:
                    # The name is cut: come back to its length line with all of it.
                    return self._keep(data, line_end - len(b"$%d" % size))
            elif words is not None and len(words) < HELD_WORDS_MAX:
                self._hold(data, pos, stop, end, size, words)
            left -= 1
            if stop + 2 > end:
                self._left = left
                if self._body is None:
                    self._skip = stop + 2 - end
                return end
            pos = stop + 2
        self._left = 0
        return pos

    def _name(self, data: bytes, pos: int, stop: int, end: int, size: int) -> list[bytes | None] | None:
        """The list that will hold the command's words, if its name is wanted."""
        self._words = None
        if size <= NAME_BYTES_MAX and stop <= end:
            name = data[pos:stop]
            if name not in self._wanted:
                name = name.upper()
            if name in self._wanted:
                self._words = [name]
                self._word_bytes_max = HELD_WORD_BYTES_MAX
            elif name in self._marked and self._marks_in(data):
                self._words = [name]
                self._word_bytes_max = MARKED_WORD_BYTES_MAX
        if self._words is None and 0 in data[pos : min(stop, pos + NAME_BYTES_MAX)]:
            raise ClientWireError(ZERO_IN_NAME)
        return self._words

    def _hold(self, data: bytes, pos: int, stop: int, end: int, size: int, words: list[bytes | None]) -> None:
        if size > self._word_bytes_max or self._held + size > HELD_BYTES_MAX:
            words.append(None)
            return
        self._held += size
        if stop <= end:
            words.append(data[pos:stop])
        else:
            self._body = bytearray(data[pos:end])
            self._missing = stop - end

    def _body_from(self, data: bytes, pos: int, end: int) -> int:
        assert self._body is not None
        assert self._words is not None
        stop = min(pos + self._missing, end)
        self._body += data[pos:stop]
        self._missing -= stop - pos
        if self._missing == 0:
            self._words.append(bytes(self._body))
            self._body = None
            self._skip = 2
        return stop

    def _finish(self, out: list[Item]) -> None:
        self._open = False
        words, self._words = self._words, None
        if words is None or (self._stranger is not None and self._stranger(words)):
            add_unwanted(1, out)
        else:
            out.append(Request(words, self._count))

    # ---------------------------------------------------------------- inline

    def _inline(self, data: bytes, pos: int, end: int, out: list[Item]) -> int:
        line_end = data.find(b"\n", pos)
        line = data[pos : line_end if line_end >= 0 else end]
        if b"\0" in line:
            raise ClientWireError("a zero byte in an inline command")
        if line_end < 0:
            return self._keep(data, pos)
        words = read_line(line)
        if not words:
            out.append(NO_COMMAND)
            return line_end + 1
        name = words[0].upper()
        self._count = len(words)
        self._words = [name, *words[1:HELD_WORDS_MAX]] if name in self._wanted or name in self._marked else None
        self._finish(out)
        return line_end + 1

    def _keep(self, data: bytes, pos: int) -> int:
        """Keeps an incomplete line for the next piece; the position behind everything."""
        self._rest = data[pos:]
        if len(self._rest) > LINE_BYTES_MAX + NAME_BYTES_MAX:
            raise ClientWireError("a line that is too long")
        return len(data)
