"""The house's style where a machine can see it. Each rule is a generator of complaints, tried on a bad sample too."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE_LINES_MAX = 300
FUNCTION_LINES_MAX = 60
LINE_CHARACTERS_MAX = 120
SLEEPS_MAX = 6
"""Fixed sleeps in all tests together, beside the loop of `processes.eventually`. May only shrink."""

# Put together here, so that this file does not break its own rules.
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "X" * 3]
MACHINES = [f"/{folder}/" for folder in ("work", "root", "home", "Users")]
REGISTRIES = [f"{name}.{domain}" for name, domain in [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org")]]

LEFT_OUT = {".git", ".venv", "node_modules", "__pycache__", "dist", "build"}
TOP = ["emqproxy", "tests", "config", "lua", ".ci"]
TEXTS = {".py", ".md", ".toml", ".lock", ".lua", ".json", ".js", ".mjs", ".go", ".yaml", ".yml", ".txt", ""}

UNMIRRORED = {
    # A file of declarations, or one that is tried through the module named beside it. This list may only shrink.
    "emqproxy/__main__.py",  # test_cli
    "emqproxy/commands.py",  # test_cli
    "emqproxy/command_errors.py",  # test_cli
    "emqproxy/config_sources.py",  # test_config
    "emqproxy/config_tables.py",  # test_config
    "emqproxy/config_values.py",  # test_config
    "emqproxy/records.py",  # structs only
    "emqproxy/lock_timeline.py",  # values only; test_timeline_drawing, test_journal_timeline
    "emqproxy/locks/events.py",  # structs only
    "emqproxy/locks/verdicts.py",  # structs and enums only
    "emqproxy/session/exchange.py",  # structs only
    "emqproxy/wire/frames.py",  # structs and limits only
    "emqproxy/wire/items.py",  # structs only; test_requests
    "emqproxy/demo/story_worker.py",  # test_story runs the whole demo as a user does: its worker
    "emqproxy/demo/plan.py",  # names and times only; test_expected and test_story
    "emqproxy/scripts/answers.py",  # test_acquire, test_renew, test_release: what every family's answers share
    "emqproxy/scripts/operation.py",  # structs and a protocol only
}


def files(suffixes: set[str] = TEXTS) -> Iterator[Path]:
    """What is committed, as far as a walk can tell: also where no git is."""
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in suffixes and path.name not in LEFT_OUT:  # .git is a file in a worktree
            yield path
    for top in TOP:
        for folder, below, names in os.walk(ROOT / top):
            below[:] = [name for name in below if name not in LEFT_OUT and not name.startswith(".")]
            yield from (Path(folder, name) for name in sorted(names) if Path(name).suffix in suffixes)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# ---------------------------------------------------------------- rules: (name of the file, its text) → complaints


def long_files(name: str, text: str) -> Iterator[str]:
    if name.endswith((".py", ".lua", ".mjs", ".js")) and (lines := text.count("\n")) > FILE_LINES_MAX:
        yield f"{name}: {lines} lines; a file past {FILE_LINES_MAX} has two subjects"


def long_functions(name: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)) if name.endswith(".py") else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines, {FUNCTION_LINES_MAX} fit a screen"


def long_lines_and_tabs(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1) if name.endswith((".py", ".lua", ".mjs", ".js")) else ():
        if len(line) > LINE_CHARACTERS_MAX:
            yield f"{name}:{number}: {len(line)} characters"
        if "\t" in line:
            yield f"{name}:{number}: a tab"
        if line != line.rstrip():
            yield f"{name}:{number}: blanks at the end"


def modules_without_docstring(name: str, text: str) -> Iterator[str]:
    if name.endswith(".py") and text and not ast.get_docstring(ast.parse(text)):
        yield f"{name}: a module opens with what it knows and what it must not know"


def unfinished(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(rf"\b({'|'.join(UNFINISHED)})\b", line) and not name.endswith((".lock", ".json")):
            yield f"{name}:{number}: write it, or file it"


def paths_of_a_machine(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if any(re.search(rf"(?<![\w.\-/]){machine}", line) for machine in MACHINES):
            yield f"{name}:{number}: a path that only one machine has"


def hosts_of_registries(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := next((host for host in REGISTRIES if host in line), None):
            yield f"{name}:{number}: names {found}; a package's client knows where to look"


RULES: list[tuple[Callable[[str, str], Iterator[str]], str, str]] = [
    (long_files, "a.py", "x = 1\n" * 301),
    (long_functions, "a.py", "def f():\n" + "    x = 1\n" * 60),
    (long_functions, "a.py", "class C:\n  async def f():\n" + "    x = 1\n" * 60),
    (long_lines_and_tabs, "a.py", "x" * 121),
    (long_lines_and_tabs, "a.py", "if x:\n\ty"),
    (long_lines_and_tabs, "a.py", "x = 1 "),
    (modules_without_docstring, "a.py", "x = 1"),
    (unfinished, "a.md", f"{UNFINISHED[0]}: more"),
    (paths_of_a_machine, "a.md", f"cd {MACHINES[0]}main"),
    (paths_of_a_machine, "a.md", f"see `{MACHINES[1]}.cache`"),
    (hosts_of_registries, "a.lock", f"https://files.{REGISTRIES[1]}/x"),
]


@pytest.mark.parametrize("rule", sorted({rule for rule, _, _ in RULES}, key=lambda rule: rule.__name__))
def test_the_house_is_tidy(rule: Callable[[str, str], Iterator[str]]) -> None:
    found = [complaint for path in files() for complaint in rule(shown(path), path.read_text())]
    assert found == []


@pytest.mark.parametrize(("rule", "name", "bad"), RULES)
def test_the_rule_sees_it(rule: Callable[[str, str], Iterator[str]], name: str, bad: str) -> None:
    assert list(rule(name, bad))


def test_the_walk_sees_every_room() -> None:
    names = {shown(path) for path in files()}
    assert {"pyproject.toml", "emqproxy/locks/events.py", "tests/test_tidy.py", ".ci/run"} <= names


def test_tests_mirror_the_house() -> None:
    missing = set()
    for path in (ROOT / "emqproxy").rglob("*.py"):
        below = path.relative_to(ROOT / "emqproxy")
        mirror = ROOT / "tests" / below.parent / f"test_{below.name}"
        if path.name != "__init__.py" and not mirror.exists():
            missing.add(shown(path))
    assert missing == UNMIRRORED


def test_tests_wait_for_events_and_hardly_ever_sleep() -> None:
    fixed = re.compile(r"\bsleep\((?!0\))[\d.]+\)")
    found = [
        f"{shown(path)}:{number}"
        for path in files({".py"})
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if path.is_relative_to(ROOT / "tests") and fixed.search(line)
    ]
    assert len(found) <= SLEEPS_MAX, found
