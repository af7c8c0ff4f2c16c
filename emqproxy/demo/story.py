"""The story itself: five jobs, one after the other, what befalls each, and in the end whether all of it was seen.

Each misfortune follows on a line of the journal (`_cue`), and each worker goes on when the story lets it: a slow
machine takes longer and tells the same.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import nullcontext
from typing import Final

from rich.console import Console

from emqproxy.demo import plan
from emqproxy.demo.account import Account
from emqproxy.demo.children import CannotStartError, Children, InterruptedDemo
from emqproxy.demo.expected import REFUSAL, RENEWAL, SWEEP, Line, Seen, Story
from emqproxy.demo.plan import HEALTHY, JOBS, KILLED, LOCK_MS, OVER, ROBBED, SLOW, STRANGER, STUCK, WORKERS, job_key
from emqproxy.demo.stage import JournalReader, Stage, set_up, start_workers
from emqproxy.demo.summary import say_what_runs, sum_up

CANNOT_START: Final = 3
INTERRUPTED: Final = 130
STORY_S: Final = 90.0
"""The longest the story may take on a slow machine; about 20 s is usual."""
JOB_S: Final = 20.0
"""So long a job's story may take, five of which are usual, before it is played again."""
TRIES: Final = 3
_LOOK_S: Final = 0.05
_GATE_OPENS: Final = {(HEALTHY, RENEWAL), (SLOW, RENEWAL), (ROBBED, REFUSAL), (STUCK, REFUSAL), (KILLED, SWEEP)}
"""What must have been seen of a job before whoever works on it may come to its end."""


def main(otlp: str | None, keep: bool) -> int:
    """Tells the story; 0 if all of it was seen, 1 if not, 3 if it cannot start, 130 if interrupted.

    `otlp`: base URL of an OTLP/HTTP endpoint that is to get the spans. `keep`: leave all running until Ctrl-C.
    """
    if hasattr(sys.stdout, "reconfigure"):  # a terminal that cannot show a sign shows another; the story goes on
        sys.stdout.reconfigure(errors="replace")
    out = Console(highlight=False)
    try:
        with Children() as children:
            return _tell(out, children, otlp, keep)
    except CannotStartError as error:
        print(f"emqproxy demo: {error}", file=sys.stderr)
        return CANNOT_START
    except InterruptedDemo:
        print("emqproxy demo: interrupted; everything it started has been stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # nobody reads on; what Python would still flush at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED


def _tell(out: Console, children: Children, otlp: str | None, keep: bool) -> int:
    with out.status("starting a server, emqproxy and three workers") if out.is_terminal else nullcontext():
        stage = set_up(children, otlp)
        start_workers(children, stage)
    out.print(
        f"{stage.program} on port {stage.server_port}, emqproxy before it on port {stage.sidecar_port}, and three "
        f"workers. Five jobs, each under a lock of {LOCK_MS / 1000:.0f} s. All that follows was read from the wire.",
        soft_wrap=not out.is_terminal,
    )
    with Account(out) as account:
        play = Play(children, stage, account)
        play.play()
    missing = play.story.missing()
    sum_up(out, play.lines, play.story.ids(), missing, otlp)
    for name in play.ended_early():
        out.print(f"\nThe {name} ended early. Its last words:\n{children.said(name)}", markup=False)
    if keep:
        say_what_runs(out, stage)
        while True:
            children.pause(_LOOK_S)
    return 1 if missing else 0


class Play:
    """The director: adds the jobs, reads the journal, and lets happen what is to happen."""

    def __init__(self, children: Children, stage: Stage, account: Account) -> None:
        self._children = children
        self._stage = stage
        self._account = account
        self._journal = JournalReader(stage.journal)
        self._killed: set[str] = set()
        self.story = Story()
        self.lines: list[Line] = []

    def play(self) -> None:
        """Until all was seen, the time is over, or one of the processes has ended that should not. Raises
        InterruptedDemo.
        """
        until = time.monotonic() + STORY_S
        for job in JOBS:
            for number in range(1, TRIES + 1):
                if self._plays(job, number, until):
                    break
                if time.monotonic() > until or self.ended_early():
                    return
        self._stage.open_gate(OVER)

    def _plays(self, job: str, number: int, until: float) -> bool:
        """Plays one job; whether all of it was seen."""
        job_id = plan.job_id(job, number)
        self.story.begin(job, job_id)
        self._account.begin(job, again=number > 1)
        self._stage.add(job_id)
        until = min(until, time.monotonic() + JOB_S)
        while not self.story.is_whole(job) and time.monotonic() < until and not self.ended_early():
            self._look()
        if not self.story.is_whole(job):
            self._stage.open_gate(job_id)  # whoever is still at it is to come to an end
        return self.story.is_whole(job)

    def ended_early(self) -> list[str]:
        """The processes that have ended, other than the workers that were killed."""
        return [name for name in self._children.ended() if name not in self._killed]

    def _look(self) -> None:
        self._children.pause(_LOOK_S)
        for line in self._journal.new():
            self.lines.append(line)
            self._account.tell(line)
            for seen in self.story.see(line):
                self._cue(seen, line)
        self._account.refresh()

    def _cue(self, seen: Seen, line: Line) -> None:
        """What follows on a step that was seen."""
        if seen == (ROBBED, RENEWAL):
            self._rob(str(line["job"]))
        elif seen == (KILLED, RENEWAL):
            self._kill(str(line["client_name"]))
        if seen in _GATE_OPENS:
            self._stage.open_gate(str(line["job"]))

    def _rob(self, job_id: str) -> None:
        lock = f"{job_key(job_id)}:lock"
        self._account.direct(f"$ redis-cli -p {self._stage.sidecar_port} DEL {lock}")
        self._stage.call(STRANGER, "DEL", lock)

    def _kill(self, name: str) -> None:
        if name not in WORKERS or len(self._killed) == len(WORKERS) - 1:
            return  # the last one must do what the others leave
        process = self._children.process(name)
        self._account.direct(f"$ kill -9 {process.pid}    # {name}")
        self._account.died(name)
        self._killed.add(name)
        process.send_signal(signal.SIGKILL)
