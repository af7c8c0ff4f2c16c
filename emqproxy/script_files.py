"""Script texts on disk: a package's folder or archive, a folder of .lua files, one of them; and the user's catalogue.

Knows files, archives and the names that packages give to theirs; of scripts nothing. Nothing that is found is run.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, TypeVar

from emqproxy.scripts.javascript import NotReadableError, read_scripts
from emqproxy.scripts.user_catalogue import CatalogueError, Text, UserScript, decode, encode

T = TypeVar("T")

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
FILES_MAX: Final = 20_000
"""Of those that may hold a script, in all that was given."""
ARCHIVE_ENTRIES_MAX: Final = 200_000

_ARCHIVES: Final = (".whl", ".zip", ".tgz", ".tar.gz")
_MODULE: Final = re.compile(r"(?:^|/)scripts/[\w.-]+-\d+\.(?:js|cjs|mjs)$")
_LUA: Final = re.compile(r"(?:^|/)([\w.-]+)\.lua$")
_NAMED: Final = re.compile(r"(\w+)-(\d{1,3})")
_LEFT_OUT: Final = frozenset((".git", "__pycache__", "includes"))
"""Folders. What lies in `includes` is put into scripts when a package is built, and is none itself."""


class FilesError(Exception):
    """One line that names the path and says what to write instead."""


class Found(NamedTuple):
    """What lies in a path."""

    texts: list[Text]
    unreadable: list[str]
    """Files that should hold a script and do not, one line each."""


_Files = Iterable[tuple[PurePosixPath, bytes]]


def find(path: str) -> Found:
    """All script texts in a file, a folder or an archive, at any depth. Raises FilesError, also where there is none."""
    try:
        if Path(path).is_dir():
            files = list(_in_folder(Path(path)))
        elif path.endswith(_ARCHIVES):
            files = list(_in_archive(path))
        else:
            files = [(PurePosixPath(Path(path).name), _read(Path(path)))]
    except OSError as error:
        raise FilesError(f"PATH: {path}: {error.strerror or error}; write the path of {_WHAT}") from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise FilesError(
            f"PATH: {path}: not an archive that can be read ({error}); write the path of {_WHAT}"
        ) from None
    found = _texts(files)
    if not found.texts and not found.unreadable:
        raise FilesError(f"PATH: {path}: no scripts in it; write the path of {_WHAT}")
    return found


_WHAT: Final = "an npm or Python package, its .tgz or .whl, a folder of .lua files, or one of them"


def load_catalogue(file: str) -> list[UserScript]:
    """The rows of a user's catalogue; none where `file` is empty. Raises FilesError."""
    if not file:
        return []
    try:
        return decode(_read(Path(file)))
    except OSError as error:
        raise FilesError(
            f"scripts.catalogue: {file}: {error.strerror or error}; write the path of a file that emqproxy scripts "
            'add has made, or "" for none'
        ) from None
    except CatalogueError as error:
        raise FilesError(f"scripts.catalogue: {file}: {error}") from None


def save_catalogue(file: str, scripts: Iterable[UserScript]) -> None:
    """Replaces the file in one step: whoever reads it sees the old one or the new one. Raises FilesError."""
    target = os.path.realpath(file)
    scratch = ""
    try:
        mode = os.stat(target).st_mode & 0o7777 if os.path.exists(target) else 0o644
        handle, scratch = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
        with os.fdopen(handle, "wb") as out:
            out.write(encode(scripts))
            out.flush()
            os.fsync(out.fileno())
        os.chmod(scratch, mode)
        os.replace(scratch, target)
    except OSError as error:
        if scratch and os.path.exists(scratch):
            os.unlink(scratch)
        raise FilesError(
            f"--catalogue: cannot write {file}: {error.strerror or error}; write a file's path in a directory that "
            "may be written"
        ) from None


# ---------------------------------------------------------------- files


def _is_wanted(name: PurePosixPath) -> bool:
    told = name.as_posix()
    return name.name == "package.json" or bool(_MODULE.search(told) or _LUA.search(told))


def _read(path: Path) -> bytes:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise OSError(0, f"larger than {FILE_BYTES_MAX} bytes")
    return path.read_bytes()


def _in_folder(top: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    count = 0
    for folder, below, names in os.walk(top):
        below[:] = sorted(name for name in below if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(folder, name)
            # With the top's own name: `scripts/x-2.js` is one, wherever one stands.
            shown = PurePosixPath(top.absolute().name, *path.relative_to(top).parts)
            if not _is_wanted(shown) or not path.is_file():
                continue
            count += name != "package.json"
            if count > FILES_MAX:
                raise OSError(0, f"more than {FILES_MAX} files of scripts")
            yield shown, _read(path)


def _in_archive(path: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Members are read where they lie; nothing is written, so no name of one can lead elsewhere."""
    if path.endswith((".whl", ".zip")):
        with zipfile.ZipFile(path) as archive:
            for info in _bounded(archive.infolist()):
                name = PurePosixPath(info.filename)
                if not info.is_dir() and _is_archived(name, info.file_size):
                    yield name, archive.read(info)
        return
    with tarfile.open(path, "r:gz") as archive:
        for member in _bounded(archive):
            name = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isfile() and _is_archived(name, member.size) else None
            if content is not None:
                yield name, content.read()


def _is_archived(name: PurePosixPath, size: int) -> bool:
    if not _is_wanted(name) or _LEFT_OUT & set(name.parts):
        return False
    if size > FILE_BYTES_MAX:
        raise OSError(0, f"{name.name} in it is larger than {FILE_BYTES_MAX} bytes")
    return True


def _bounded(entries: Iterable[T]) -> Iterator[T]:
    for count, entry in enumerate(entries):
        if count >= ARCHIVE_ENTRIES_MAX:
            raise OSError(0, f"more than {ARCHIVE_ENTRIES_MAX} entries")
        yield entry


# ---------------------------------------------------------------- texts


def _texts(files: _Files) -> Found:
    found, lua = Found([], []), []
    releases: dict[PurePosixPath, str] = {}
    modules: list[tuple[PurePosixPath, bytes]] = []
    for name, data in files:
        if name.name == "package.json":
            releases[name.parent] = _release(data)
        elif name.suffix == ".lua":
            lua.append((name, data))
        else:
            modules.append((name, data))
    built = set()
    """Where a package keeps its built modules: .lua files beside those are what they were built from."""
    for name, data in modules:
        built.add(name.parent.parent.parent)
        try:
            scripts = read_scripts(data.decode())
        except (NotReadableError, UnicodeDecodeError) as error:
            why = error if isinstance(error, NotReadableError) else "not UTF-8"
            found.unreadable.append(f"{name}: {why}; left out")
            continue
        found.texts.extend(Text(s.name, s.keys, s.text, _of(name, releases), str(name)) for s in scripts)
        if not scripts:
            found.unreadable.append(f"{name}: no script in it; left out")
    for name, data in lua:
        if name.parent.parent.parent not in built:
            told = _NAMED.fullmatch(name.stem)
            script, keys = (told[1], int(told[2])) if told else ("", None)
            found.texts.append(Text(script, keys, data, _of(name, releases), str(name)))
    return found


def _of(name: PurePosixPath, releases: dict[PurePosixPath, str]) -> str:
    """The release of the nearest package around a file."""
    return next((releases[folder] for folder in name.parents if releases.get(folder)), "")


def _release(data: bytes) -> str:
    """Of bullmq's own package.json; releases of others are none of its."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    ours = isinstance(told, dict) and told.get("name") == "bullmq" and isinstance(told.get("version"), str)
    return str(told["version"]) if ours else ""
