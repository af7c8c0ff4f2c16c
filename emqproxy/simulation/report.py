"""An outcome for a reader: one sentence, what happened instant by instant, and the timeline. Judges nothing anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from emqproxy.lock_timeline import Holding, LockTimeline, Mark, Marked, Proof, Stretch
from emqproxy.locks.notes import counted
from emqproxy.simulation.outcome import AttemptSeen, Outcome
from emqproxy.simulation.settings import Setting
from emqproxy.timeline_drawing import DrawnTimeline
from emqproxy.wrapped_text import wrapped

ATTEMPTS_SHOWN: Final = 6
"""Of more, the first ones and the last one are shown."""
_GRADES: Final = {"late": Mark.LATE, "critical": Mark.CRITICAL}
_SWEEPS: Final = {
    "marked": Mark.SWEEP_MARKS,
    "recovered": Mark.SWEEP_RECOVERS,
    "over_limit": Mark.OVER_LIMIT,
}


class Moment(NamedTuple):
    """What happened at an instant."""

    at_ms: int
    words: str
    style: str = ""


def write(outcome: Outcome, console: Console) -> None:
    """All of it onto a console: the setting, the timeline, the account, the sentence."""
    _say(console, setting_words(outcome.setting), "dim")
    console.print()
    console.print(DrawnTimeline(timeline(outcome)))
    console.print()
    told = list(account(outcome))
    margin = max(len(str(one.at_ms)) for one in told)
    for at_ms, words, style in told:
        stamp = f"{at_ms:>{margin}} ms  "
        hung = wrapped(words, console.width - 1, " " * len(stamp), " " * len(stamp))
        line = Text.assemble((stamp, "dim"), (hung.removeprefix(" " * len(stamp)), style))
        console.print(line, soft_wrap=True)
    left_out = len(outcome.attempts) - ATTEMPTS_SHOWN
    if left_out > 0:
        one, many = "worker between them fares alike and is", "workers between them fare alike and are"
        _say(console, f"({counted(left_out, one, many)} not shown)", "dim")
    console.print()
    _say(console, sentence(outcome), "bold green" if outcome.owned else "bold red")


def setting_words(setting: Setting) -> str:
    """The setting in one line."""
    blocks = ", ".join(f"for {block.for_ms} ms from {block.at_ms} ms on" for block in setting.blocks)
    who = "each worker" if setting.block_every_attempt else "the first worker"
    return (
        f"A lock of {setting.lock_duration_ms} ms, renewed every {setting.renew_ms} ms; sweeps every "
        f"{setting.stalled_interval_ms} ms from {setting.first_sweep_ms} ms on; a job may stall "
        f"{_times(setting.max_stalled)}{f'; {who} is blocked {blocks}' if blocks else ''}."
    )


def sentence(outcome: Outcome) -> str:
    """The answer."""
    first = outcome.attempts[0]
    if outcome.owned:
        grades = Counter(renewal.grade for renewal in first.renewals)
        oldest_ms = max(renewal.age_ms or 0 for renewal in first.renewals)
        left_ms = outcome.setting.lock_duration_ms - oldest_ms
        graded = [f"{grades[grade]} {grade}" for grade in ("late", "critical") if grades[grade]]
        warned = f" Of {counted(len(first.renewals), 'renewal')}, {' and '.join(graded)}." if graded else ""
        return f"Owned throughout: no renewal comes with less than {left_ms:.0f} ms of the lock left.{warned}"
    from_ms = first.recovered_ms
    what = f"Stalls: the lock lapses at {first.lapsed_ms} ms, and another worker may have the job from {from_ms} ms on."
    if outcome.failed_ms is None:
        return f"{what} {outcome.attempts[-1].worker.capitalize()} keeps it."
    return f"{what} It is failed for good at {outcome.failed_ms} ms, having stalled {_times(outcome.stalls)}."


def account(outcome: Outcome) -> Iterator[Moment]:
    """What happened, in order."""
    told = [one for attempt in _shown(outcome) for one in _attempt(outcome, attempt)]
    yield from sorted(told, key=lambda one: one.at_ms)


def timeline(outcome: Outcome) -> LockTimeline:
    """For `timeline_drawing`."""
    return LockTimeline(
        holdings=tuple(_holding(outcome, attempt) for attempt in _shown(outcome)),
        queue=tuple(Marked(sweep.at_ms, _SWEEPS[sweep.job]) for sweep in outcome.sweeps if sweep.job in _SWEEPS),
        start_ms=0,
        end_ms=outcome.until_ms,
    )


# ---------------------------------------------------------------- private


def _say(console: Console, words: str, style: str) -> None:
    console.print(Text(wrapped(words, console.width - 1), style), soft_wrap=True)

def _shown(outcome: Outcome) -> list[AttemptSeen]:
    attempts = outcome.attempts
    return list(attempts) if len(attempts) <= ATTEMPTS_SHOWN else [*attempts[: ATTEMPTS_SHOWN - 1], attempts[-1]]


def _attempt(outcome: Outcome, attempt: AttemptSeen) -> Iterator[Moment]:
    setting, who = outcome.setting, attempt.worker
    place = outcome.attempts.index(attempt)
    if outcome.failed_ms == attempt.taken_ms and attempt is outcome.attempts[-1]:
        yield Moment(
            attempt.taken_ms, f"{who} takes it, finds that it has stalled too often, and fails it for good", "red"
        )
        return
    ends_ms = attempt.taken_ms + setting.lock_duration_ms
    yield Moment(attempt.taken_ms, f"{who} takes the job: its lock ends at {ends_ms} ms unless it is renewed")
    if attempt.lapsed_ms is None:
        kept = [renewal.at_ms for renewal in attempt.renewals]
        yield Moment(
            kept[-1], f"{who} renews in time, here for the {_ordinal(len(kept))} time, and so on for ever", "green"
        )
        return
    blocked = any(p.from_ms <= attempt.lapsed_ms < p.to_ms for p in _blocked(setting, place, attempt))
    proved_ms = max([r.at_ms for r in attempt.renewals if r.outcome == "ok"], default=None)
    since = "never renewed" if proved_ms is None else f"renewed last at {proved_ms} ms"
    yield Moment(attempt.lapsed_ms, f"the lock lapses, {since}{f': {who} is blocked' if blocked else ''}", "red")
    if attempt.recovered_ms is None or attempt.learned_ms is None:
        return
    stalls, most = place + 1, setting.max_stalled
    fate = "to be failed by whoever takes it" if stalls > most else "and another worker may have it"
    yield Moment(attempt.recovered_ms, f"a sweep puts it back, {fate}: stall {stalls}, {most} allowed", "yellow")
    both_ms = attempt.learned_ms - attempt.recovered_ms
    both = f", {both_ms} ms after it was put back" if both_ms > 0 else ""
    yield Moment(attempt.learned_ms, f"{who} renews, is refused, and only now learns that it lost the job{both}", "red")


def _holding(outcome: Outcome, attempt: AttemptSeen) -> Holding:
    ttl_ms = outcome.setting.lock_duration_ms
    proofs = [Proof(attempt.taken_ms, attempt.taken_ms + ttl_ms)]
    proofs += [
        Proof(renewal.at_ms, renewal.at_ms + ttl_ms, _GRADES.get(renewal.grade or "", Mark.RENEWED))
        for renewal in attempt.renewals
        if renewal.outcome == "ok"
    ]
    marks = []
    if attempt.lapsed_ms is not None:
        marks.append(Marked(attempt.lapsed_ms, Mark.LAPSED))
    if attempt.learned_ms is not None:
        marks.append(Marked(attempt.learned_ms, Mark.REFUSED))
    if attempt.end == "released":
        marks.append(Marked(attempt.taken_ms, Mark.FINISHED))
    pauses = tuple(_blocked(outcome.setting, outcome.attempts.index(attempt), attempt))
    return Holding(attempt.worker, tuple(proofs), tuple(marks), pauses)


def _blocked(setting: Setting, place: int, attempt: AttemptSeen) -> Iterator[Stretch]:
    """When this worker stands still, as far as it has the job or thinks so."""
    if attempt.end != "released" and (place == 0 or setting.block_every_attempt):
        for block in setting.blocks:
            yield Stretch(attempt.taken_ms + block.at_ms, attempt.taken_ms + block.until_ms)


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _ordinal(count: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(count % 10 if count % 100 not in {11, 12, 13} else 0, "th")
    return f"{count}{ending}"
