"""What is simulated: times in milliseconds, and what must be so for them to mean anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

DAY_MS: Final = 86_400_000
TIME_MS_MAX: Final = 365 * DAY_MS
"""More than anybody waits for a job."""
STALLED_INTERVAL_MS: Final = 30_000
MAX_STALLED: Final = 1
MAX_STALLED_MAX: Final = 1000
"""Each stall is a worker in the account; nobody reads more."""
BLOCKS_MAX: Final = 1000

_BLOCK: Final = re.compile(r"(\d{1,12})@(\d{1,12})\Z", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,12}\Z", re.ASCII)


class SettingError(ValueError):
    """One line that names the option and says what to write instead."""


class Block(msgspec.Struct, frozen=True, order=True):
    """The worker stands still: nothing of it runs from `at_ms` on until `at_ms + for_ms`."""

    at_ms: int
    """From the pickup of the job on."""
    for_ms: int

    @property
    def until_ms(self) -> int:
        """When it runs again."""
        return self.at_ms + self.for_ms


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One question."""

    lock_duration_ms: int
    renew_ms: int
    """From a pickup, or from a renewal, to the next renewal."""
    stalled_interval_ms: int = STALLED_INTERVAL_MS
    first_sweep_ms: int = STALLED_INTERVAL_MS
    """The first pickup is at 0; sweeps come at this instant and every `stalled_interval_ms` from it on."""
    max_stalled: int = MAX_STALLED
    """How often a job may stall before it fails."""
    blocks: tuple[Block, ...] = ()
    """In order, not touching each other."""
    block_every_attempt: bool = False
    """Every worker that takes the job is blocked so, counted from its pickup; else only the first."""


def read(
    lock_duration: str,
    renew: str,
    stalled_interval: str = str(STALLED_INTERVAL_MS),
    max_stalled: str = str(MAX_STALLED),
    first_sweep: str | None = None,
    blocks: Iterable[str] = (),
    *,
    block_every_attempt: bool = False,
) -> Setting:
    """The setting that options spell. Raises SettingError."""
    interval_ms = _whole("--stalled-interval", stalled_interval, 1, TIME_MS_MAX, "milliseconds, like 30000")
    return Setting(
        lock_duration_ms=_whole("--lock-duration", lock_duration, 1, TIME_MS_MAX, "milliseconds, like 30000"),
        renew_ms=_whole("--renew", renew, 1, TIME_MS_MAX, "milliseconds, like 15000"),
        stalled_interval_ms=interval_ms,
        first_sweep_ms=interval_ms
        if first_sweep is None
        else _whole("--first-sweep", first_sweep, 0, TIME_MS_MAX, "milliseconds, like 30000"),
        max_stalled=_whole("--max-stalled", max_stalled, 0, MAX_STALLED_MAX, "stalls, like 1"),
        blocks=joined([read_block(text) for text in blocks]),
        block_every_attempt=block_every_attempt,
    )


def read_block(text: str) -> Block:
    """`4000@12000`: for 4000 ms from 12000 ms on. Raises SettingError."""
    found = _BLOCK.match(text)
    if found is None:
        raise SettingError(f"--block: {text!r} is no block; write MS@MS, like 4000@12000: for 4000 ms from 12000 ms on")
    block = Block(int(found[2]), int(found[1]))
    if block.for_ms < 1 or block.until_ms > TIME_MS_MAX:
        raise SettingError(
            f"--block: {text!r} is too short or too long; write one of at least 1 ms that ends by {TIME_MS_MAX} ms"
        )
    return block


def joined(blocks: list[Block]) -> tuple[Block, ...]:
    """In order; those that touch or overlap are one. Raises SettingError where they are too many."""
    if len(blocks) > BLOCKS_MAX:
        raise SettingError(f"--block: {len(blocks)} of them; write at most {BLOCKS_MAX}")
    done: list[Block] = []
    for block in sorted(blocks):
        if done and block.at_ms <= done[-1].until_ms:
            until_ms = max(done[-1].until_ms, block.until_ms)
            done[-1] = Block(done[-1].at_ms, until_ms - done[-1].at_ms)
        else:
            done.append(block)
    return tuple(done)


def _whole(option: str, text: str, least: int, most: int, unit: str) -> int:
    if not _WHOLE.match(text):
        raise SettingError(f"{option}: {text!r} is no whole number; write {unit}")
    if not least <= int(text) <= most:
        raise SettingError(f"{option}: {text} is out of range; write {least} to {most} {unit}")
    return int(text)
