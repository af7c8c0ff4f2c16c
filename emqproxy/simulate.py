"""The command `emqproxy simulate`: its options and its help. What it does is `simulation`'s.

It has a module of its own because its help says what is assumed: without that, its answers could not be trusted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from emqproxy.command_errors import CommandError

LockDuration = Annotated[
    str, typer.Option("--lock-duration", metavar="MS", help="The lock's time to live.", show_default=False)
]
Renew = Annotated[
    str, typer.Option("--renew", metavar="MS", help="From a pickup or a renewal to the next one.", show_default=False)
]
StalledInterval = Annotated[
    str, typer.Option("--stalled-interval", metavar="MS", help="From one sweep for stalled jobs to the next.")
]
MaxStalled = Annotated[
    str, typer.Option("--max-stalled", metavar="N", help="How often a job may stall before it fails.")
]
Blocks = Annotated[
    list[str] | None,
    typer.Option(
        "--block",
        metavar="MS@MS",
        help="4000@12000: the first worker stands still for 4000 ms from 12000 ms on. May be given often.",
    ),
]
FirstSweep = Annotated[
    str | None,
    typer.Option("--first-sweep", metavar="MS", help="When the first sweep comes.  [default: --stalled-interval]"),
]
BlockEveryAttempt = Annotated[
    bool, typer.Option("--block-every-attempt", help="Each worker is blocked so, from its pickup on: the job does it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as JSON; its shape is stable.")]


def simulate(
    lock_duration: LockDuration,
    renew: Renew,
    stalled_interval: StalledInterval = "30000",
    max_stalled: MaxStalled = "1",
    block: Blocks = None,
    first_sweep: FirstSweep = None,
    block_every_attempt: BlockEveryAttempt = False,
    as_json: AsJson = False,
) -> int:
    """Tell what becomes of a lock under given times: owned throughout, or when it lapses and what follows.

    Arithmetic, in milliseconds from the pickup on; the ledger that judges real traffic judges it. Exit code 0: owned
    throughout; 1: it stalls.

    Assumed: the job takes for ever, and Redis answers at once. A renewal that falls due while its worker is blocked
    comes when the block ends, and the next one an interval later. A renewal that comes just as the lock ends is in
    time. Sweeps come at multiples of their interval (from --first-sweep on), whoever is blocked: each marks the job if
    it is active, a renewal takes the mark away, and a sweep that finds the mark and no lock puts the job back. Another
    worker takes it then at once, with the same times; past --max-stalled it fails it. A worker whose renewal is refused
    gives up. It is told until nothing more can become of the job.
    """
    from emqproxy.simulation.course import play
    from emqproxy.simulation.settings import SettingError, read

    try:
        outcome = play(
            read(
                lock_duration,
                renew,
                stalled_interval,
                max_stalled,
                first_sweep,
                block or (),
                block_every_attempt=block_every_attempt,
            )
        )
    except SettingError as error:
        raise CommandError(str(error)) from None
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(outcome)).decode() + "\n")
    else:
        from rich.console import Console

        from emqproxy.simulation import report

        report.write(outcome, Console(highlight=False))
    return 0 if outcome.owned else 1
