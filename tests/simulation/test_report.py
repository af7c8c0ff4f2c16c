"""An outcome as a reader meets it: whole pages, kept here, and what each kind of outcome is called."""

from __future__ import annotations

import io
import re

import pytest
from msgspec.structs import replace
from rich.console import Console

from emqproxy.simulation.course import play
from emqproxy.simulation.report import account, sentence, setting_words, timeline, write
from emqproxy.simulation.settings import Block, Setting
from emqproxy.timeline_drawing import plain

LOST = Setting(lock_duration_ms=30_000, renew_ms=15_000, blocks=(Block(16_000, 80_000),))


def page(setting: Setting, width: int = 100) -> str:
    file = io.StringIO()
    write(play(setting), Console(file=file, width=width, highlight=False))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


LOST_PAGE = """
A lock of 30000 ms, renewed every 15000 ms; sweeps every 30000 ms from 30000 ms on; a job may stall once; the first
worker is blocked for 80000 ms from 16000 ms on.

        s 0        10       20      30       40       50       60       70       80       90      100      110
          ├────────┼────────┼───────┼────────┼────────┼────────┼────────┼────────┼────────┼───────┼────────┼────────┼
worker 1  ▶━━━━━━━━━━━━●━━━━━━━━━━━━━─────────────▼············································✕
  blocked               ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
worker 2                                                       »━━━━━━━━━━━━●━━━━━━━━━━━━━●━━━━━━━━━━━━●━━━━━━━━━━━━●
the queue                           m                          S                          m
▶ taken  » taken over  ━ held  ─ past half its time  ● renewed  ▼ lapsed  · goes on without it  ✕ renewal refused
░ blocked  m a sweep marks it  S a sweep puts it back

     0 ms  worker 1 takes the job: its lock ends at 30000 ms unless it is renewed
 45000 ms  the lock lapses, renewed last at 15000 ms: worker 1 is blocked
 60000 ms  a sweep puts it back, and another worker may have it: stall 1, 1 allowed
 60000 ms  worker 2 takes the job: its lock ends at 90000 ms unless it is renewed
 96000 ms  worker 1 renews, is refused, and only now learns that it lost the job, 36000 ms after it was put back
120000 ms  worker 2 renews in time, here for the 4th time, and so on for ever

Stalls: the lock lapses at 45000 ms, and another worker may have the job from 60000 ms on. Worker 2 keeps it.
"""

LOST_AT_80 = """

        s 0          20          40         60         80          100
          ├──────────┼───────────┼──────────┼──────────┼───────────┼──────────┼
worker 1  ▶━━━━━━━●━━━━━━━━─────────▼···························✕
  blocked          ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
worker 2                                    »━━━━━━━●━━━━━━━━●━━━━━━━━●━━━━━━━●
the queue                  m                S                m
▶ taken  » taken over  ━ held  ─ past half its time  ● renewed  ▼ lapsed
· goes on without it  ✕ renewal refused  ░ blocked  m a sweep marks it
"""


def test_the_page() -> None:
    assert page(LOST, 118) == LOST_PAGE.strip("\n")


def test_the_timeline_at_eighty() -> None:
    assert LOST_AT_80.strip("\n") in page(LOST, 80)


OWNED = "Owned throughout: no renewal comes with less than {} ms of the lock left."
STALLS = "Stalls: the lock lapses at {} ms, and another worker may have the job from {} ms on."
FAILED = "It is failed for good at {} ms, having stalled {}."
TWO_BLOCKS = (Block(4_000, 3_000), Block(11_000, 5_000))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (Setting(lock_duration_ms=30_000, renew_ms=15_000), OWNED.format(15_000)),
        (Setting(lock_duration_ms=30_000, renew_ms=30_000), f"{OWNED.format(0)} Of 4 renewals, 4 critical."),
        (
            Setting(lock_duration_ms=10_000, renew_ms=5_000, blocks=TWO_BLOCKS),
            f"{OWNED.format(1_000)} Of 4 renewals, 1 late and 1 critical.",
        ),
        (LOST, f"{STALLS.format(45_000, 60_000)} Worker 2 keeps it."),
        (
            Setting(lock_duration_ms=30_000, renew_ms=45_000, max_stalled=0),
            f"{STALLS.format(30_000, 60_000)} {FAILED.format(60_000, 'once')}",
        ),
        (
            Setting(lock_duration_ms=30_000, renew_ms=45_000, max_stalled=2),
            f"{STALLS.format(30_000, 60_000)} {FAILED.format(180_000, '3 times')}",
        ),
    ],
)
def test_the_sentence(setting: Setting, said: str) -> None:
    assert sentence(play(setting)) == said


def test_blocks_are_told() -> None:
    blocks = (Block(1, 2), Block(5, 6))
    one = Setting(lock_duration_ms=10, renew_ms=5, max_stalled=0, blocks=blocks)
    assert setting_words(one).endswith(
        "may stall never; the first worker is blocked for 2 ms from 1 ms on, for 6 ms from 5 ms on."
    )
    every = Setting(lock_duration_ms=10, renew_ms=5, blocks=blocks, block_every_attempt=True)
    assert "may stall once; each worker is blocked for 2 ms" in setting_words(every)


def test_of_many_workers_the_first_and_the_last_are_shown() -> None:
    outcome = play(Setting(lock_duration_ms=30_000, renew_ms=45_000, max_stalled=20))
    assert [holding.name for holding in timeline(outcome).holdings] == [f"worker {n}" for n in (1, 2, 3, 4, 5, 22)]
    assert list(account(outcome)) == sorted(account(outcome), key=lambda told: told.at_ms)
    assert "(16 workers between them fare alike and are not shown)" in page(outcome.setting)
    one = Setting(lock_duration_ms=30_000, renew_ms=45_000, max_stalled=5)
    assert "(1 worker between them fares alike and is not shown)" in page(one)


@pytest.mark.parametrize("width", [30, 40, 60, 80, 118])
def test_what_happened_hangs_under_its_column(width: int) -> None:
    lines = page(LOST, width).splitlines()
    stamps = [at for at, line in enumerate(lines) if re.match(r" *\d+ ms  ", line)]
    assert len(stamps) == 6
    column = len("120000 ms  ")
    for line in lines[stamps[0] : stamps[-1] + 1]:
        assert line[column] != " ", line
        assert re.fullmatch(r" *\d+ ms  | +", line[:column]), line
    assert max(map(len, lines)) <= width


def test_one_renewal_is_one() -> None:
    first = play(Setting(lock_duration_ms=30_000, renew_ms=30_000)).attempts[0]
    once = replace(first, renewals=first.renewals[:1])
    outcome = play(Setting(lock_duration_ms=30_000, renew_ms=30_000))
    assert sentence(replace(outcome, attempts=(once,))).endswith(" Of 1 renewal, 1 critical.")


def test_a_job_that_blocks_every_worker_shows_each_blocked() -> None:
    outcome = play(Setting(lock_duration_ms=30, renew_ms=15, stalled_interval_ms=30, first_sweep_ms=30,
                           blocks=(Block(1, 90),), block_every_attempt=True))  # fmt: skip
    assert plain(timeline(outcome)).count("  blocked") == 2
