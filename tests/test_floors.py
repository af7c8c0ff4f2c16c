"""The only legal direction of imports (see the map in emqproxy/__init__.py), checked for every file."""

from __future__ import annotations

import pytest

from tests.floors import FLOORS, PACKAGE, Checker, sources

MODULES = dict(sources())
CHECKER = Checker(frozenset(MODULES))


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_import_goes_down(module: str) -> None:
    path = MODULES[module]
    assert CHECKER.complaints(module, path.read_text(), is_package=path.name == "__init__.py") == []


def test_every_row_of_the_table_is_somebody_s() -> None:
    homes = {module.removeprefix(PACKAGE).removeprefix(".").partition(".")[0] for module in MODULES}
    assert set(FLOORS) == homes


# ---------------------------------------------------------------- the checker itself


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("emqproxy.wire.frames", "import asyncio"),
        ("emqproxy.wire.frames", "import os.path"),
        ("emqproxy.wire.frames", "from time import monotonic_ns"),
        ("emqproxy.wire.frames", "import enum, logging"),
        ("emqproxy.wire.frames", "import hiredis"),
        ("emqproxy.wire.frames", "from emqproxy.locks.events import Window"),
        ("emqproxy.wire.frames", "from emqproxy.locks import events"),
        ("emqproxy.wire.frames", "from emqproxy import locks"),
        ("emqproxy.wire.frames", "from ..locks import events"),
        ("emqproxy.wire.frames", "from .. import session"),
        ("emqproxy.wire", "from ..locks.events import Window"),
        ("emqproxy.wire.frames", "def f():\n  import random"),
        ("emqproxy.wire.frames", "import typing\nif typing.TYPE_CHECKING:\n  import emqproxy.session.modes"),
        ("emqproxy.wire.frames", "import importlib\nimportlib.import_module('emqproxy.locks.events')"),
        ("emqproxy.wire.frames", "from importlib import import_module\nimport_module('socket')"),
        ("emqproxy.wire.frames", "__import__('ssl')"),
        ("emqproxy.wire.frames", "import importlib\nimportlib.import_module(name)"),
        ("emqproxy.wire.frames", "try:\n  import uvloop\nexcept ImportError:\n  pass"),
        ("emqproxy.locks.lease", "import emqproxy.wire.frames as f"),
        ("emqproxy.locks.lease", "from emqproxy.records import Record"),
        ("emqproxy.session.session", "from emqproxy.locks.events import Window"),
        ("emqproxy.session.session", "import emqproxy.proxy"),
        ("emqproxy.scripts.acquire", "from emqproxy.session.session import Session"),
        ("emqproxy.scripts.acquire", "from emqproxy.locks.ledger import LockLedger"),
        ("emqproxy.scripts.acquire", "from emqproxy.locks import ledger"),
        ("emqproxy.records", "from emqproxy.locks.ledger import LockLedger"),
        ("emqproxy.config", "from emqproxy import logs"),
        ("emqproxy.proxy.bus", "from emqproxy.observer import inbox"),
        ("emqproxy.proxy.bus", "import opentelemetry.trace"),
        ("emqproxy.proxy.relay", "from emqproxy.wire.frames import Frame"),
        ("emqproxy.observer.spans", "from emqproxy.proxy.bus import Bus"),
        ("emqproxy.observer.spans", "from emqproxy.locks.ledger import LockLedger"),
        ("emqproxy.observer.spans", "from emqproxy.scripts.catalogue import Catalogue"),
        ("emqproxy.observer.web", "import asyncio"),
        ("emqproxy.healthcheck", "from emqproxy.config import load"),
        ("emqproxy.logs", "from emqproxy.config import load"),
        ("emqproxy.newroom.x", "import enum"),
        ("emqproxy", "import emqproxy.cli"),
    ],
)
def test_the_checker_sees_it(module: str, source: str) -> None:
    modules = CHECKER.modules | {"emqproxy.locks.ledger", "emqproxy.session.modes", module}
    assert len(Checker(modules).complaints(module, source, is_package=module.count(".") == 1)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("emqproxy.wire.frames", "from __future__ import annotations\nimport enum, msgspec\nfrom . import replies"),
        ("emqproxy.wire.frames", "from emqproxy.wire.requests import x\nfrom emqproxy import wire"),
        ("emqproxy.scripts.acquire", "from emqproxy.session.exchange import Exchange\nimport msgspec.json"),
        ("emqproxy.proxy.server", "import asyncio, ssl, time, uvloop\nfrom emqproxy import __version__, logs"),
        ("emqproxy.observer.spans", "import threading\nfrom opentelemetry.sdk.trace import Tracer"),
    ],
)
def test_the_checker_lets_pass(module: str, source: str) -> None:
    assert CHECKER.complaints(module, source) == []


def test_the_checker_names_the_line() -> None:
    assert CHECKER.complaints("emqproxy.wire.frames", "import enum\n\nimport time") == [
        "emqproxy.wire.frames:3: must not import time"
    ]
