"""What the workers of the end-to-end tests are made of: fetched with ordinary clients once a machine, then cached."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NODE, GO, REDIS_7 = HERE / "node", HERE / "go", HERE / "redis-7.txt"
FETCH_S, BUILD_S = 100, 400


@functools.cache
def node_packages() -> Path:
    """The folder whose `node_modules` holds what package-lock.json names."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed: the tests with npm bullmq cannot run")

    def fetch(into: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(NODE / name, into)
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], into)

    return _cached("node", [NODE / "package-lock.json"], fetch)


@functools.cache
def redis_7() -> Path:
    """A folder with redis-py 7, to stand before the environment's own on PYTHONPATH."""
    return python_packages("redis", REDIS_7)


def python_packages(name: str, requirements: Path) -> Path:
    """A folder of the wheels that `requirements` pins by hash; what the environment has of them stays as it is."""
    pip = [sys.executable, "-m", "pip"]
    if importlib.util.find_spec("pip") is None:
        found = shutil.which("pip3")
        if found is None:
            pytest.skip(f"no pip: the tests with another {name} cannot run")
        pip = [found]

    def fetch(into: Path) -> None:
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--disable-pip-version-check"]
        _run([*pip, "install", *options, "--target", str(into), "-r", str(requirements)], into)

    return _cached(name, [requirements], fetch)


@functools.cache
def go_worker() -> Path:
    """The worker of `go/`, built. What Go itself keeps stays in Go's own caches."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed: the tests with a worker on go-redis cannot run")
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}

    def build(into: Path) -> None:
        fetched = subprocess.run([go, "mod", "download"], cwd=GO, env=environment, capture_output=True, timeout=FETCH_S)
        if fetched.returncode:
            pytest.skip(f"Go's modules cannot be fetched: {fetched.stderr.decode(errors='replace')[-300:]}")
        # Unoptimised: the compiler takes half the time, and the worker waits for Redis anyway. The tests beside this
        # one come first.
        nice = ["nice", "-n", "19"] if shutil.which("nice") else []
        options = ["-p", "1", "-gcflags=all=-N -l", "-ldflags=-s -w"]
        command = [*nice, go, "build", *options, "-o", str(into / "worker"), "."]
        _run(command, GO, environment, BUILD_S)

    try:
        return _cached("go", sorted(GO.iterdir()), build) / "worker"
    except subprocess.TimeoutExpired as late:
        pytest.skip(f"Go did not make the worker in time: {late}")


def _cached(name: str, sources: Sequence[Path], make: Callable[[Path], None]) -> Path:
    """The folder that `make` filled, now or earlier: as long as the sources are the same, it is."""
    key = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "emqproxy"
    home = cache / f"e2e-{name}-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    with _file_lock(cache / f"{home.name}.lock"):
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                make(Path(scratch))
                Path(scratch).rename(home)
                Path(scratch).mkdir()  # for TemporaryDirectory to remove
    return home


def _run(command: list[str], folder: Path, env: dict[str, str] | None = None, timeout_s: float = FETCH_S) -> None:
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, f"{command}: {done.stdout[-500:]}{done.stderr[-1500:]}"


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
