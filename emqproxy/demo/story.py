"""The story itself: server, sidecar, worker; each journal line in words, and in the end whether all was seen."""

from __future__ import annotations

import datetime as dt
import http.client
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from emqproxy.demo.children import CannotStartError, Children, InterruptedDemo
from emqproxy.demo.server import find_server, free_ports, start_server
from emqproxy.demo.words import Line, Mood, Scene, missing
from emqproxy.demo.worker_plan import JOBS, LOCK_MS, PREFIX, QUEUE
from emqproxy.observer.ids import trace_id

CANNOT_START: Final = 3
INTERRUPTED: Final = 130
STORY_S: Final = 90.0
"""The longest the story may take on a slow machine; about 15 s is usual."""
_LOOK_S: Final = 0.05
_STYLES: Final[dict[Mood, str]] = {"plain": "", "good": "green", "warning": "yellow", "bad": "bold red"}


class Stage(NamedTuple):
    """Where everything is."""

    folder: Path
    server_port: int
    sidecar_port: int
    health_port: int

    @property
    def journal(self) -> Path:
        return self.folder / "journal.ndjson"


def main(otlp: str | None, keep: bool) -> int:
    """Tells the story; 0 if all of it was seen, 1 if not, 3 if it cannot start, 130 if interrupted.

    `otlp`: base URL of an OTLP/HTTP endpoint that is to get the spans. `keep`: leave all running until Ctrl-C.
    """
    out = Console(highlight=False, soft_wrap=True)
    try:
        with tempfile.TemporaryDirectory(prefix="emqproxy-demo-") as scratch, Children(Path(scratch)) as children:
            return _tell(out, children, Path(scratch), otlp, keep)
    except CannotStartError as error:
        print(f"emqproxy demo: {error}", file=sys.stderr)
        return CANNOT_START
    except InterruptedDemo:
        print("emqproxy demo: interrupted; everything it started has been stopped", file=sys.stderr)
        return INTERRUPTED


def _tell(out: Console, children: Children, folder: Path, otlp: str | None, keep: bool) -> int:
    if importlib.util.find_spec("bullmq") is None:
        raise CannotStartError("the demo's worker needs the package bullmq: pip install 'emqproxy[demo]'")
    find_server()
    stage = Stage(folder, *free_ports(3))
    program = start_server(children, stage.server_port, folder)
    _start_sidecar(children, stage, otlp)
    out.print(f"{program} on port {stage.server_port}; emqproxy before it on port {stage.sidecar_port}.")
    out.print(f"A worker takes three jobs through emqproxy, each under a lock of {LOCK_MS / 1000:.0f} s.\n")
    worker = children.start(
        "worker", [sys.executable, "-m", "emqproxy.demo.story_worker", str(stage.sidecar_port)], _environment()
    )
    lines = _follow(out, children, stage.journal, worker)
    absent = missing(lines)
    _sum_up(out, absent, otlp)
    if absent and worker.poll() not in (None, 0):
        out.print(f"\nThe worker said:\n{children.said('worker')}", markup=False)
    if keep:
        _keep(out, children, stage)
    return 1 if absent else 0


def _start_sidecar(children: Children, stage: Stage, otlp: str | None) -> None:
    argv = [sys.executable, "-m", "emqproxy", "run"]
    argv += [
        "--listen",
        f"tcp://127.0.0.1:{stage.sidecar_port}",
        "--upstream",
        f"redis://127.0.0.1:{stage.server_port}",
    ]
    argv += ["--journal", str(stage.journal), "--health", f"127.0.0.1:{stage.health_port}", "--admin", ""]
    environment = _environment()
    exporter = "none"
    if otlp is not None:
        exporter = "otlp"
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = otlp
        environment.pop("OTEL_SDK_DISABLED", None)
    environment["OTEL_TRACES_EXPORTER"] = exporter
    children.start("sidecar", argv, environment)
    children.wait_until(lambda: _is_ready(stage.health_port), "sidecar", 20)


def _environment() -> dict[str, str]:
    """Ours, less what would make another emqproxy of it than the one the story tells of."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EMQPROXY_")}


def _is_ready(port: int) -> bool:
    with suppress(OSError, http.client.HTTPException):
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            link.request("GET", "/readyz")
            return link.getresponse().status == 200
        finally:
            link.close()
    return False


def _follow(out: Console, children: Children, journal: Path, worker: subprocess.Popen[bytes]) -> list[Line]:
    """Prints the journal's lines in words as they come, until the worker has ended and its last line is there."""
    lines: list[Line] = []
    scene = Scene()
    read = 0
    until = time.monotonic() + STORY_S
    grace: float | None = None
    while time.monotonic() < until:
        text = journal.read_bytes()[read:] if journal.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        read += len(whole)
        for raw in whole.splitlines():
            line: Line = json.loads(raw)
            lines.append(line)
            _print_line(out, scene, line, str(lines[0]["time"]))
        if worker.poll() is not None:
            # The last lines may still be on their way through the observer.
            grace = grace or time.monotonic() + 3
            if not missing(lines) or time.monotonic() > grace:
                break
        children.pause(_LOOK_S)
    return lines


def _print_line(out: Console, scene: Scene, line: Line, first: str) -> None:
    sentence = scene.sentence(line)
    if sentence is None or line.get("job") not in JOBS:
        return
    begun, now = dt.datetime.fromisoformat(first), dt.datetime.fromisoformat(str(line["time"]))
    margin = f"{(now - begun).total_seconds():5.1f} s  {line['job']:8} "
    out.print(Text.assemble((margin, "dim"), (sentence.what, _STYLES[sentence.mood])))
    if sentence.why:
        out.print(Text(" " * len(margin) + sentence.why, "dim"))


def _sum_up(out: Console, absent: list[str], otlp: str | None) -> None:
    out.print()
    if absent:
        out.print("The story is NOT complete. Not seen: " + "; ".join(absent) + ".", style="bold red", markup=False)
    else:
        out.print(
            "What emqproxy saw on the wire: one job renewed in time, one renewed late, and one whose lock was lost, "
            "whose result was refused and which was done twice. Nothing in the worker or in Redis was changed for it."
        )
    out.print(f"\nTrace ids{', sent to ' + otlp if otlp else ' (give --otlp URL to send the spans)'}:", markup=False)
    for job in JOBS:
        key = f"{PREFIX}:{QUEUE}:{job}"
        out.print(f"  {key:18} {trace_id('', 0, key.encode()):032x}")


def _keep(out: Console, children: Children, stage: Stage) -> None:
    out.print(
        f"\nStill running, until you press Ctrl-C here:"
        f"\n  through emqproxy   redis://127.0.0.1:{stage.sidecar_port}   (point a worker at it)"
        f"\n  the server itself  redis://127.0.0.1:{stage.server_port}"
        f"\n  health             http://127.0.0.1:{stage.health_port}/readyz"
        f"\n  journal            {stage.journal}   (it goes when you stop)",
        markup=False,
    )
    while True:
        children.pause(_LOOK_S)
