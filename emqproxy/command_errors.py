"""What a command raises where it was called wrongly: `cli` prints it."""

from __future__ import annotations


class CommandError(Exception):
    """One line that names the argument and says what to write instead."""
