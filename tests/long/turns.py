"""Scenes of two connections that speak by turns, each turn ending with an answer that only it can have."""

from __future__ import annotations

from collections.abc import Callable

from tests.long.steps import Conversation, Step
from tests.long.vocabulary import Voice
from tests.session.talk import words


class Turns:
    """Scenes of two connections, whose modes are known at each moment."""

    def __init__(self, said: Conversation, voice: Voice, calm: Callable[[], list[bytes]]) -> None:
        self._said, self._voice, self._calm, self._marks = said, voice, calm, 0
        self.scenes = (
            self._each, self._each, self._channel, self._watched, self._served, self._tracking, self._broadcast,
        )  # fmt: skip

    def _mark(self) -> bytes:
        self._marks += 1
        return b"turn %d.%d" % (self._marks, self._voice.rnd.randrange(1 << 30))

    def say(self, by: int, *sent: bytes) -> None:
        mark = self._mark()
        data = b"".join(sent) + words("PING", mark)
        self._said.classes["by turns"] = self._said.classes.get("by turns", 0) + len(sent)
        self._said.steps.append(Step(by, (data,), mark))

    def _each(self) -> None:
        for by in self._voice.rnd.sample((0, 1), 2):
            self.say(by, *self._calm())

    def _channel(self) -> None:
        """One subscribes, the other speaks to it, the first hears it and leaves."""
        channel = self._voice.prefix + b"ch"
        kind, speak = self._voice.rnd.choice((("", "PUBLISH"), ("P", "PUBLISH"), ("S", "SPUBLISH")))
        self.say(0, words(f"{kind}SUBSCRIBE", channel))
        self.say(1, *(words(speak, channel, self._voice.value()) for _ in range(self._voice.rnd.randint(1, 3))))
        self.say(0, words("PING", "still here"))
        self.say(0, words(f"{kind}UNSUBSCRIBE"))

    def _watched(self) -> None:
        """A transaction that stands open while the other writes: with EXEC's nil, or without."""
        key = self._voice.key("s")
        watch = self._voice.rnd.random() < 0.7
        if watch:
            self.say(0, words("WATCH", key))
        queued = words("GET", key) + words("INCR", self._voice.key("n"))
        self._said.steps.append(Step(0, (words("MULTI") + queued,), b"+QUEUED\r\n" * 2))
        self.say(1, words("SET", key, self._voice.value()))
        self.say(0, words("EXEC"))

    def _served(self) -> None:
        """One blocks, the other gives."""
        key, mark = self._voice.prefix + b"gift", self._mark()
        self._said.steps.append(Step(0, (words("BLPOP", key, 0) + words("PING", mark),)))
        self.say(1, words("RPUSH", key, self._voice.value()))
        self._said.steps.append(Step(0, (), mark))

    def _tracking(self) -> None:
        key = self._voice.key("s")
        self.say(0, words("CLIENT", "TRACKING", "ON"), words("GET", key))
        self.say(1, words("SET", key, "new"))
        self.say(0, words("CLIENT", "TRACKING", "OFF"))

    def _broadcast(self) -> None:
        self.say(0, words("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", self._voice.prefix))
        self.say(1, words("SET", self._voice.key("s"), "new"))
        self.say(0, words("CLIENT", "TRACKING", "OFF"))
