"""Text in lines for a terminal: later ones hang under a column, and a figure stays with its unit. Knows no terminal."""

from __future__ import annotations

import re
import textwrap
from typing import Final

_TEXT_MIN: Final = 16
"""Of a line's own characters, however narrow the terminal is."""
_FIGURE: Final = re.compile(r"(\d) (ms|s|lines?)\b")
_GLUE: Final = "\u00a0"


def wrapped(words: str, width: int, indent: str = "", hanging: str = "") -> str:
    """Lines of at most `width` characters, where that leaves any for text; `hanging` is the indent of all but the
    first."""
    width = max(width, len(indent) + _TEXT_MIN, len(hanging) + _TEXT_MIN)
    kept = _FIGURE.sub(rf"\1{_GLUE}\2", words)
    lines = textwrap.wrap(kept, width, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False)
    return "\n".join(lines).replace(_GLUE, " ")
