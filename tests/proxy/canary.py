"""A client that proves that each answer belongs to its question, and that what Redis acknowledged to it was done.

It asks in pipelines of changing length: an echo that was never asked before, a counter of its own one higher. When its
connection closes it comes back; what was then unanswered may have been done or not.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from pathlib import Path
from typing import Any

import hiredis

from tests.e2e.dialects import Wire
from tests.proxy.wires import dial


class Line(Wire):
    """To a port, or over a unix socket."""

    def __init__(self, where: int | Path) -> None:
        self._begin(dial(where))


class Canary:
    """`sing` until told to stop, in a thread of its own; then read `faults`, which must be empty."""

    def __init__(self, where: int | Path, name: str) -> None:
        self._where = where
        self._name = name
        self.key = f"canary:{name}"
        self.answers = 0
        self.disconnects = 0
        self.acknowledged = 0
        """The counter's last value that was answered."""
        self.unsure = 0
        """Increments asked for whose answers never came."""
        self.faults: list[str] = []

    def sing(self, stop: threading.Event, pause_s: float = 0.0) -> None:
        """Asks and asks, with a pause after each answer."""
        numbers = itertools.count()
        while not stop.is_set():
            try:
                wire = Line(self._where)
            except OSError:
                stop.wait(0.02)
                continue
            with contextlib.closing(wire):
                try:
                    while not stop.is_set():
                        self._verse(wire, next(numbers))
                        if pause_s:
                            stop.wait(pause_s)
                except (OSError, AssertionError):  # closed
                    self.disconnects += 1
                except hiredis.ProtocolError as error:
                    self.faults.append(f"{self._name}: {error}")
                    return

    def _verse(self, wire: Wire, number: int) -> None:
        count = 1 + number % 7
        asked: list[Any] = []
        for place in range(count):
            echo = f"{self._name}:{number}:{place}:" + "x" * ((number * 37) % 900)
            asked += [("ECHO", echo), ("INCR", self.key)]
        self.unsure += count
        wire.write(*asked)
        for words in asked:
            self._heard(words, wire.read())

    def _heard(self, words: tuple[str, str], answer: Any) -> None:
        self.answers += 1
        if words[0] == "ECHO":
            if answer != words[1].encode():
                self.faults.append(f"{self._name} asked {words[1][:40]}, was answered {answer!r:.60}")
        elif isinstance(answer, int) and self.acknowledged < answer <= self.acknowledged + self.unsure:
            self.unsure -= answer - self.acknowledged
            self.acknowledged = answer
        else:
            self.faults.append(f"{self._name} had {self.acknowledged} and {self.unsure} more, was answered {answer!r}")

    def check(self, stored: int) -> None:
        """What Redis has in the end: all that was acknowledged, and no more than was asked for."""
        if not self.acknowledged <= stored <= self.acknowledged + self.unsure:
            self.faults.append(
                f"{self._name}: acknowledged {self.acknowledged}, {self.unsure} open, Redis has {stored}"
            )
