"""Stated causes held against true ones: the confusion table, and what was said that is not so.

A line that needs a cause is right if it is given the true one, or the word that covers it where nobody who only sees
the wire can tell (`truth.KIN`). It claims certainty if it is neither `unknown` nor `before_our_start`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tests.causes.recording import LATE, Key, Recorder
from tests.causes.truth import Expected

MODEST: Final = frozenset({"unknown", "before_our_start"})
FACTUAL: Final = frozenset({"expired_unswept", "retaken", "recovered_not_retaken"})
"""They say what can be seen and leave open why: where the true cause cannot be known, they are right."""
HEDGE: Final = "do not tell"
"""In a sentence that names two causes and claims neither."""


class Stated(NamedTuple):
    """A line, as far as it matters here."""

    key: Key
    cause: str | None
    because: str
    age_ms: float | None
    idle_ms: float | None
    note: str = ""
    still_ms: float = 0.0
    """For how long emqproxy itself stood still before, as it says: no age counts that."""


class Figures:
    """Of many worlds."""

    def __init__(self, tolerance_ms: float = 4.0) -> None:
        self.tolerance_ms = tolerance_ms
        self.table: dict[str, Counter[str]] = defaultdict(Counter)
        self.losses = self.decidable = self.right = self.wrong = self.figures = 0
        self._because: dict[tuple[str | None, str], str] = {}
        self.said: list[str] = []
        """What is not so."""

    @property
    def good(self) -> bool:
        """The target holds."""
        return not self.wrong and not self.figures and self.right >= 0.99 * self.decidable

    def add(self, stated: Iterable[Stated], recorder: Recorder, where: str) -> None:
        """One world."""
        self._because.clear()
        for line in stated:
            queue = recorder.expected.get(line.key)
            expected = queue.popleft() if queue else None
            if expected is None:
                if line.cause is not None:
                    self.wrong += 1
                    self.table["nothing"][line.cause] += 1
                    self.said.append(f"{where}: {line.key} nothing needs a cause: {line.cause}: {line.because}")
                continue
            self._judge(line, expected, where)
        for key, left in recorder.expected.items():
            for expected in left if key[0] not in recorder.unheard_of else ():
                if expected is not None and expected.decidable:
                    self._judge(Stated(key, None, "no such line", None, None), expected, where)

    def _judge(self, line: Stated, expected: Expected, where: str) -> None:
        cause, right = line.cause or "-", line.cause in expected.right
        if expected.cause == "renewal_late" and line.cause is None and self._excused(line, expected):
            return
        self.losses += 1
        self.table[expected.cause if expected.decidable else f"({expected.cause})"][cause] += 1
        if expected.decidable:
            self.decidable += 1
            self.right += right
        elif cause in FACTUAL or HEDGE in line.because:
            right = True
        if not right:
            honest = cause in FACTUAL or cause in MODEST or HEDGE in line.because
            self.wrong += not honest and cause != "-"
            word = "weak" if honest else "WRONG"
            self.said.append(f"{where}: {line.key} {word}: {expected}, said {cause}: {line.because} {line.note}")
            return
        incident = line.key[1], line.key[2]
        again, self._because[incident] = self._because.get(incident) == line.because, line.because
        if again:  # of one incident the sentence is the first's
            return
        for complaint in complaints(line, expected, self.tolerance_ms + line.still_ms):
            self.figures += 1
            self.said.append(f"{where}: {line.key} FIGURE {complaint}: {line.because}")


    def _excused(self, line: Stated, expected: Expected) -> bool:
        """Less what emqproxy stood still itself, the renewal may have been in time."""
        if not expected.decidable or expected.age_ms is None or expected.ttl_ms is None:
            return not expected.decidable
        return line.still_ms > 0 and expected.age_ms - line.still_ms - self.tolerance_ms <= LATE * expected.ttl_ms


def complaints(line: Stated, expected: Expected, tolerance_ms: float = 4.0) -> Iterator[str]:
    """Figures that are not as they truly were."""
    if expected.age_ms is not None and abs((line.age_ms or expected.age_ms) - expected.age_ms) > tolerance_ms:
        yield f"age {line.age_ms:.1f}, truly {expected.age_ms:.1f}"
    said = line.because
    for pattern, truly in (
        (r"said nothing for ([\d.]+ m?s)", expected.silence_ms),
        (r"under a lock of ([\d.]+ m?s)", expected.ttl_ms),
        (r"(?:came after|came for|came) ([\d.]+ m?s) (?:under|after the last)", expected.age_ms),
    ):
        if (found := re.search(pattern, said)) and truly is not None and not near(found[1], truly, tolerance_ms):
            yield f"{found[1]}, truly {truly:.1f} ms"
    if (found := re.search(r"it held ([^.]*)\.", said)) and expected.held is not None:
        named = tuple(re.sub(r" and \d+ more", "", found[1]).split(", "))
        if named != expected.held[: len(named)] or len(named) < min(5, len(expected.held)):
            yield f"it held {named}, truly {expected.held}"
    elif line.cause == "expired_worker_silent" and expected.held:
        yield f"no suspects, truly {expected.held}"


def near(told: str, truly_ms: float, tolerance_ms: float = 4.0) -> bool:
    """As it is read: to a tenth of a second, or a millisecond."""
    number, unit = told.split()
    if unit == "ms":
        return abs(float(number) - truly_ms) <= tolerance_ms + 0.5
    return abs(float(number) * 1000 - truly_ms) <= tolerance_ms + 50
