"""What can be imported from where: every name that a module promises is there, and has one home."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import emqproxy

# `__main__` modules run when they are imported.
MODULES = sorted(
    found.name for found in pkgutil.walk_packages(emqproxy.__path__, "emqproxy.") if not found.name.endswith("__main__")
)


NAMESAKES = {"Rule"}  # of reply counting (session.commands) and of return codes (scripts.release); may only shrink


@pytest.mark.parametrize("name", MODULES)
def test_a_module_can_be_imported_and_keeps_its_promises(name: str) -> None:
    module = importlib.import_module(name)
    promised = getattr(module, "__all__", [])
    assert promised == sorted(set(promised))
    assert [word for word in promised if not hasattr(module, word)] == []


def test_a_class_has_one_home_and_no_namesake() -> None:
    """So that `Session` means one thing in the whole house. The demo stands outside of it."""
    homes: dict[str, set[str]] = {}
    for name in (name for name in MODULES if not name.startswith("emqproxy.demo")):
        for word, value in vars(importlib.import_module(name)).items():
            if isinstance(value, type) and value.__module__ == name and not word.startswith("_"):
                homes.setdefault(word, set()).add(name)
    assert {word: where for word, where in homes.items() if len(where) > 1 and word not in NAMESAKES} == {}
