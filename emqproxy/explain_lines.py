"""What one line of a job's journal says, in words. Knows of the lines before it only who held the lock then."""

from __future__ import annotations

from typing import Final

from emqproxy.explain_holdings import FAILED
from emqproxy.journal_lines import JournalLine
from emqproxy.locks.hands import Deed, done, meant
from emqproxy.locks.notes import seconds

_MOVES: Final = {
    "finish": "finishes it",
    "delay": "puts it off (delayed)",
    "retry": "puts it back to be retried",
    "wait": "puts it back to wait",
    "wait_children": "lets it wait for its children",
    "release": "gives its lock back",
}
_NOUNS: Final = {"wait_children": "wait for children", "renew": "renewal", "acquire": "pickup", "reap": "sweep"}
_LATE: Final = frozenset({"late", "critical"})
_ON_KEYS: Final = {
    "DEL": "deletes", "UNLINK": "deletes", "RENAME": "renames", "RENAMENX": "renames", "MOVE": "moves away",
    "LTRIM": "trims",
}  # fmt: skip
_SETS: Final = frozenset({"prioritized", "delayed"})


def words(line: JournalLine, who: str, before: str | None) -> str | None:
    """What happened; None for what does not belong into the story. `before`: who held the lock."""
    if line.outcome in FAILED:
        return _failed(line, who)
    match line.op:
        case "acquire" if line.effect == "granted":
            given = "is given it" if before is None else f"is given it, which {before} held"
            return f"{who} {given}; the lock lives {seconds(line.ttl_ms or 0)}"
        case "acquire":
            return f"{who} is given it, without a lock"
        case "renew" if line.grade in _LATE:
            return f"{who} renews late, {seconds(line.age_ms or 0)} after its last proof"
        case "renew":
            return f"{who} renews"
        case "lapse":
            return f"the lock of {who} lapses: {seconds(line.age_ms or 0)} without a renewal"
        case "reap":
            return f"a sweep by {who} finds it without a lock: back to {line.target or 'wait'}"
        case "remove":
            return f"{who} removes it"
        case "raw":
            return _hand(line, who) if line.target else _on_the_lock(line, who)
        case op if op in _MOVES:
            target = f" ({line.target})" if line.target else ""
            bypass = ' with the token "0", without its lock' if line.effect == "bypassed" else ""
            return f"{who} {_MOVES[op]}{target}{bypass}"
        case _:
            return _aside(line, who)


def hand_words(line: JournalLine) -> str:
    """What a hand did, as "who …": `puts it into wait by hand (LPUSH)`."""
    how = f"by hand ({line.script})"
    match meant(line):
        case Deed.HASH:
            return f"{_ON_KEYS.get(line.script or '', 'changes')} the job's hash ({line.script})"
        case Deed.LIST:
            verb, kind = _ON_KEYS.get(line.script or "", "changes"), "set" if line.target in _SETS else "list"
            return f"{verb} the whole {line.target} {kind} ({line.script})"
        case Deed.MOVED:
            return f"moves it into {line.target} {how}"
        case Deed.PUT if line.code == 0:
            return f"sets its place in {line.target} {how}"
        case Deed.PUT:
            return f"puts it into {line.target} {how}"
        case _:
            return f"takes it out of {line.target} {how}"


def _hand(line: JournalLine, who: str) -> str | None:
    return None if done(line) is None else f"{who} {hand_words(line)}"


def _on_the_lock(line: JournalLine, who: str) -> str | None:
    if line.effect not in {"deleted", "overwritten"}:
        return None
    if line.script:
        verb = "deletes" if line.effect == "deleted" else "writes on"
        return f"{who} {verb} its lock by hand ({line.script})"
    sha = f" (sha {line.sha[:8]}…)" if line.sha else ""
    return f"{who} writes on its lock by a script that nobody knows{sha}"


def _aside(line: JournalLine, who: str) -> str | None:
    match line.op:
        case "add":
            return f"{who} adds it"
        case "wipe" if line.effect in {"wiped", "deleted"}:
            return f"{who} {_wipe(line)} ({line.script or 'wipe'})"
        case "conn" if line.conn is None:
            return "Redis was lost, or another one answers"
        case "watch":
            told = line.because or "nothing is heard of it"
            return f"{line.cause}: {told}" if line.cause else told
        case _:
            return None


def _wipe(line: JournalLine) -> str:
    if line.script == "SWAPDB":
        return "swaps its database for another"
    if line.queue is not None:
        return "empties its queue"
    return "empties all databases" if line.db is None else "empties its database"


def _failed(line: JournalLine, who: str) -> str:
    what = _NOUNS.get(line.op, line.op)
    if line.op == "raw":
        where = {None: "its lock", "job": "the job's hash"}.get(line.target, line.target)
        what = f"{line.script or 'an unknown script'} on {where} by hand"
    target = f" ({line.target})" if line.target and line.op == "finish" else ""
    match line.outcome:
        case "refused":
            code = f": {line.code} {line.code_name}" if line.code_name else f": {line.code}"
            return f"{who}: {what}{target} refused{code}"
        case "blocked":
            return f"{who}: {what}{target} refused by emqproxy ({line.rule})"
        case "error":
            return f"{who}: {what}{target} failed: {line.code_name}"
        case _:
            return f"{who}: {what}{target}, whose answer never came"
