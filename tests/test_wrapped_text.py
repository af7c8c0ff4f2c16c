"""Lines for a terminal: how wide, how indented, and what is not torn apart."""

from __future__ import annotations

import pytest

from emqproxy.wrapped_text import wrapped

WORDS = "the lock lapses after 4.5 s, renewed last at 15000 ms: a-worker is blocked"


@pytest.mark.parametrize("width", range(20, 90))
def test_lines_fit_hang_and_keep_figures_whole(width: int) -> None:
    lines = wrapped(WORDS, width, "  ", "    ").split("\n")
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("  the")
    assert all(line.startswith("    ") and line[4] != " " for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == WORDS
    assert any("4.5 s" in line for line in lines)
    assert any("15000 ms" in line for line in lines)


def test_however_narrow_it_is_some_text_stands_in_each_line() -> None:
    lines = wrapped(WORDS, 10, " " * 12, " " * 12).split("\n")
    assert max(map(len, lines)) <= 28
    assert len(lines) < 10


def test_a_word_that_no_line_holds_is_broken_and_not_lost() -> None:
    assert wrapped("x" * 50, 20).replace("\n", "") == "x" * 50
