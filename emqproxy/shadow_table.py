"""A shadow report for a reader: a table for each rule, and what to do before it is switched on. Counts nothing anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emqproxy.config_sources import printable
from emqproxy.locks.notes import counted
from emqproxy.shadow_report import Offence, RuleReport, ShadowReport

_ROWS_MAX: Final = 20
"""Of one rule; --json has all."""


def write(report: ShadowReport, console: Console) -> None:
    """All of it onto a console: a table for each rule, what to do, what the journal does not tell, the sum."""
    for rule in report.rules:
        console.print(Text.assemble((printable(rule.rule), "bold"), f": {_counts(rule)}"), soft_wrap=True)
        console.print(_table(rule))
        if len(rule.offences) > _ROWS_MAX:
            console.print(Text(f"  (and {len(rule.offences) - _ROWS_MAX} more; --json has them all)", "dim"))
        console.print(Text(rule.advice), soft_wrap=True)
        console.print()
    for words in _reservations(report):
        console.print(Text(words, "yellow"), soft_wrap=True)
    console.print(_sentence(report), soft_wrap=True)


def _counts(rule: RuleReport) -> str:
    parts = []
    if rule.would_block:
        parts.append(f"{rule.would_block} would have been refused, of which Redis took {rule.accepted}")
    if rule.blocked:
        parts.append(f"{rule.blocked} refused")
    if rule.stance not in ("enforce", ""):
        parts.append(f'rules.{printable(rule.rule)} is "{rule.stance}": mode "enforce" alone lets them pass')
    return "; ".join(parts)


def _table(rule: RuleReport) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("client", "script"):
        table.add_column(name, overflow="fold")
    for name in _numbers(rule):
        table.add_column(name, justify="right", overflow="fold")
    for name in ("first", "last", "example"):
        table.add_column(name, overflow="fold")
    for offence in rule.offences[:_ROWS_MAX]:
        table.add_row(*_cells(offence, _numbers(rule)))
    return table


def _numbers(rule: RuleReport) -> Sequence[str]:
    """Columns that say something: nearly every journal is of one mode."""
    return [*(("would be refused", "taken") if rule.would_block else ()), *(("refused",) if rule.blocked else ())]


def _cells(offence: Offence, numbers: Sequence[str]) -> list[Text]:
    example = offence.example
    counts = {"would be refused": offence.would_block, "taken": offence.accepted, "refused": offence.blocked}
    return [
        Text(printable(cell))  # no markup, and nothing that a terminal acts upon
        for cell in (
            offence.client,
            offence.script,
            *(str(counts[name]) for name in numbers),
            _second(offence.first),
            _second(offence.last),
            f"{example.op} {example.subject}" if example else "",
        )
    ]


def _reservations(report: ShadowReport) -> Iterator[str]:
    """What the journal does not tell."""
    if report.unjudged:
        yield f"{counted(report.unjudged, 'call was', 'calls were')} taken in observe mode: of that nothing is known."
    if report.missing:
        yield f"{counted(report.missing, 'line is', 'lines are')} missing: dropped, and may have been anything."
    if report.other_versions:
        lines = counted(report.other_versions, "line is", "lines are")
        yield f"{lines} of another version of the journal: passed over."
    if report.unreadable:
        lines = counted(report.unreadable, "line is", "lines are")
        yield f"{lines} no journal's (torn, or of another program): passed over."


def _sentence(report: ShadowReport) -> Text:
    judged = counted(report.judged, "call was", "calls were")
    told = f"From {_second(report.first)} to {_second(report.last)} UTC, {judged} judged"
    if not report.rules:
        return Text(f"{told}: none would have been refused.", "bold green")
    parts = [f"{report.would_block} would have been refused"] if report.would_block else []
    parts += [f"{counted(report.blocked, 'was', 'were')} refused"] if report.blocked else []
    return Text(f"{told}: {' and '.join(parts)}, by {counted(len(report.rules), 'rule')}.", "bold red")


def _second(time: str) -> str:
    """RFC 3339, less what a reader does not need."""
    return printable(time[:19].replace("T", " "))
