"""What a setting's options mean, and the line that says what is wrong with one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.simulation.settings import BLOCKS_MAX, TIME_MS_MAX, Block, Setting, SettingError, joined, read, read_block
from tests.simulation.strategies import unhurried


def test_options_become_a_setting() -> None:
    assert read("30000", "15000") == Setting(lock_duration_ms=30_000, renew_ms=15_000)
    assert read("2000", "500", "700", "0", "0", ["5@9", "4000@12000"], block_every_attempt=True) == Setting(
        lock_duration_ms=2000,
        renew_ms=500,
        stalled_interval_ms=700,
        max_stalled=0,
        first_sweep_ms=0,
        blocks=(Block(9, 5), Block(12_000, 4000)),
        block_every_attempt=True,
    )
    assert read("2000", "500", "700").first_sweep_ms == 700


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["", "1"], "--lock-duration: '' is no whole number; write milliseconds, like 30000"),
        (["30s", "1"], "--lock-duration: '30s' is no whole number; write milliseconds"),
        (["1", "1.5"], "--renew: '1.5' is no whole number; write milliseconds, like 15000"),
        (["1", "0"], f"--renew: 0 is out of range; write 1 to {TIME_MS_MAX} milliseconds"),
        (["1", str(TIME_MS_MAX + 1)], "--renew: .* is out of range"),
        (["1", "1" * 13], "--renew: '1+' is no whole number"),
        (["1", "\u0661"], "--renew: .* is no whole number"),
        (["1", "1", "-5"], "--stalled-interval: '-5' is no whole number; write milliseconds, like 30000"),
        (["1", "1", "1", "1001"], "--max-stalled: 1001 is out of range; write 0 to 1000 stalls, like 1"),
        (["1", "1", "1", "1", "x"], "--first-sweep: 'x' is no whole number"),
    ],
)
def test_what_is_no_setting_is_said_in_one_line(options: list[str], line: str) -> None:
    with pytest.raises(SettingError, match=line):
        read(*options)


@pytest.mark.parametrize(
    "text", ["", "5", "5@", "@5", "5@-1", "5@5@5", "a@b", "5 @5", "5@5\n", "0@5", f"1@{TIME_MS_MAX}"]
)
def test_what_is_no_block_is_said(text: str) -> None:
    with pytest.raises(SettingError, match=r"--block: .*; write "):
        read_block(text)


def test_too_many_blocks_are_said() -> None:
    with pytest.raises(SettingError, match=f"--block: {BLOCKS_MAX + 1} of them; write at most {BLOCKS_MAX}"):
        joined([Block(2 * place, 1) for place in range(BLOCKS_MAX + 1)])


@unhurried
@given(st.lists(st.builds(Block, st.integers(0, 40), st.integers(1, 9)), max_size=8))
def test_joined_blocks_stand_still_when_one_of_them_does(blocks: list[Block]) -> None:
    done = joined(blocks)
    assert list(done) == sorted(done)
    for instant in range(60):
        still = [block.at_ms <= instant < block.until_ms for block in blocks]
        assert sum(block.at_ms <= instant < block.until_ms for block in done) == any(still)
    assert all(a.until_ms < b.at_ms for a, b in pairwise(done))
