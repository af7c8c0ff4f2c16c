"""What is left when the story was told: each job's lock over time, its trace, what was not seen, where to look next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from rich.console import Console
from rich.text import Text

from emqproxy.demo.expected import Line
from emqproxy.demo.plan import SLOW, STUCK, TITLES, job_key
from emqproxy.demo.stage import Stage
from emqproxy.journal_timeline import lock_timeline
from emqproxy.lock_timeline import Holding, LockTimeline, Mark, Stretch
from emqproxy.observer.ids import trace_id
from emqproxy.timeline_drawing import DrawnTimeline

_WORDS: Final = frozenset({Mark.REFUSED, Mark.FINISHED, Mark.FINISH_REFUSED})
"""What a worker itself brings about."""
_TOLD: Final = ("op", "outcome", "code", "effect", "grade", "finding", "age_ms", "remaining_ms", "token", "client_name")
_NEXT: Final = (
    ("with its spans", 'emqproxy demo --otlp URL   (README, "How a trace reads")'),
    ("left running", "emqproxy demo --keep   (its journal, and a port to try)"),
    ("your own Redis", "emqproxy run --upstream redis://HOST:6379"),
    ("as arithmetic", "emqproxy simulate --lock-duration 3000 --renew 4000"),
    ("a worker to copy", "emqproxy/demo/worker.py"),
)


def sum_up(
    out: Console, lines: Sequence[Line], ids: Mapping[str, str], missing: Sequence[str], otlp: str | None
) -> None:
    """Prints all of it. `ids`: by job, the id under which it was played last. `missing`: `stuck: the sweep`."""
    for job, job_id in ids.items():
        if any(line.get("job") == job_id and line.get("op") == "acquire" for line in lines):
            _say(out, "\n", (job, "bold"), f": {TITLES[job]}")
            out.print(DrawnTimeline(timeline(lines, job, job_id)))
    if missing:
        _say(out, "\n", (f"The story is NOT complete. Not seen: {'; '.join(missing)}.", "bold red"))
        _say_what_was_seen(out, lines, ids[missing[0].partition(":")[0]])
        return
    _say(
        out,
        "\n",
        ("All of it was seen, by reading the wire: no worker and no Redis was changed.", "bold green"),
    )
    _say(out, f"\nThe trace of each job{f', sent to {otlp}' if otlp else ', computed from its key'}:")
    for job_id in ids.values():
        _say(out, f"  {job_key(job_id):18} {trace_id('', 0, job_key(job_id).encode()):032x}")
    _say(out, "\nWhere to look next:")
    for what, where in _NEXT:
        _say(out, f"  {what:18} {where}")


def timeline(lines: Sequence[Line], job: str, job_id: str) -> LockTimeline:
    """A job's lock over time. That its worker was blocked is what we know of the story: only its silence was seen."""
    told = lock_timeline(lines, job_key(job_id))
    if job not in (SLOW, STUCK) or not told.holdings:
        return told
    first, *others = told.holdings
    return told._replace(holdings=(first._replace(pauses=_silence(first)), *others))


def say_what_runs(out: Console, stage: Stage) -> None:
    """After --keep: how all of it is reached."""
    for words in (
        "\nStill running, until you press Ctrl-C here:",
        f"  through emqproxy   {stage.sidecar_url}   (point a worker at it)",
        f"  the server itself  {stage.server_url}",
        f"  health             http://127.0.0.1:{stage.health_port}/readyz",
        f"  journal            {stage.journal}   (it goes when you stop)",
    ):
        _say(out, words)


def _silence(holding: Holding) -> tuple[Stretch, ...]:
    """The longest time between two words of the worker."""
    spoke = sorted([proof.at_ms for proof in holding.proofs] + [at for at, mark in holding.marks if mark in _WORDS])
    silences = [Stretch(word, after) for word, after in pairwise(spoke)]
    return (max(silences, key=lambda silence: silence.to_ms - silence.from_ms),) if silences else ()


def _say_what_was_seen(out: Console, lines: Sequence[Line], job_id: str) -> None:
    _say(out, f"What the journal has of {job_id}:")
    for line in lines:
        if line.get("job") == job_id:
            told = {name: line.get(name) for name in _TOLD if line.get(name) is not None}
            _say(out, f"  {line['time']}  {' '.join(f'{name}={value}' for name, value in told.items())}")


def _say(out: Console, *words: str | tuple[str, str]) -> None:
    """Words, some of them with a style, on one line where nobody's terminal breaks it."""
    out.print(Text.assemble(*words), soft_wrap=not out.is_terminal)
