"""The container image, built and run for real without a Docker engine: `python -m tests.long.image`.

    --suite NAME   of Debian, for the base (trixie: the Python of the Dockerfile's default)
    --keep FOLDER  works there and leaves the image's store behind
    --starts N     how often its start is timed (5)

Needs root and Debian's packages buildah, debootstrap and util-linux; else it says what is missing and ends with exit
code 0. Builds the Dockerfile on a base of its own making, then runs what came of it as an engine would: the image's
user, environment and command, a root that nobody can write to, no capabilities. A real Redis stands behind it, a real
worker before it. Prints sizes and times; exit code 1 where anything is not as promised.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.peers import Peer, produce
from tests.long.image_tools import Buildah, Container, missing
from tests.processes import LOOPBACK, RedisServer, eventually, free_port, http_get

JOBS = 20
UID = 65532
WRITES = """
import errno, os, sys
for folder in ("/", "/tmp", "/opt/emqproxy", "/var/tmp", "/run"):
    try:
        open(os.path.join(folder, "written"), "w")
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            sys.exit(f"{folder}: {error}")
    else:
        sys.exit(f"{folder} can be written to")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="trixie")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    if lacks := missing():
        print(f"skipped: {lacks}")
        return 0
    with folder(options.keep) as below:
        buildah = Buildah(below)
        began = time.monotonic()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "emqproxy"
        base = buildah.base(options.suite, cache)
        based = time.monotonic()
        image = buildah.build(base)
        built = time.monotonic()
        config = buildah.inspect(image)
        *underneath, own = buildah.layers(image)
        print(f"base: {based - began:.0f} s; build: {built - based:.0f} s; {json.dumps(config['Labels'])}")
        print(f"packed layers: base {sum(underneath) / 1e6:.1f} MB, emqproxy {own / 1e6:.1f} MB")
        root = buildah.mounted(image)
        print(f"unpacked: {used(root) / 1e6:.1f} MB, emqproxy {used(root / 'opt' / 'emqproxy') / 1e6:.1f} MB of it")
        try:
            check(root, config, options.starts)
        except AssertionError as error:
            print(f"not as promised: {error}")
            return 1
    return 0


@contextlib.contextmanager
def folder(kept: Path | None) -> Iterator[Path]:
    """Where all of it is put."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="emq-image-", ignore_cleanup_errors=True) as made:
        try:
            yield Path(made)
        finally:
            Buildah(Path(made))("umount", "--all")


def used(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def check(root: Path, config: dict[str, Any], starts: int) -> None:
    """All that the image promises; AssertionError where it does not hold."""
    assert config["User"] == f"{UID}:{UID}", config["User"]
    assert set(config["ExposedPorts"]) == {"6380/tcp", "9464/tcp", "9465/tcp"}
    with RedisServer() as redis:
        times = [started(root, config, redis) for _ in range(starts)]
        print(f"start to ready: {statistics.median(times):.2f} s ({min(times):.2f}-{max(times):.2f}, {starts} starts)")
        worked(root, config, redis)
    assert healthcheck(root, config, free_port()) == 1, "HEALTHCHECK of nothing says that it is healthy"


def ports(redis: RedisServer) -> tuple[int, int, int, dict[str, str]]:
    """Free ones for data, health and admin, and the environment that sets them."""
    data, health, admin = free_port(), free_port(), free_port()
    return data, health, admin, {
        "EMQPROXY_LISTEN": f"tcp://{LOOPBACK}:{data}", "EMQPROXY_HEALTH": f"{LOOPBACK}:{health}",
        "EMQPROXY_OBSERVER__ADMIN": f"{LOOPBACK}:{admin}", "EMQPROXY_OBSERVER__JOURNAL": "-",
        "EMQPROXY_UPSTREAM": redis.url, "OTEL_TRACES_EXPORTER": "none",
    }  # fmt: skip


def ready(container: Container, port: int) -> bool:
    """Whether it is; AssertionError with its last words where it has ended."""
    assert container.running, f"it ended: {container.lines[-5:]}"
    return http_get(port, "/readyz")[0] == 200


def started(root: Path, config: dict[str, Any], redis: RedisServer) -> float:
    """Seconds from its start until it is ready."""
    _, health, _, environment = ports(redis)
    began = time.monotonic()
    with Container(root, config, **environment) as container:
        eventually(lambda: ready(container, health), 30)
        took = time.monotonic() - began
        os.kill(container.first, signal.SIGTERM)
        assert (code := container.wait()) == 0, f"SIGTERM: exit code {code}, {container.lines[-5:]}"
    return took


def healthcheck(root: Path, config: dict[str, Any], port: int) -> int:
    """The exit code of the image's own HEALTHCHECK, run inside it."""
    kind, program, *words = config["Healthcheck"]["Test"]
    assert kind == "CMD"
    with Container(root, config, *words, program=program, EMQPROXY_HEALTH=f"{LOOPBACK}:{port}") as probe:
        return probe.wait()


def worked(root: Path, config: dict[str, Any], redis: RedisServer) -> None:
    """A worker and a producer speak through it; it is healthy, may do nothing, and tells of every job."""
    data, health, admin, environment = ports(redis)
    with Container(root, config, **environment) as container:
        eventually(lambda: ready(container, health), 30)
        assert healthcheck(root, config, health) == 0, "HEALTHCHECK fails while it is ready"
        bound(container.first)
        with Container(root, config, "-c", WRITES, program="python") as writer:
            assert writer.wait() == 0, writer.lines
        shared = {"port": data, "queue": "image", "prefix": "bull"}
        worker = Peer("python", "worker", {**shared, "options": {"lockDuration": 2000, "lockRenewTime": 500}})
        try:
            worker.wait(event="ready")
            jobs = [{"name": "nap", "data": {"ms": 700}} for _ in range(JOBS)]
            ids = produce("python", {**shared, "jobs": jobs})
            worker.wait(JOBS, event="completed")
            worker.close()
        finally:
            worker.end()
        page = http_get(admin, "/metrics")[1].decode()
        assert 'emq_lock_renewals_total{' in page, page[:300]
        os.kill(container.first, signal.SIGTERM)
        assert (code := container.wait()) == 0, f"SIGTERM: exit code {code}, {container.lines[-5:]}"
    told = [json.loads(line) for line in container.lines if line.startswith("{")]
    finished = {line.get("job") for line in told if line.get("op") == "finish" and line.get("outcome") == "ok"}
    assert finished == set(ids), f"{len(finished)} of {len(ids)} jobs were told of"
    renewed = sum(line.get("op") == "renew" for line in told)
    assert renewed >= JOBS // 2, f"{renewed} renewals were told of"
    print(f"a worker through it: {JOBS} jobs, {renewed} renewals, all told; SIGTERM: exit code 0")


def bound(pid: int) -> None:
    """It is nobody, can do nothing, and will gain nothing."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert set(status["Uid"].split()) | set(status["Gid"].split()) == {str(UID)}, status["Uid"]
    assert all(int(status[f"Cap{which}"], 16) == 0 for which in ("Eff", "Prm", "Bnd", "Inh")), "it has capabilities"
    assert status["NoNewPrivs"] == "1"
    mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    root = next(mount for mount in mounts if mount[4] == "/")
    assert "ro" in root[5].split(","), root


if __name__ == "__main__":
    sys.exit(main())
