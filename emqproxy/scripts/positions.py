"""What a script's text says of its own KEYS and ARGV: in its first comment, and by the names of its variables.

It tells layouts of one name and arity apart, and a text whose arguments stand elsewhere than in any release we know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from emqproxy.scripts.layouts import Layout

_COMMENT: Final = re.compile(r"\s*--\[(=*)\[(.*?)\]\1\]", re.DOTALL)
_TOLD: Final = re.compile(r"\b(KEYS|ARGV)\[(\d{1,3})\][ \t:=-]*([^\n]*)")
_NAMED: Final = re.compile(r"\blocal\s+(\w+)\s*=\s*(KEYS|ARGV)\[(\d{1,3})\]\s*(?:\n|;|$)")
_USED: Final = re.compile(r"\b(KEYS|ARGV)\[(\d{1,3})\]")

_Index: TypeAlias = tuple[str, int]
"""`("ARGV", 4)`, counted from 1 as the text does."""

# In the order in which they are tried: what is said of a key may hold the words for an id.
_WORDS: Final[tuple[tuple[str, str, re.Pattern[str]], ...]] = tuple(
    (kind, role, re.compile(pattern))
    for kind, role, pattern in (
        ("KEYS", "stalled_check", r"stalled.?check"),
        ("KEYS", "lock", r"\block\b"),
        ("KEYS", "marker", r"\bmarker\b"),
        ("KEYS", "stalled", r"\bstalled\b"),
        ("KEYS", "waiting_children", r"wait(ing)?.?children"),
        ("KEYS", "paused", r"\bpaused\b"),
        ("KEYS", "wait", r"^'?wait\b"),
        ("KEYS", "meta", r"\bmeta\b"),
        ("KEYS", "limiter", r"\blimiter\b"),
        ("KEYS", "repeat", r"^'?repeat'?( key)?$"),
        ("KEYS", "prefix", r"\bprefix\b"),
        ("KEYS", "job", r"^job ?(id)? ?key"),
        ("ARGV", "prefix", r"\bprefix\b|queue\.tokey"),
        ("ARGV", "token", r"\btoken\b"),
        ("ARGV", "duration_ms", r"\block duration\b"),
        ("ARGV", "delayed_timestamp", r"delayed ?timestamp"),
        ("ARGV", "timestamp", r"^(current )?timestamp\b"),
        ("ARGV", "job", r"\bjob ?(id)? ?key\b"),
        ("ARGV", "job_id", r"^job[ .]?id\b|\bid of the job\b"),
        ("ARGV", "fetch_next", r"\bfetch ?next\b"),
        ("ARGV", "fields", r"\bjob fields\b"),
    )
)
_VOCABULARY: Final = {kind: {role for k, role, _ in _WORDS if k == kind} for kind in ("KEYS", "ARGV")}


class Said(NamedTuple):
    """A text's own account of its arguments."""

    roles: dict[_Index, str]
    """Where it names one that we have a word for."""
    last: dict[str, int]
    """The highest index of KEYS and of ARGV that it uses."""


def said_of(text: bytes) -> Said:
    """What a text says. Never raises."""
    source = text.decode("utf-8", "replace").replace("\r\n", "\n")
    comment = _COMMENT.match(source)
    roles: dict[_Index, str] = {}
    for kind, index, words in _TOLD.findall(comment[2]) if comment else ():
        if (role := _role(kind, words)) is not None:
            roles.setdefault((kind, int(index)), role)
    code = source[comment.end() :] if comment else source
    for name, kind, index in _NAMED.findall(code):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
        if (role := _role(kind, words)) is not None:
            roles[kind, int(index)] = role  # the code is what runs
    last = {"KEYS": 0, "ARGV": 0}
    for kind, index in _USED.findall(code):
        last[kind] = max(last[kind], int(index))
    return Said(roles, last)


def fitting(layouts: Iterable[Layout], said: Said) -> Sequence[Layout]:
    """The layouts that a text does not contradict; of several those that use as many arguments as it does."""
    open_to = [layout for layout in layouts if not contradiction(layout, said)]
    exact = [layout for layout in open_to if len(layout.row.args) == said.last["ARGV"]]
    return exact if len(open_to) > 1 and exact else open_to


def contradiction(layout: Layout, said: Said) -> str | None:
    """Where a text takes an argument for something else than the layout does, in words; None where nowhere."""
    row = layout.row
    for kind, roles in (("KEYS", row.keys), ("ARGV", row.args)):
        variadic = any(role.endswith("…") for role in roles)
        if said.last[kind] > len(roles) and not variadic:
            return f"it uses {kind}[{said.last[kind]}], and there are {len(roles)}"
        for (of, index), role in said.roles.items():
            if of != kind or variadic or index > len(roles):
                continue
            here = roles[index - 1]
            if role != here and (here in _VOCABULARY[kind] or role in roles):
                return f"its {kind}[{index}] is said to be the {role.replace('_', ' ')}"
    return None


def _role(kind: str, words: str) -> str | None:
    words = " ".join(words.lower().split()).lstrip("-:= ")
    return next((role for of, role, pattern in _WORDS if of == kind and pattern.search(words)), None)
