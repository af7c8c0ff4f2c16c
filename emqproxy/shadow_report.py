"""What a journal says of the rules: which calls `enforce` would have refused, or did, by rule, client and script.

Lines (CONTRACT, "Journal") go in one by one, counts come out: a journal of any length takes the memory of its clients
and scripts, and of those no more than `GROUPS_MAX`. Knows no file and no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from emqproxy.journal_lines import LineReader
from emqproxy.locks.policy import Action, Rule

GROUPS_MAX: Final = 4096
OTHERS: Final = "(others)"
"""Clients and scripts of a rule beyond the bound."""
_RUNS_MAX: Final = 1024

ADVICE: Final[Mapping[str, str]] = {
    Rule.RAW_LOCK_WRITE.value: (
        "Find the program behind that client: locks are the scripts' to set and delete, and what it does by hand it "
        "has to leave to them."
    ),
    Rule.UNKNOWN_SCRIPT.value: (
        "If the script is your own, make it known before: emqproxy scripts add PATH, or its sha1 in scripts.allow."
    ),
    Rule.ZERO_TOKEN.value: (
        'Find who moves jobs with the token "0" (a dashboard, a tool) while a worker holds them: it has to wait until '
        "they are free, or bring the job's own token."
    ),
    Rule.ZOMBIE_WRITE.value: (
        "A worker goes on writing to a job that it has lost: see first why its lock is lost (late renewals, a blocked "
        "event loop); refused, its write is an error there, which its code must bear."
    ),
    Rule.LAPSED_HOLDER.value: (
        "A worker speaks for a job that it has lost, with a token that Redis would still accept: give each pickup a "
        "token of its own; refused, the worker is told what it is always told of a lost lock (-2, -6 or 0)."
    ),
    Rule.MALFORMED_CALL.value: (
        "Hold that client's library against emqproxy scripts list; where the call is as its release makes it, leave "
        "the rule at shadow and report it to us: the fault is ours."
    ),
    Rule.BAD_DURATION.value: (
        "Set that worker's lockDuration; where the duration is meant, widen limits.ttl_ms_min and limits.ttl_ms_max."
    ),
    Rule.MASS_DELETE.value: (
        "Find who clears a queue or a whole database while jobs are worked on, and let it do so when no lock is held; "
        "or leave the rule at shadow."
    ),
}
"""What to do before a rule is enforced, by rule."""
_UNKNOWN: Final = "This release does not know the rule: ask the release that wrote the journal."


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """What is read of a line."""

    v: int
    run: str
    seq: int
    time: str
    op: str
    outcome: str
    db: int | None = None
    prefix: str | None = None
    queue: str | None = None
    job: str | None = None
    script: str | None = None
    sha: str | None = None
    client: str | None = None
    client_name: str | None = None
    action: str | None = None
    rule: str | None = None


class Example(msgspec.Struct, frozen=True):
    """One line of those that are counted together: the first."""

    subject: str
    """The job's key, `emq:orders:42`, with `@3` behind it in database 3; where none is named, the queue or database."""
    op: str
    run: str
    seq: int


class Offence(msgspec.Struct):
    """What one client did with one script against one rule."""

    client: str
    """What it calls itself (CLIENT SETNAME), else its address without the port."""
    script: str
    """`moveToFinished-14`, a command, or the sha1 of a script that nobody knows."""
    would_block: int = 0
    """Lines, as is every count here: one for each job that a call names."""
    blocked: int = 0
    accepted: int = 0
    """Of `would_block`, what Redis took; it refused the others itself, or never answered."""
    first: str = ""
    """RFC 3339."""
    last: str = ""
    example: Example | None = None

    @property
    def lines(self) -> int:
        """All of it."""
        return self.would_block + self.blocked


class RuleReport(msgspec.Struct):
    """One rule's."""

    rule: str
    stance: str
    """What the rule is in the configuration: of it and of `mode` the lesser acts."""
    would_block: int
    blocked: int
    accepted: int
    advice: str
    offences: list[Offence]
    """The most frequent first."""


class ShadowReport(msgspec.Struct):
    """All that a journal says; its fields are those of `emqproxy check --json`."""

    lines: int
    """Lines that were read as a journal's."""
    judged: int
    """Of those, of calls on which was decided."""
    unjudged: int
    """And of calls on which nothing was: taken in observe mode."""
    other_versions: int
    """Lines of a journal of another version: passed over."""
    unreadable: int
    """Lines that are none: torn, cut, of another program."""
    missing: int
    """Lines that were dropped between those that are there: `seq` has a gap."""
    first: str
    last: str
    would_block: int
    blocked: int
    rules: list[RuleReport]


class ShadowReader:
    """Takes lines; `report` tells what they came to."""

    def __init__(self) -> None:
        self._reader = LineReader(JournalEntry)
        self._lines = self._judged = self._unjudged = self._missing = 0
        self._first = self._last = ""
        self._offences: dict[tuple[str, str, str], Offence] = {}
        self._seqs: dict[str, int] = {}
        """By run, the number of its last line."""

    def take(self, line: bytes) -> None:
        """One line; an empty one is none. Never raises on account of what stands in it."""
        entry = self._reader.read(line)
        if entry is None:
            return
        self._lines += 1
        self._first, self._last = self._first or entry.time, entry.time
        self._count(entry)
        if entry.outcome == "told":  # made by time, or of a connection: no call
            return
        if entry.action is None:
            self._unjudged += 1
            return
        self._judged += 1
        if entry.action != Action.PASSED.value:
            self._offence(entry)

    def report(self, stances: Mapping[str, str]) -> ShadowReport:
        """All of it. `stances`: what each rule is in the configuration."""
        by_rule: dict[str, list[Offence]] = {}
        for (rule, _, _), offence in self._offences.items():
            by_rule.setdefault(rule, []).append(offence)
        known = [rule.value for rule in Rule if rule.value in by_rule]
        order = [*known, *sorted(by_rule.keys() - set(known))]
        rules = [_rule(rule, by_rule[rule], stances.get(rule, "")) for rule in order]
        return ShadowReport(
            self._lines,
            self._judged,
            self._unjudged,
            self._reader.other_versions,
            self._reader.unreadable,
            self._missing,
            self._first,
            self._last,
            sum(rule.would_block for rule in rules),
            sum(rule.blocked for rule in rules),
            rules,
        )

    # ------------------------------------------------------------------ private

    def _count(self, entry: JournalEntry) -> None:
        before = self._seqs.pop(entry.run, None)
        if before is not None and entry.seq > before + 1:
            self._missing += entry.seq - before - 1
        self._seqs[entry.run] = max(entry.seq, before or 0)
        if len(self._seqs) > _RUNS_MAX:
            del self._seqs[next(iter(self._seqs))]

    def _offence(self, entry: JournalEntry) -> None:
        rule = entry.rule or "(no rule)"
        client, script = entry.client_name or _address(entry.client), entry.script or entry.sha or "-"
        offence = self._offences.get((rule, client, script))
        if offence is None:
            if len(self._offences) >= GROUPS_MAX:
                client = script = OTHERS
            offence = self._offences.setdefault((rule, client, script), Offence(client, script, first=entry.time))
        if entry.action == Action.BLOCKED.value:
            offence.blocked += 1
        else:
            offence.would_block += 1
            offence.accepted += entry.outcome == "ok"
        offence.last = entry.time
        if offence.example is None:
            offence.example = Example(_subject(entry), entry.op, entry.run, entry.seq)


def _rule(rule: str, offences: list[Offence], stance: str) -> RuleReport:
    return RuleReport(
        rule,
        stance,
        sum(offence.would_block for offence in offences),
        sum(offence.blocked for offence in offences),
        sum(offence.accepted for offence in offences),
        ADVICE.get(rule, _UNKNOWN),
        sorted(offences, key=lambda offence: offence.lines, reverse=True),
    )


def _address(client: str | None) -> str:
    """Without its port, which is another one on each connection."""
    return (client or "-").rpartition(":")[0] or client or "-"


def _subject(entry: JournalEntry) -> str:
    at = f"@{entry.db}" if entry.db else ""
    if entry.prefix is not None and entry.queue is not None:
        key = f"{entry.prefix}:{entry.queue}:{entry.job}" if entry.job is not None else f"{entry.prefix}:{entry.queue}"
        return f"{key}{at}"
    return "every database" if entry.db is None else f"database {entry.db}"
