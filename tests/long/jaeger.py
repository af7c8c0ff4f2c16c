"""A Jaeger for the tests and for looking at traces, built once a machine: `python -m tests.long.jaeger`.

    --again    builds it though it is there

Needs Go; takes some ten minutes of processor time, and over a gigabyte in Go's caches. The binary stays in the
machine's cache, where tests/e2e/test_jaeger.py finds it. It has no page, as that is built apart; its APIs are complete.
What another has built does as well: $EMQPROXY_JAEGER names it. Without Go it says so and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.jaeger import VARIABLE, Jaeger, cached

PACKAGE = "github.com/jaegertracing/jaeger/cmd/jaeger"
VERSION = "v1.76.0"
"""The commit of Jaeger 2.13.0: the newest that Go takes by its module's path."""


def build(go: str, into: Path) -> None:
    """Builds it in a module of its own, as its own `replace` line keeps `go install` from taking it."""
    settings = {"GOWORK": "off", "GOFLAGS": "-mod=mod"}
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as scratch:
        for arguments in (
            ["mod", "init", "scratch"],
            ["get", "-tool", f"{PACKAGE}@{VERSION}"],
            ["build", "-ldflags=-s -w", "-o", "made", PACKAGE],
        ):
            print("go", *arguments, flush=True)
            subprocess.run([go, *arguments], cwd=scratch, env=os.environ | settings, check=True)
        Path(scratch, "made").rename(into)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true")
    again = parser.parse_args().again
    binary = cached()
    if again or not binary.exists():
        go = shutil.which("go")
        if go is None:
            print("Go is not on PATH: install it, or name a Jaeger 2 in $" + VARIABLE, file=sys.stderr)
            return 1
        try:
            build(go, binary)
        except subprocess.CalledProcessError as failed:
            print(f"go ended with {failed.returncode}: nothing was built", file=sys.stderr)
            return 1
    os.environ[VARIABLE] = str(binary)  # this one is tried, whatever is named
    with Jaeger() as jaeger:
        assert jaeger.services() == set()
    print(f"{binary} works: run tests/e2e/test_jaeger.py, or itself, and send spans to http://localhost:4318")
    return 0


if __name__ == "__main__":
    sys.exit(main())
