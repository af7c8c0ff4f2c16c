"""Which script a call runs: sha1 → script, from the data of all published releases, from `lua/`, and from texts that
pass by.

`match` says how a script was known. `catalogue`: its sha is a release's, or of `lua/`, or in the user's own catalogue.
`learned`: its text was seen, and its first comment line, arity and key suffixes agree with one layout; of header lines
only a hash is kept here. `shape`: nobody knows it, and its call looks like one family's.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import islice
from typing import Final

import msgspec

from emqproxy.scripts import layouts, texts
from emqproxy.scripts.arguments import sha_of, split
from emqproxy.scripts.defects import ANY_ARITY, KnownScripts, sha_called, with_its_keys
from emqproxy.scripts.families import FAMILIES, Recogniser
from emqproxy.scripts.layouts import Layout
from emqproxy.scripts.operation import Operation, Script
from emqproxy.scripts.raw import SCRIPT_CALLS, recognise_unknown, recognise_write
from emqproxy.scripts.shapes import Shapes, agree
from emqproxy.scripts.strangers import Strangers
from emqproxy.scripts.unread import recognise_unread
from emqproxy.scripts.user_catalogue import UserScript, layout_of
from emqproxy.scripts.wipes import WIPES, recognise_wipe
from emqproxy.session.exchange import Command, Word

LEARNED_MAX: Final = 4096

_HEADER: Final = re.compile(rb"\s*--\[\[\s*([^\r\n]{1,400})")
_KEYS_USED: Final = re.compile(rb"KEYS\[(\d{1,3})\]")
_SHA: Final = re.compile(r"[0-9a-f]{40}\Z")


class _Published(msgspec.Struct, frozen=True):
    """One row of the catalogue's data."""

    sha: str
    script: str
    keys: int
    first: str
    last: str


class _Known(msgspec.Struct, frozen=True):
    """A lock script with its one layout."""

    script: Script
    layout: Layout
    recognise: Recogniser
    added: bool = False
    """By the user: its calls must have the keys of its layout, as nobody has checked its text."""


class Catalogue:
    """Every script that is known. Lives in the data plane's one thread; bounded."""

    def __init__(self, prefixes: Sequence[str] = ("emq", "bull"), added: Iterable[UserScript] = ()) -> None:
        """`prefixes` bound which keys are taken for a lock's where no known script says so. `added`: the user's own
        catalogue; CatalogueError where a row of it names no layout."""
        self._prefixes = tuple(sorted((f"{prefix}:".encode() for prefix in prefixes), key=len, reverse=True))
        self._scripts: dict[str, Script] = {}
        self._lock_scripts: dict[bytes, _Known] = {}
        self._layouts = layouts.load(layouts.Queues(self._prefixes))
        self._headers = _load_headers()
        # By sha: the names that the text may have. The least recently used one goes first when it is full, so that
        # a flood of texts cannot push out what workers use all the time.
        self._learned: dict[bytes, tuple[str, ...]] = {}
        self.strangers = Strangers(self._lock_scripts, self._learned, self._prefixes)
        for row in _load_published():
            self._publish(row)
        self.allowed: frozenset[str] = frozenset()
        """Shas of the user's own scripts, of which nothing is to be said (`scripts.allow`)."""
        self.ours = frozenset(row.sha for row in _load_ours())
        for row in _load_ours():
            self._publish(row)
        self._published = len(self._scripts)
        for own in added:
            self._add(own)
        self._shapes = Shapes(self._layouts, self._prefixes)

    def __iter__(self) -> Iterator[Script]:
        """All scripts that are known by their sha: published ones by name and release, `lua/`, then the user's own."""
        return iter(self._scripts.values())

    def __len__(self) -> int:
        return len(self._scripts)

    @property
    def published(self) -> dict[str, tuple[str, int]]:
        """Name and arity of what is known without a user's catalogue, by sha."""
        return {s.sha: (s.name, s.arity) for s in islice(self._scripts.values(), self._published)}

    def recognise(self, command: Command) -> Operation | None:
        """What a command is to the protocol; None for all else.

        An unknown sha costs one miss in each of two dictionaries. Never raises, whatever the words are.
        """
        name, words = command.name, command.words
        if name in WIPES:
            return recognise_wipe(command)
        if name not in SCRIPT_CALLS:
            return recognise_write(command, self._prefixes)
        code, operation = words[1] if len(words) > 2 else None, None
        if code is not None and name == b"EVALSHA":
            operation = self._by_sha(code.lower(), words)
        elif code is not None and name == b"EVAL":
            operation = self._by_text(code, words)
        if operation is None and code is not None and self._shapes.may_fit(words):
            operation = self._by_shape(name, code, words)
        if operation is not None:
            return operation
        unknown = recognise_unknown(command, self._prefixes)
        known = None if unknown is None else self._scripts.get(unknown.script.sha)
        if unknown is None or known is None:
            return unknown
        return msgspec.structs.replace(unknown, script=known) if known.name in FAMILIES else None  # a malformed call

    def known(self, command: Command) -> KnownScripts:
        """What is known of the script that a command calls, whatever its keys are."""
        sha = sha_called(command)
        lock_script = self._lock_scripts.get(sha.encode())
        if lock_script is not None:
            return KnownScripts(lock_script.script, None if lock_script.added else lock_script.layout)
        if sha in self._scripts or sha in self.allowed:
            return KnownScripts(self._scripts.get(sha) or Script("", ANY_ARITY, sha, "", ""), None)
        names = self._learned.get(sha.encode(), ())
        if not names and command.name == b"EVAL" and len(command.words) > 1:
            names = self._names(command.words[1] or b"")
        return KnownScripts(Script(names[0], ANY_ARITY, sha, "learned", "") if names else None, None)

    def script_loaded(self, text: Word) -> None:
        """A text that compiled: SCRIPT LOAD answered with its sha, or EVAL with no compile error. Learnt if it is one
        of the protocol's and not known by its sha."""
        if text is None:
            return
        names = self._names(text)
        if not names:
            return
        sha = sha_of(text)
        if sha in self._learned or sha.decode() in self._scripts:
            return
        if len(self._learned) >= LEARNED_MAX:
            del self._learned[next(iter(self._learned))]
        self._learned[sha] = names
        self.strangers.age += 1

    def identify(self, what: str | bytes) -> Script | None:
        """The script that a sha (in any case) or a text is; None for a stranger.

        A text that no release has is told by its header if that has one name only; its arity is then the highest
        KEYS index it uses.
        """
        text = what.encode() if isinstance(what, str) else what
        sha = text.strip().decode("ascii", "replace").lower()
        if _SHA.match(sha):
            return self._scripts.get(sha) or self._learned_by(sha)
        sha = sha_of(text).decode()
        published = self._scripts.get(sha)
        if published is not None:
            return published
        names = self._names(text)
        if len(names) != 1:
            return None
        arity = max((int(index) for index in _KEYS_USED.findall(text)), default=0)
        return Script(names[0], arity, sha, "learned", "")

    def _learned_by(self, sha: str) -> Script | None:
        """A learned sha, if its name leaves one arity."""
        names = self._learned.get(sha.encode(), ())
        if len(names) != 1:
            return None  # nearly always: no sha of that kind was learned
        arities = {arity for name, arity in self._layouts if name in names}
        if len(arities) != 1:
            return None
        return Script(names[0], arities.pop(), sha, "learned", "")

    def _by_sha(self, sha: bytes, words: Sequence[Word]) -> Operation | None:
        known = self._lock_scripts.get(sha)
        if known is not None:
            call = with_its_keys(split(words), known.script)
            if call is None or len(call.keys) != known.script.arity or (known.added and not known.layout.fits(call)):
                return None
            read = known.recognise(known.script, known.layout, call)
            return read or recognise_unread(known.script, known.layout, call)
        names = self._learned.get(sha)
        if names is None:
            return None
        self._learned[sha] = self._learned.pop(sha)
        return self._by_names(names, sha, words)

    def _by_text(self, text: bytes, words: Sequence[Word]) -> Operation | None:
        sha = sha_of(text)
        if sha in self._lock_scripts or sha in self._learned:
            return self._by_sha(sha, words)
        if sha.decode() in self._scripts:
            return None
        return self._by_names(self._names(text), sha, words)

    def _by_names(self, names: Sequence[str], sha: bytes, words: Sequence[Word]) -> Operation | None:
        """The one reading on which all layouts agree that fit the call; None where none fits, or two disagree."""
        call = split(words) if names else None
        if call is None:
            return None
        found: list[Operation] = []
        for name in names:
            recogniser = FAMILIES.get(name)
            for layout in self._layouts.get((name, len(call.keys)), ()):
                if not layout.fits(call):
                    continue
                if recogniser is None:
                    return None
                script = Script(name, layout.arity, sha.decode(), "learned", "")
                operation = recogniser(script, layout, call) or recognise_unread(script, layout, call)
                if operation is None or (found and not agree(found[0], operation)):
                    return None
                found.append(operation)
        return found[-1] if found else None

    def _by_shape(self, name: bytes, code: bytes, words: Sequence[Word]) -> Operation | None:
        """Only where nobody knows the script: not its sha, and not the first line of its text."""
        if name != b"EVALSHA" and (name != b"EVAL" or self._names(code)):
            return None
        sha = code.lower() if name == b"EVALSHA" else sha_of(code)
        told = sha.decode("ascii", "replace")
        if sha in self._learned or told in self._scripts or not _SHA.match(told):
            return None
        return self._shapes.read(told, words)

    def _names(self, text: bytes) -> tuple[str, ...]:
        found = _HEADER.match(text)
        return self._headers.get(_header_hash(found[1]), ()) if found else ()

    def _add(self, own: UserScript) -> None:
        if own.sha in self._scripts:
            return
        script = Script(own.script, own.keys, own.sha, "catalogue", own.releases)
        self._scripts[own.sha] = script
        layout, recogniser = layout_of(own, self._layouts), FAMILIES.get(own.script)
        if layout is not None and recogniser is not None:
            self._lock_scripts[own.sha.encode()] = _Known(script, layout, recogniser, added=True)

    def _publish(self, row: _Published) -> None:
        script = Script(row.script, row.keys, row.sha, "catalogue", f"{row.first}-{row.last}")
        self._scripts[row.sha] = script
        recogniser = FAMILIES.get(row.script)
        if recogniser is None:
            return
        layout = layouts.in_range(self._layouts.get((row.script, row.keys), ()), row.first, row.last)
        if layout is not None:
            self._lock_scripts[row.sha.encode()] = _Known(script, layout, recogniser)


def _header_hash(line: bytes) -> str:
    normal = b" ".join(line.split()).lower()
    return hashlib.blake2b(normal, digest_size=8).hexdigest()


def _load_published() -> list[_Published]:
    raw = (files("emqproxy.scripts") / "data" / "catalogue.json").read_bytes()
    return msgspec.json.decode(raw, type=list[_Published])


@functools.cache
def _load_ours() -> tuple[_Published, ...]:
    """The texts of `lua/`, as if the release that they stand for had them too."""
    loaded = [texts.load(name) for name in texts.names()]
    return tuple(_Published(text.sha, text.script, text.arity, texts.RELEASE, texts.RELEASE) for text in loaded)


def _load_headers() -> dict[str, tuple[str, ...]]:
    """By the hash of a normalised header line: the names of the scripts that begin with it."""
    raw = (files("emqproxy.scripts") / "data" / "headers.json").read_bytes()
    found: dict[str, tuple[str, ...]] = {}
    for name, hashes in msgspec.json.decode(raw, type=dict[str, list[str]]).items():
        for header in hashes:
            found[header] = (*found.get(header, ()), name)
    return found
