"""An image without a Docker engine: built by buildah, and its root run as an engine would run it.

A `Container` is a process in a mount and a pid namespace of its own, its root the image's, mounted read-only; user,
environment, entry point and command are those of the image's own configuration. It has no capability and gains none.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.processes import Process, children, eventually

ROOT = Path(__file__).parent.parent.parent
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COMMANDS = ("buildah", "debootstrap", "unshare", "mount", "chroot")
LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "var/cache/debconf", "var/log", "usr/share/doc", "usr/share/man",
            "usr/share/locale", "usr/share/info")  # fmt: skip
"""Of a base: what slim images do not have either."""
INSIDE = """
set -e
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
mount -t proc -o ro proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" setpriv --reuid "$1" --regid "$2" --clear-groups \\
    --no-new-privs --inh-caps=-all --bounding-set=-all "${@:3}"
"""


def missing() -> str | None:
    """What this machine lacks for it, in words; None: nothing."""
    if os.geteuid() != 0:
        return "it needs root, for namespaces and mounts"
    lacking = [command for command in COMMANDS if shutil.which(command) is None]
    return f"not on PATH: {', '.join(lacking)}" if lacking else None


class Buildah:
    """buildah with a store of its own in `folder`: nothing of the machine's is touched."""

    def __init__(self, folder: Path) -> None:
        self._before = ["buildah", "--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self._folder = folder

    def __call__(self, *arguments: str, shown: bool = False) -> str:
        """Runs one of its commands: what it printed, unless that is to be `shown` as it comes."""
        environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
        run = subprocess.run([*self._before, *arguments], env=environment, text=True, stdout=None if shown else -1)
        if run.returncode:
            raise SystemExit(f"buildah {arguments[0]} ended with {run.returncode}")
        return (run.stdout or "").strip()

    def base(self, suite: str, cache: Path) -> str:
        """An image of Debian `suite` with its Python; kept as a tar file in `cache`: to make one takes minutes."""
        packed = cache / f"base-{suite}.tar"
        if not packed.exists():
            root = self._folder / "debian"
            include = "--include=python3-minimal,python3-venv,ca-certificates"
            subprocess.run(["debootstrap", "--variant=minbase", include, suite, str(root)], check=True, stdout=-3)
            for below in LEFT_OUT:
                shutil.rmtree(root / below, ignore_errors=True)
            cache.mkdir(parents=True, exist_ok=True)
            made = packed.with_suffix(f".{os.getpid()}")
            subprocess.run(["tar", "--create", "--file", str(made), "--directory", str(root), "."], check=True)
            made.rename(packed)
        container = self("from", "scratch")
        self("add", "--quiet", container, str(packed), "/")
        self("config", "--env", f"PATH={PATH}", container)
        self("commit", "--quiet", "--rm", container, "localhost/base")
        return "localhost/base"

    def build(self, base: str) -> str:
        """The project's image on `base`, as its Dockerfile says."""
        secret, volumes = pip_settings(self._folder)
        flags = [part for path in volumes for part in ("--volume", f"{path}:{path}:ro")]
        self("bud", "--format", "docker", "--isolation", "chroot", "--network", "host", *flags,
             "--build-arg", f"BASE={base}", "--secret", f"id=pip.conf,src={secret}",
             "--tag", "localhost/emqproxy", str(ROOT), shown=True)  # fmt: skip
        return "localhost/emqproxy"

    def inspect(self, image: str) -> dict[str, Any]:
        """Its configuration, as an engine reads it: Env, User, Entrypoint, Cmd, Healthcheck, Labels, ExposedPorts."""
        told = json.loads(self("inspect", "--type", "image", image))["Docker"]["config"]
        assert isinstance(told, dict)
        return told

    def layers(self, image: str) -> list[int]:
        """Bytes of each layer as a registry holds it, packed; the base's first."""
        folder = self._folder / "pushed"
        self("push", "--quiet", "--format", "oci", image, f"oci:{folder}:image")
        index = json.loads((folder / "index.json").read_text())
        digest = index["manifests"][0]["digest"].removeprefix("sha256:")
        manifest = json.loads((folder / "blobs" / "sha256" / digest).read_text())
        return [layer["size"] for layer in manifest["layers"]]

    def mounted(self, image: str) -> Path:
        """The image's root as a folder."""
        return Path(self("mount", self("from", image)))


def pip_settings(folder: Path) -> tuple[Path, list[str]]:
    """This machine's settings of pip as a file, and the paths that it names: the build's pip needs the same."""
    for pip in ([sys.executable, "-m", "pip"], ["pip3"]):  # an environment that uv made has none
        said = subprocess.run([*pip, "config", "list"], capture_output=True, text=True)
        if said.returncode == 0:
            break
    wanted = ("index-url", "extra-index-url", "find-links", "cert", "trusted-host", "proxy", "timeout")
    settings: dict[str, str] = {"cert": str(CERTIFICATES)} if CERTIFICATES.exists() else {}
    for line in said.stdout.splitlines():  # those that stand over others come last
        name, _, value = line.partition("=")
        if (key := name.rpartition(".")[2]) in wanted:
            settings[key] = value.strip("'\"")
    volumes = [settings[key] for key in ("cert", "find-links") if settings.get(key, "").startswith("/")]
    if "find-links" in settings and not Path(settings["find-links"]).exists():
        volumes.remove(settings.pop("find-links"))
    file = folder / "pip.conf"
    file.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
    return file, volumes


class Container(Process):
    """The image's entry point with its own command, or with `command`; or `program` in its place."""

    def __init__(self, root: Path, config: dict[str, Any], *command: str, program: str = "", **env: str) -> None:
        super().__init__()
        user, _, group = config["User"].partition(":")
        environment = dict(one.split("=", 1) for one in config["Env"]) | env
        words = [program, *command] if program else [*config["Entrypoint"], *(command or config["Cmd"])]
        inside = [str(root), user, group, "env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        self.lines: list[str] = []
        popen = self._spawn(
            ["unshare", "--mount", "--pid", "--fork", "bash", "-c", INSIDE, *inside, *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(popen,), daemon=True)
        self._reader.start()

    def _read(self, popen: subprocess.Popen[bytes]) -> None:
        assert popen.stdout is not None
        for data in popen.stdout:
            self.lines.append(data.decode(errors="replace").rstrip("\n"))

    @property
    def first(self) -> int:
        """The pid, as seen from here, of the namespace's first process: the one that an engine signals."""
        (found,) = eventually(lambda: list(children(self.pid)), what="the container's first process")
        return found

    def wait(self, timeout_s: float = 20.0) -> int:
        """Its exit code, once it has ended by itself."""
        assert self.popen is not None
        code = self.popen.wait(timeout_s)
        self._reader.join(5)
        return code

    def stop(self) -> None:
        if self.running:
            for pid in children(self.pid):  # with a namespace's first process all in it ends
                os.kill(pid, signal.SIGKILL)
            self.wait()
        super().stop()
        self._reader.join(5)
        if self.popen is not None and self.popen.stdout is not None:
            self.popen.stdout.close()
