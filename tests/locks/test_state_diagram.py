"""The README's diagram is the table's."""

from __future__ import annotations

from tests.locks.state_diagram import README, diagram, drawn


def test_the_readme_shows_the_table_as_it_is() -> None:
    text = README.read_text()
    assert drawn(text) == text, "run python -m tests.locks.state_diagram"


def test_it_draws_what_a_reader_looks_for() -> None:
    lines = diagram().splitlines()
    assert "    unseen --> held: Granted, Renewed" in lines
    assert any(line.startswith("    lapsed --> free: ") and "Absent" in line for line in lines)
