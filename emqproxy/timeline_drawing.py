"""A lock's timeline, drawn for a terminal: values in, text out. Knows no journal, no ledger and no clock.

            s 0          20          40         60         80          100
              ├──────────┼───────────┼──────────┼──────────┼───────────┼──────────┼
    worker 1  ▶━━━━━━━●━━━━━━━━──◐━━━━━━━━────────▼···················✕!
      blocked                     ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
    worker 2                                                     »━━━━━━━━●━━━━━━■
    the queue                  m                m                S

One row a holder, one where its worker stood still, an axis, a row for what sweeps and hands did to the queue, and a
legend of the signs that occur. A column is a span of time: of two marks in one column the second moves to the next one
(in the last column the first one to the one before), and where that is taken, the graver one stands.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions
from rich.text import Text

from emqproxy.lock_timeline import Holding, LockTimeline, Mark, Marked, Stretch

WIDTH_MIN: Final = 40
"""Narrower than this nothing can be read: it is drawn this wide all the same."""
_LABEL_MAX: Final = 20
_QUEUE: Final = "the queue"


class _Glyph(NamedTuple):
    sign: str
    ascii: str
    style: str
    words: str


_HELD: Final = _Glyph("━", "=", "green", "held")
_OLD: Final = _Glyph("─", "-", "yellow", "past half its time")
_WITHOUT: Final = _Glyph("·", ".", "red", "goes on without it")
_PAUSED: Final = _Glyph("░", "#", "magenta", "blocked")
_GLYPHS: Final[dict[Mark, _Glyph]] = {
    Mark.TAKEN: _Glyph("▶", ">", "bold green", "taken"),
    Mark.TAKEN_OVER: _Glyph("»", "T", "bold yellow", "taken over"),
    Mark.RENEWED: _Glyph("●", "o", "green", "renewed"),
    Mark.LATE: _Glyph("◐", "l", "yellow", "renewed late"),
    Mark.CRITICAL: _Glyph("○", "c", "bold yellow", "renewed at the last moment"),
    Mark.REFUSED: _Glyph("✕", "x", "bold red", "renewal refused"),
    Mark.LAPSED: _Glyph("▼", "X", "bold red", "lapsed"),
    Mark.LOST: _Glyph("◀", "<", "bold red", "lost before its time"),
    Mark.FINISHED: _Glyph("■", "]", "bold green", "given back"),
    Mark.FINISH_REFUSED: _Glyph("!", "!", "bold red", "finish refused"),
    Mark.DEADLINE: _Glyph("┆", "|", "dim", "would have ended"),
    Mark.SWEEP_MARKS: _Glyph("m", "m", "cyan", "a sweep marks it"),
    Mark.SWEEP_RECOVERS: _Glyph("S", "S", "bold cyan", "a sweep puts it back"),
    Mark.OVER_LIMIT: _Glyph("F", "F", "bold red", "a sweep puts it back to be failed"),
    Mark.HAND_PUTS: _Glyph("p", "p", "bold magenta", "put in by hand"),
    Mark.HAND_TAKES: _Glyph("t", "t", "bold magenta", "taken out by hand"),
    Mark.HAND_DELETES: _Glyph("d", "d", "bold magenta", "its data deleted by hand"),
    Mark.WIPED: _Glyph("W", "W", "bold red", "queue or database emptied"),
}
_LEGEND: Final = (
    _GLYPHS[Mark.TAKEN], _GLYPHS[Mark.TAKEN_OVER], _HELD, _OLD, _GLYPHS[Mark.RENEWED], _GLYPHS[Mark.LATE],
    _GLYPHS[Mark.CRITICAL], _GLYPHS[Mark.LAPSED], _GLYPHS[Mark.LOST], _WITHOUT, _GLYPHS[Mark.REFUSED],
    _GLYPHS[Mark.FINISHED], _GLYPHS[Mark.FINISH_REFUSED], _GLYPHS[Mark.DEADLINE], _PAUSED, _GLYPHS[Mark.SWEEP_MARKS],
    _GLYPHS[Mark.SWEEP_RECOVERS], _GLYPHS[Mark.OVER_LIMIT], _GLYPHS[Mark.HAND_PUTS], _GLYPHS[Mark.HAND_TAKES],
    _GLYPHS[Mark.HAND_DELETES], _GLYPHS[Mark.WIPED],
)  # fmt: skip
_GRAVITY: Final = {mark: gravity for gravity, mark in enumerate(Mark)}


class DrawnTimeline:
    """A timeline as rich prints it: as wide as the console, in ASCII where that can write no other signs."""

    def __init__(self, timeline: LockTimeline) -> None:
        self.timeline = timeline

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """What rich asks for."""
        yield draw(self.timeline, options.max_width, ascii_only=options.ascii_only)


def plain(timeline: LockTimeline, width: int = 80, *, ascii_only: bool = False) -> str:
    """Without colour. No line is wider than `width` characters."""
    return draw(timeline, width, ascii_only=ascii_only).plain


def draw(timeline: LockTimeline, width: int = 80, *, ascii_only: bool = False) -> Text:
    """Lines of at most `width` cells (WIDTH_MIN at least), with styles; no line end behind the last."""
    width = max(width, WIDTH_MIN)
    names = [_clean(holding.name) for holding in timeline.holdings]
    label = min(_LABEL_MAX, max(cell_len(name) for name in [*names, _QUEUE]))
    # The last column stays free: some terminals begin a new line when it is written to.
    scale = _Scale(timeline.start_ms, max(timeline.end_ms, timeline.start_ms + 1), width - label - 2)
    sheet = _Sheet(label, ascii_only)
    if timeline.before:
        sheet.rows.append(Text(f"({timeline.before})", "dim"))
    sheet.axis(scale)
    last: Holding | None = None
    for name, holding in zip(names, timeline.holdings, strict=True):
        sheet.row(name, _holding(holding, last, scale))
        if holding.pauses:
            sheet.row("  blocked", _pauses(holding.pauses, scale))
        last = holding
    if timeline.queue:
        sheet.row(_QUEUE, _with_marks([None] * scale.columns, timeline.queue, scale))
    sheet.legend(width - 1)
    return Text("\n", no_wrap=True, overflow="crop").join(sheet.rows)


# ---------------------------------------------------------------- time and columns


class _Scale(NamedTuple):
    start_ms: float
    end_ms: float
    columns: int

    @property
    def column_ms(self) -> float:
        return (self.end_ms - self.start_ms) / (self.columns - 1)

    def column(self, at_ms: float) -> int:
        """Where an instant stands; below 0 or past the last column where it is out of sight."""
        return round((at_ms - self.start_ms) / self.column_ms)

    def instants_ms(self) -> list[float]:
        """The middle of each column."""
        return [self.start_ms + column * self.column_ms for column in range(self.columns)]

    def step(self) -> tuple[float, int, str]:
        """The finest round step whose numbers have room, and the unit they are told in."""
        power = 0
        while True:
            for digit in (1, 2, 5):
                step_ms = digit * 10.0**power
                unit_ms, unit = (1000, "s") if step_ms >= 1000 else (1, "ms")
                if step_ms / self.column_ms >= max(8, len(f"{self.end_ms / unit_ms:.0f}") + 2):
                    return step_ms, unit_ms, unit
            power += 1


# ---------------------------------------------------------------- one row's cells

_Cells = list[_Glyph | None]


def _holding(holding: Holding, last: Holding | None, scale: _Scale) -> _Cells:
    marks = list(holding.marks)
    for place, proof in enumerate(holding.proofs):
        taken = place == 0 and not holding.partial
        marks.append(Marked(proof.at_ms, _taken(last) if taken else proof.mark))
    gone_ms = min((at_ms for at_ms, mark in holding.marks if mark in {Mark.FINISHED, Mark.LOST}), default=None)
    if holding.proofs and gone_ms is not None and gone_ms < holding.proofs[-1].deadline_ms:
        marks.append(Marked(holding.proofs[-1].deadline_ms, Mark.DEADLINE))
    return _with_marks(list(_band(holding, gone_ms, scale)), marks, scale)


def _taken(last: Holding | None) -> Mark:
    gave_back = last is None or not last.proofs or any(mark is Mark.FINISHED for _, mark in last.marks)
    return Mark.TAKEN if gave_back else Mark.TAKEN_OVER


def _band(holding: Holding, gone_ms: float | None, scale: _Scale) -> Iterator[_Glyph | None]:
    """How it stands with the holder in each column."""
    begun = [proof.at_ms for proof in holding.proofs]
    heard_ms = max([*begun, *(at_ms for at_ms, _ in holding.marks)], default=scale.start_ms)
    for at_ms in scale.instants_ms():
        place = bisect_right(begun, at_ms) - 1
        if place < 0:
            yield None
            continue
        proof = holding.proofs[place]
        doubt = next((each for each in holding.doubts if proof.at_ms <= each.from_ms <= min(at_ms, each.to_ms)), None)
        if doubt is not None and doubt.from_ms < at_ms < doubt.to_ms:
            yield None
        elif doubt is not None or at_ms > proof.deadline_ms or (gone_ms is not None and at_ms >= gone_ms):
            yield _WITHOUT if at_ms <= heard_ms else None
        else:
            yield _HELD if at_ms < (proof.at_ms + proof.deadline_ms) / 2 else _OLD


def _pauses(pauses: Iterable[Stretch], scale: _Scale) -> _Cells:
    cells: _Cells = [None] * scale.columns
    for pause in pauses:
        first, last = scale.column(pause.from_ms), scale.column(pause.to_ms)
        for column in range(max(first, 0), min(max(last, first + 1), scale.columns)):
            cells[column] = _PAUSED
    return cells


def _with_marks(cells: _Cells, marks: Iterable[Marked], scale: _Scale) -> _Cells:
    standing: dict[int, Mark] = {}
    for at_ms, mark in sorted(marks, key=lambda marked: (marked.at_ms, _GRAVITY[marked.mark])):
        column = scale.column(at_ms)
        if not 0 <= column < scale.columns:
            continue
        if column in standing and column + 1 not in standing:
            if column + 1 < scale.columns:
                column += 1
            elif column > 0 and column - 1 not in standing:
                before = standing.pop(column)  # there is no next one: the first gives way
                standing[column - 1], cells[column - 1] = before, _GLYPHS[before]
        if column not in standing or _GRAVITY[mark] >= _GRAVITY[standing[column]]:
            standing[column] = mark
            cells[column] = _GLYPHS[mark]
    return cells


# ---------------------------------------------------------------- text


class _Sheet:
    """Rows as they are written, and which signs they use."""

    def __init__(self, label: int, ascii_only: bool) -> None:
        self.rows: list[Text] = []
        self._label = label
        self._ascii = ascii_only
        self._used: set[_Glyph] = set()

    def axis(self, scale: _Scale) -> None:
        """Two rows: numbers, and the ticks they stand above."""
        left, line, tick = "+-+" if self._ascii else "├─┼"
        step_ms, unit_ms, unit = scale.step()
        numbers, ticks = [" "] * scale.columns, [line] * scale.columns
        for place in range(int(-(-scale.start_ms // step_ms)), int(scale.end_ms // step_ms) + 1):
            column, number = scale.column(place * step_ms), f"{place * step_ms / unit_ms:.0f}"
            if column + len(number) <= scale.columns:
                numbers[column : column + len(number)] = number
            ticks[column] = tick
        ticks[0] = left
        self._write(unit.rjust(self._label), Text("".join(numbers).rstrip(), "dim"))
        self._write("", Text("".join(ticks), "dim"))

    def row(self, name: str, cells: Sequence[_Glyph | None]) -> None:
        """A name, and a sign a column."""
        self._used.update(glyph for glyph in cells if glyph is not None)
        row = Text()
        for glyph, run in groupby(cells):
            sign = " " if glyph is None else glyph.ascii if self._ascii else glyph.sign
            row.append(sign * len(list(run)), "" if glyph is None else glyph.style)
        row.rstrip()
        self._write(name, row)

    def legend(self, width: int) -> None:
        """What the signs mean that were used; as many lines as it takes."""
        words = [f"{g.ascii if self._ascii else g.sign} {g.words}" for g in _LEGEND if g in self._used]
        glued = "  ".join(word.replace(" ", "\0") for word in words)  # so that no entry is torn apart
        lines = textwrap.fill(glued, width, break_long_words=False).replace("\0", " ")
        self.rows.append(Text(lines, "dim"))

    def _write(self, name: str, cells: Text) -> None:
        shown = name if cell_len(name) <= self._label else set_cell_size(name, self._label - 1) + "~"
        self.rows.append(Text(set_cell_size(shown, self._label) + " ") + cells)


def _clean(name: str) -> str:
    """A name comes from outside: nothing of it may steer the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
