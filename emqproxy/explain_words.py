"""A job's story for a reader: what happened line by line, the drawn timeline, what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from rich.console import Console
from rich.text import Text

from emqproxy.config_sources import printable
from emqproxy.explain_holdings import Tenure
from emqproxy.explain_names import Names
from emqproxy.explain_story import Event, JobStory
from emqproxy.journal_lines import JournalLine
from emqproxy.journal_timeline import lock_timeline
from emqproxy.locks.notes import counted, seconds
from emqproxy.timeline_drawing import DrawnTimeline
from emqproxy.wrapped_text import wrapped

_LOST_SHOWN: Final = 5
EVENTS_MAX: Final = 200
"""That are shown: of more, the first and the last; --json has all."""
_WITHOUT_A_WORD: Final = (
    (frozenset({"lapse", "reap", "taken"}), "it ended, hung, or lost its connection"),
    (frozenset({"wipe", "deleted"}), "it was taken away, as told above, and its holder was not heard since"),
)
"""How a holding ends of which nothing more is said, and why."""
_BAD: Final = frozenset({"refused", "error", "blocked"})


def write(story: JobStory, lines: Sequence[JournalLine], names: Names, console: Console) -> None:
    """All of it onto a console."""
    at = f"@{story.db}" if story.db else ""
    many = counted(story.lines, "line")
    span = f"{_day(story.first)} {story.first[11:19]} to {_until(story)} UTC, {many}"
    key = printable(f"{story.job}{at}")
    _wrapped(f"{key}  {span}", console, "", head=len(key), style="bold")
    if story.left_out:
        gone = counted(story.left_out, "of its lines was", "of its lines were")
        console.print(Text(f"{gone} not kept: what is told there is missing here.", "yellow"))
    console.print()
    days = _day(story.first) != _day(story.last)
    told: tuple[str | None, str | None] = None, None
    for event in _shown(story.events):
        if event is None:
            console.print(Text(f"  … {len(story.events) - EVENTS_MAX} more; --json has them all", "dim"))
        else:
            _event(event, console, days=days, again=told == (event.cause, event.because))
            told = (event.cause, event.because) if event.cause else told
    if story.holdings:
        console.print()
        for holding in story.holdings[-EVENTS_MAX:]:
            _wrapped(_held(holding, days=days), console, "  ")
        console.print()
        names_told = {told: printable(who) for told, who in names.told.items()}
        mappings = [msgspec.to_builtins(line) for line in lines]
        timeline = lock_timeline(mappings, story.job, story.db, name=lambda line: names_told[line["run"], line["seq"]])
        console.print(DrawnTimeline(timeline))
    if story.advice:
        console.print()
        console.print(Text("What to change", "bold"))
        for advice in story.advice:
            _wrapped(f"{advice.cause}: {advice.words}", console, "  ", head=len(advice.cause), style="bold")
    elif not any(event.op != "raw" and (event.outcome in _BAD or event.cause) for event in story.events):
        console.print()
        _unharmed(story, console)


def _unharmed(story: JobStory, console: Console) -> None:
    """The end of a story in which no call was refused."""
    for ends, what in _WITHOUT_A_WORD:
        lost = list(dict.fromkeys(each.who for each in story.holdings if each.end in ends))
        if lost:
            who = ", ".join(lost[:_LOST_SHOWN]) + (" and others" if len(lost) > _LOST_SHOWN else "")
            _wrapped(f"Nobody was refused; but {who} lost the lock without a word: {what}.", console, "", hanging="")
            return
    if any(event.op == "raw" for event in story.events):
        words = "Nothing went wrong with its lock, as far as was seen; but see above what was done by hand."
        _wrapped(words, console, "", hanging="")
        return
    console.print(Text("Nothing went wrong with its lock, as far as was seen.", "green"))


def _event(event: Event, console: Console, *, days: bool, again: bool) -> None:
    """`again`: its cause was told just before, in the same words."""
    stamp = _stamp(event.time, days=days)
    bad = event.outcome in _BAD or event.op == "lapse"
    style = "red" if bad else "yellow" if event.cause else ""
    indent = " " * (len(stamp) + 4)
    _wrapped(f"{stamp}  {event.words}", console, "  ", hanging=indent, style=style, head=len(stamp), head_style="dim")
    if event.cause and event.op != "watch":
        because = "the same." if again else event.because
        words = f"{event.cause}: {because}" if because else event.cause
        _wrapped(words, console, indent, head=len(event.cause), style="bold")


def _stamp(time: str, *, days: bool) -> str:
    """`days`: the story has more than one."""
    return f"{time[5:10]} {time[11:19]}" if days else time[11:23]


def _held(holding: Tenure, *, days: bool) -> str:
    since = "held it" if holding.seen else "held it already"
    until = "and, as far as was seen, still does"
    if holding.ended:
        latest = " at the latest" if holding.end == "refused" else ""
        until = f"to {_stamp(holding.ended, days=days)}{latest} ({holding.end})"
    renewals = counted(holding.renewals, "renewal")
    gap = f", longest gap {seconds(holding.longest_gap_ms)}" if holding.longest_gap_ms else ""
    lock = f" under a lock of {seconds(holding.ttl_ms)}" if holding.ttl_ms else ""
    return f"{holding.who} {since} from {_stamp(holding.taken, days=days)} {until}: {renewals}{gap}{lock}."


def _wrapped(
    words: str,
    console: Console,
    indent: str,
    *,
    hanging: str | None = None,
    head: int = 0,
    style: str = "",
    head_style: str | None = None,
) -> None:
    """In lines as wide as the console; the first `head` characters in a style of their own."""
    width = max(40, console.width - 1)
    hanging = indent + "  " if hanging is None and head else hanging if hanging is not None else indent + "  "
    text = Text(wrapped(printable(words), width, indent, hanging), no_wrap=True, overflow="ignore")
    if head_style is not None:
        text.stylize(style)
        text.stylize(head_style, len(indent), len(indent) + head)
    elif head:
        text.stylize(style, len(indent), len(indent) + head)
    console.print(text, soft_wrap=True)


def _shown(events: Sequence[Event]) -> Sequence[Event | None]:
    if len(events) <= EVENTS_MAX:
        return events
    half = EVENTS_MAX // 2
    return [*events[:half], None, *events[-half:]]


def _day(time: str) -> str:
    return time[:10]


def _until(story: JobStory) -> str:
    return story.last[11:19] if _day(story.first) == _day(story.last) else f"{_day(story.last)} {story.last[11:19]}"
