"""The live account on standard output: a sentence for each line of the journal, and below it the locks held just now.

On a terminal the locks run down before one's eyes, and nothing is wider than it is. Elsewhere each sentence is one
plain line: for files, pipes and CI.
"""

from __future__ import annotations

import datetime as dt
from types import TracebackType
from typing import Final, NamedTuple, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from emqproxy.demo.expected import Line
from emqproxy.demo.plan import JOBS, TITLES
from emqproxy.demo.words import Mood, Scene

_STYLES: Final[dict[Mood, str]] = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}
_WHEN_WIDTH: Final = 9
_BAR_WIDTH: Final = 30


class Held(NamedTuple):
    """A lock as it stands below the account."""

    name: str
    until: dt.datetime
    """Its deadline, if nobody renews it."""
    ttl_ms: int


class Account:
    """A context manager: while it is open, `refresh` shows how the locks run down."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._live = Live(console=out, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
        self._scene = Scene()
        self._began: dt.datetime | None = None
        self._held: dict[tuple[str, str], Held] = {}
        """By job and token."""
        self._dead: set[str] = set()

    def __enter__(self) -> Self:
        if self._out.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def begin(self, job: str, *, again: bool = False) -> None:
        """The next job's story begins; or the same `again`."""
        title = "once more, as this machine stood still for too long" if again else TITLES[job]
        self._print(Text.assemble("\n", (job, "bold"), f": {title}"))

    def direct(self, words: str) -> None:
        """What the demo itself does, as a user or a misfortune would."""
        self._print(self._sentence("", words, "italic cyan"))

    def died(self, name: str) -> None:
        """A worker is no more: its locks are shown until another takes the job."""
        self._dead.add(name)

    def tell(self, line: Line) -> None:
        """A line of the journal."""
        now = dt.datetime.fromisoformat(str(line["time"]))
        self._began = self._began or now
        self._note(line, now)
        sentence = self._scene.sentence(line)
        if sentence is None:
            return
        when = f"{(now - self._began).total_seconds():5.1f} s"
        self._print(self._sentence(when, sentence.what, _STYLES[sentence.mood]))
        if sentence.why:
            self._print(self._sentence("", sentence.why, "dim"))

    def refresh(self, now: dt.datetime | None = None) -> None:
        """Shows the locks as they are at an instant."""
        if self._live.is_started:
            self._live.update(self._locks(now or dt.datetime.now(dt.UTC)), refresh=True)

    # ---------------------------------------------------------------- private

    def _print(self, what: RenderableType) -> None:
        self._out.print(what, soft_wrap=not self._out.is_terminal)

    def _sentence(self, when: str, words: str, style: str) -> RenderableType:
        if not self._out.is_terminal:
            return Text(f"{when:{_WHEN_WIDTH}}{words}")
        row = Table.grid(padding=0)
        row.add_column(width=_WHEN_WIDTH, style="dim")
        row.add_column()
        row.add_row(when, Text(words, style))
        return row

    def _note(self, line: Line, now: dt.datetime) -> None:
        key = str(line.get("job")), str(line.get("token"))
        match (line.get("effect"), line.get("op")):
            case ("granted" | "renewed", _):
                ttl_ms = int(line["ttl_ms"])
                until = now + dt.timedelta(milliseconds=ttl_ms)
                name = self._held[key].name if key in self._held else str(line["client_name"])
                self._held = {
                    other: held
                    for other, held in self._held.items()
                    if other[0] != key[0] or held.name not in self._dead
                }
                self._held[key] = Held(name, until, ttl_ms)
            case ("released" | "not_mine" | "held_by_other", _) | ("absent", "finish"):
                self._held.pop(key, None)
            case ("deleted", _):
                for held in [other for other in self._held if other[0] == key[0]]:
                    self._held[held] = self._held[held]._replace(until=now)
            case _:
                pass

    def _locks(self, now: dt.datetime) -> RenderableType:
        rows = Table.grid(padding=(0, 1))
        rows.add_column()
        rows.add_column(min_width=max(map(len, JOBS)))
        rows.add_row()
        for (job, _), held in self._held.items():
            left_ms = (held.until - now).total_seconds() * 1000
            share = left_ms / held.ttl_ms
            style = "green" if share > 0.4 else "yellow" if share > 0.2 else "red"
            bar = ProgressBar(held.ttl_ms, max(left_ms, 0), _BAR_WIDTH, complete_style=style, finished_style=style)
            left = f"{left_ms / 1000:.1f} s left" if left_ms > 0 else "no lock any more"
            rows.add_row(" " * (_WHEN_WIDTH - 1) + held.name, job, bar, Text(left, style))
        return rows
