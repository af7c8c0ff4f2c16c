"""Scripts that a user has added: what `scripts add` learns from texts, and the file in which it is kept.

A script is learned where its name and number of keys are those of a layout, and its own text fits one of that name and
arity only; the rest is left out, with the reason in one line. The file is JSON with one script a line: sha, name,
keys, the layout's releases, and where the text came from. It holds no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from emqproxy.scripts import layouts
from emqproxy.scripts.arguments import sha_of
from emqproxy.scripts.layouts import Layout
from emqproxy.scripts.positions import contradiction, fitting, said_of

FORMAT: Final = 1
SCRIPTS_MAX: Final = 10_000
_SHA: Final = re.compile(r"[0-9a-f]{40}\Z")
_RELEASE: Final = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}\Z")
_UNRESOLVED: Final = re.compile(rb"^[ \t]*---?[ \t]*@include\b", re.MULTILINE)


class CatalogueError(Exception):
    """What is wrong with the file, and what to do, in one line without the file's name."""


class Text(NamedTuple):
    """A text that may be a script of the protocol, as it was found."""

    name: str
    """`moveToFinished`; empty where neither its file nor its module says it."""
    keys: int | None
    text: bytes
    release: str
    """The npm release of its package, `5.81.5`; empty where it is in none, or that is unknown."""
    where: str
    """To be shown: its file, within what was given."""


class UserScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the file."""

    sha: str
    script: str
    keys: int
    layout: str
    """First and last release of its layout, `5.33.0-6.7.0`; empty for a script that touches no job."""
    release: str
    source: str

    @property
    def releases(self) -> str:
        """As a published script tells its own."""
        return f"{self.release}-{self.release}" if self.release else ""


class Learnt(NamedTuple):
    """What came of a heap of texts."""

    added: list[UserScript]
    published: int
    """Whose sha is a release's: they are known without a file."""
    left_out: list[str]
    """One line each."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    emqproxy_scripts: int
    scripts: list[UserScript]


_Layouts = Mapping[tuple[str, int], Sequence[Layout]]


def learn(texts: Iterable[Text], published: Mapping[str, tuple[str, int]]) -> Learnt:
    """`published`: name and arity by sha. A text that was found twice counts once."""
    rows, found = layouts.load(), Learnt([], 0, [])
    names = {name for name, _ in published.values()}
    seen: set[str] = set()
    known = 0
    for given in texts:
        sha = sha_of(given.text).decode()
        if sha in seen:
            continue
        seen.add(sha)
        if sha in published:
            known += 1
            continue
        told = _learned(given, sha, rows, names)
        if isinstance(told, str):
            found.left_out.append(f"{given.where}: {told}; left out")
        else:
            found.added.append(told)
    return found._replace(published=known)


def _learned(given: Text, sha: str, rows: _Layouts, names: set[str]) -> UserScript | str:
    """The script's row; a string says why there is none."""
    name, keys = given.name, given.keys
    if _UNRESOLVED.search(given.text):
        return "it has @include lines, so it is not what clients send; give the built package"
    if not name or keys is None:
        return "which script it is cannot be told; name the file NAME-KEYS.lua, like extendLock-2.lua"
    if name not in names:
        return f"no script {name} is known, and so not what its keys and arguments are"
    release = given.release if _RELEASE.match(given.release) else ""
    candidates = rows.get((name, keys), ())
    if not candidates:
        if any(other == name for other, _ in rows):
            return f"no layout of {name}-{keys} is known"
        return UserScript(sha, name, keys, "", release, given.where)
    said = said_of(given.text)
    fit = fitting(candidates, said)
    if not fit:
        return f"its text does not fit {name}-{keys}: {contradiction(candidates[-1], said)}"
    if len(fit) > 1:
        held = layouts.in_range(fit, release, release) if release else None
        if held is None:
            ranges = " or ".join(_range(layout) for layout in fit)
            return f"where its arguments stand cannot be told: as in {ranges}"
        fit = [held]
    return UserScript(sha, name, keys, _range(fit[0]), release, given.where)


def layout_of(script: UserScript, rows: _Layouts) -> Layout | None:
    """The layout that a row names; None where it names none. Raises CatalogueError for one that is not known."""
    if not script.layout:
        return None
    held = [row for row in rows.get((script.script, script.keys), ()) if _range(row) == script.layout]
    if not held:
        raise CatalogueError(
            f"{script.script}-{script.keys} has no layout {script.layout} in this release; add its package again"
        )
    return held[0]


def _range(layout: Layout) -> str:
    return f"{layout.row.first}-{layout.row.last}"


# ---------------------------------------------------------------- the file


def decode(data: bytes) -> list[UserScript]:
    """The rows of a file. Raises CatalogueError."""
    again = "make it anew with emqproxy scripts add"
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise CatalogueError(f"not a catalogue of scripts ({said}); {again}") from None
    if file.emqproxy_scripts != FORMAT:
        raise CatalogueError(f"its form is {file.emqproxy_scripts}, and this release reads {FORMAT}; {again}")
    if len(file.scripts) > SCRIPTS_MAX:
        raise CatalogueError(f"it has more than {SCRIPTS_MAX} scripts; {again}")
    rows = layouts.load()
    for script in file.scripts:
        if not _SHA.match(script.sha):
            raise CatalogueError(f"{script.sha[:60]!r} is no sha1 of 40 lower-case hex digits; {again}")
        if script.release and not _RELEASE.match(script.release):
            raise CatalogueError(f"{script.release[:60]!r} is no release like 5.81.5; {again}")
        layout_of(script, rows)
    if len({script.sha for script in file.scripts}) < len(file.scripts):
        raise CatalogueError(f"a sha stands in it twice; {again}")
    return file.scripts


def encode(scripts: Iterable[UserScript]) -> bytes:
    """The file's bytes: one script a line, by name, so that two versions of it can be compared."""
    lines = [msgspec.json.encode(script).decode() for script in sorted(scripts, key=_order)]
    listed = ",\n".join(lines)
    return f'{{"emqproxy_scripts": {FORMAT}, "scripts": [\n{listed}\n]}}\n'.encode()


def merge(old: Iterable[UserScript], new: Iterable[UserScript]) -> list[UserScript]:
    """Both; of two of one sha the newer."""
    return list(({script.sha: script for script in old} | {script.sha: script for script in new}).values())


def _order(script: UserScript) -> tuple[str, int, str]:
    return script.script, script.keys, script.sha
