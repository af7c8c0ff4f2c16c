"""The loader of lua/: what stands for an include, what is refused, that each script is what its name and top say."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from emqproxy.scripts import texts
from emqproxy.scripts.catalogue import Catalogue

LUA = Path(__file__).parent.parent.parent / "lua"
WANTED = {
    "moveToActive-11", "moveToFinished-14", "moveToDelayed-8", "moveStalledJobsToWait-8", "extendLock-2",
    "extendLocks-1", "retryJob-11", "moveToWaitingChildren-7", "moveJobFromActiveToWait-9", "releaseLock-1",
    "updateProgress-3", "addStandardJob-9", "addDelayedJob-6", "addPrioritizedJob-9", "addParentJob-6",
}  # fmt: skip


def assembled(files: dict[str, str], name: str = "a-1") -> str:
    def read(file: str) -> str:
        if file not in files:
            raise texts.TextError(f"{file}: not there")
        return files[file]

    return texts.assemble(name, read)


def test_an_include_stands_before_what_needs_it_and_once() -> None:
    files = {
        "a-1": 'top\n--- include "b"\n--- include "c"\nend',
        "includes/b": 'b above\n--- include "d"\nb below',
        "includes/c": 'c above\n--- include "d"\n--- include "b"\nc below',
        "includes/d": "d\n",
    }
    assert assembled(files) == "top\nb above\nd\nb below\nc above\nc below\nend\n"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a-1": '--- include "b"'}, "includes/b: not there"),
        ({}, "a-1: not there"),
        ({"a-1": '--- include "b"', "includes/b": '--- include "b"'}, "a-1 -> includes/b -> includes/b: .* circle"),
        (
            {"a-1": '--- include "b"', "includes/b": '--- include "c"', "includes/c": '--- include "b"'},
            "a-1 -> includes/b -> includes/c -> includes/b: .* circle",
        ),
        ({"a-1": '  --- include "b"'}, "a-1: .* a directive is written"),
        ({"a-1": '-- include "b"'}, "a-1: .* a directive is written"),
        ({"a-1": '--- @include "b"'}, "a-1: .* a directive is written"),
        ({"a-1": '--- include "b" -- why'}, "a-1: .* a directive is written"),
        ({"a-1": '--- include "../b"'}, "a-1: .* a directive is written"),
    ],
)
def test_what_cannot_be_put_together_is_refused(files: dict[str, str], says: str) -> None:
    with pytest.raises(texts.TextError, match=says):
        assembled(files)


@pytest.mark.parametrize("name", ["extendLock", "includes/lock", "../pyproject-1", "extendLock-2.lua", ""])
def test_only_a_name_with_its_arity_is_loaded(name: str) -> None:
    with pytest.raises(texts.TextError, match="not the name of a script"):
        texts.load(name)


def test_a_script_that_is_not_there_is_named() -> None:
    with pytest.raises(texts.TextError, match="extendLock-3: there is no such file in lua/"):
        texts.load("extendLock-3")


def test_all_scripts_are_there() -> None:
    assert set(texts.names()) == WANTED
    assert {path.stem for path in LUA.glob("*.lua")} == WANTED, "a checkout's own folder is read"


def test_no_include_is_left_over() -> None:
    used = {name for path in LUA.rglob("*.lua") for name in re.findall(r'--- include "(\w+)"', path.read_text())}
    assert used == {path.stem for path in LUA.glob("includes/*.lua")}


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_script_is_what_its_name_and_its_top_say(name: str) -> None:
    loaded = texts.load(name)
    assert f"{loaded.script}-{loaded.arity}" == name
    assert loaded.sha == hashlib.sha1(loaded.text.encode()).hexdigest()
    assert "--- include" not in loaded.text
    top = loaded.text.partition("local call")[0]
    assert re.search(r"^-- KEYS +1 ", top, re.MULTILINE)
    assert re.search(r"^-- ARGV +1 ", top, re.MULTILINE)
    assert re.search(r"^-- Output ", top, re.MULTILINE)
    assert max(int(number) for number in re.findall(r"KEYS\[(\d+)\]", loaded.text)) <= loaded.arity


@pytest.mark.parametrize("name", sorted(WANTED))
def test_the_catalogue_knows_it(name: str) -> None:
    loaded = texts.load(name)
    catalogue = Catalogue()
    script = catalogue.identify(loaded.text)
    assert script is not None
    assert (script.label, script.sha, script.match) == (name, loaded.sha, "catalogue")
    assert script.releases == "5.65.1-5.65.1"
    assert catalogue.identify(loaded.sha) == script
    assert loaded.sha in catalogue.ours
