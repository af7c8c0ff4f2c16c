"""One input on three roads: to a Redis directly, through our strict reader and gated session in process to a second,
and what should come of that to a third; then what each said and holds is compared.

- `raw` is given the bytes as they are.
- `gated` is given what the session lets through. Its judge refuses all that names CANARY and every wipe, and a part of
  the rest. So CANARY stands there for ever, in each database, or a command ran that nobody judged.
- `wanted` is given what the session should have let through: the bytes as they are, each refused command replaced by
  one whose answer is told from all others (PING with a number, or, inside MULTI, an unknown name with one). Its
  answers, our refusals put where these numbers stand, must be what the gated client is given; its keys must be the
  gated's.

Where nothing was refused and nothing closed, `raw` is `wanted`. The session of observe mode reads `raw`'s conversation.
"""

from __future__ import annotations

import contextlib
import random
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from emqproxy.session.exchange import Command
from emqproxy.session.gated import PLACEHOLDER, REJECTED_WHEN_QUEUEING, GatedSession
from emqproxy.wire.items import Piece
from tests.long.framing_checks import check_pairing, check_reader, cut
from tests.long.framing_inputs import CANARY
from tests.processes import RedisServer
from tests.proxy.wires import dial, drain, exactly, half_close
from tests.session.talk import words

OPTIONS: Final = {"enable-debug-command": "yes", "databases": "4", "loglevel": "warning"}
RESET: Final = b"""
local whole = 1
for db = 0, 3 do
  redis.call('SELECT', db)
  if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= 'whole' then whole = 0 end
  if redis.call('TTL', KEYS[1]) ~= -1 then whole = 0 end
  for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) end
  if redis.call('DBSIZE') > 0 then redis.call('FLUSHDB') end
  redis.call('MSET', KEYS[1], 'whole', 'whoami', db)
end
return whole
"""
_OF_ITS_OWN: Final = re.compile(rb"(?<=\$2\r\nid\r\n):\d+\r\n|\+\d+\.\d+ \[\d unix:[^\]]*\]")
"""A connection's number in HELLO's answer, a moment and a path in MONITOR's."""
_MARKED: Final = re.compile(
    rb"\*2\r\n\$4\r\npong\r\n\$\d+\r\nREFUSED-(\d+)-\r\n|\$\d+\r\nREFUSED-(\d+)-\r\n"
    rb"|-ERR unknown command 'REFUSED-(\d+)-'[^\r\n]*\r\n"
)
_OURS: Final = (b"-EMQPROXY refused %d\r\n", b":-6\r\n", b"*1\r\n$1\r\n7\r\n", b"*0\r\n", b"-EMQPROXY again %d\r\n")
_WIPES: Final = frozenset({b"FLUSHALL", b"FLUSHDB", b"SWAPDB"})
WRITTEN_AT_ONCE_BYTES: Final = 60_000
PROTOCOL_ERROR: Final = b"-ERR Protocol error"


class Recorded(GatedSession):
    """Remembers what went in each piece's place."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[tuple[Piece, bytes]] = []
        self.refusals: list[bytes] = []

    def _passed(self, piece: Piece, now: int, judge: Callable[[Command], bytes | None]) -> bytes:
        raw = super()._passed(piece, now, judge)
        self.passed.append((piece, raw))
        return raw

    def judged(self, command: Command) -> bytes | None:
        """All that could touch CANARY is refused, and a quarter of the rest."""
        named = any(word is not None and b"canary" in word for word in command.words)
        chance = zlib.crc32(b" ".join(word or b"" for word in command.words))
        if not named and command.name not in _WIPES and chance & 3:
            self.keep(command, words=True)
            return None
        answer = _OURS[chance % len(_OURS)]
        self.refusals.append(answer % len(self.refusals) if b"%" in answer else answer)
        return self.refusals[-1]

    @property
    def wanted(self) -> bytes:
        """What Redis should be given, the replacements told apart."""
        out, number = [], 0
        for piece, raw in self.passed:
            if raw is piece.raw or raw == b"":
                out.append(raw)
                continue
            mark = b"REFUSED-%d-" % number
            out.append(words("PING", mark) if raw == PLACEHOLDER else words(mark))
            assert raw in (PLACEHOLDER, REJECTED_WHEN_QUEUEING)
            number += 1
        return b"".join(out)


@dataclass(slots=True)
class Found:
    """What came of one input."""

    data: bytes
    kind: str = ""
    """In words: what we did, and what Redis did to it directly."""
    refused: int = 0
    died_directly: bool = False
    """CANARY did not outlive it on the direct road."""
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.kind}\n  sent {self.data[:2000]!r}\n" + "\n".join(f"  {fault}" for fault in self.faults)


class Road:
    """A server, its control connection, and one conversation after another."""

    def __init__(self) -> None:
        self.server = RedisServer(**OPTIONS)
        self._control = dial(self.server.socket_path)
        self._control.sendall(words("SCRIPT", "LOAD", RESET))
        self._sha = exactly(self._control, 47)[5:45]
        self._talk = self._control
        self.say(b"")
        self.heard()
        self.state()

    def stop(self) -> None:
        self._control.close()
        self.server.stop()

    def say(self, data: bytes, where: Path | int | None = None) -> None:
        """Begins a conversation: all of it, at once."""
        self._talk = dial(where or self.server.socket_path)
        with contextlib.suppress(ConnectionError):
            self._talk.sendall(data)
        half_close(self._talk)

    def heard(self) -> bytes:
        """All that is answered until it closes; then the keys are asked about."""
        with self._talk:
            said = drain(self._talk)
        self._control.sendall(words("DEBUG", "DIGEST") + words("EVALSHA", self._sha, 1, CANARY))
        return _OF_ITS_OWN.sub(lambda own: b":0\r\n" if own[0][:1] == b":" else b"+", said)

    def state(self) -> tuple[bytes, bool]:
        """The digest of all keys, and whether CANARY was whole; all is as in the beginning now."""
        answers = exactly(self._control, 43 + 4)
        return answers[1:41], answers[-3:] == b"1\r\n"


class Roads:
    """The servers of one input at a time. A context manager."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.raw, self.gated, self.wanted = self._road(), self._road(), self._road()

    def _road(self) -> Road:
        try:
            road = Road()
        except BaseException:
            self._stack.close()
            raise
        self._stack.callback(road.stop)
        return road

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def travel(self, data: bytes, rnd: random.Random) -> Found:
        """All three roads; pieces are cut by `rnd`."""
        *_, found = self.stages(data, rnd)
        assert found is not None
        return found

    def stages(self, data: bytes, rnd: random.Random) -> Iterator[Found | None]:
        """The same by turns, so that other servers may be spoken to while these work. The last has what was found."""
        found, session = Found(data), Recorded()
        parts = cut(data, rnd, rnd.choice((0, 0, 1, 2, 5))) if rnd.random() < 0.97 else _bytewise(data)
        self.raw.say(data)
        through = b"".join([session.from_client_judged(part, 1, session.judged) for part in parts])
        closed, found.refused = session.blinded, len(session.refusals)
        self.gated.say(through)
        apart = through != data or bool(session.refusals)
        if apart:
            self.wanted.say(session.wanted)
        faults = found.faults
        faults += check_reader(data, parts)
        yield None
        raw, said = self.raw.heard(), self.gated.heard()
        wanted = self.wanted.heard() if apart else raw
        faults += check_pairing(data, raw, rnd)
        given = b"".join([session.from_server_judged(part, 2)[0] for part in cut(said, rnd, rnd.randrange(4))])
        yield None
        wanted_digest, raw_whole = self.raw.state()
        digest, whole = self.gated.state()
        if apart:
            wanted_digest, _ = self.wanted.state()
        found.died_directly = not raw_whole
        expected = _swapped(wanted, session.refusals)
        if not whole:
            faults.append("a command ran that nobody judged: CANARY is not whole")
        if digest != wanted_digest:
            faults.append(f"other keys: {through!r}")
        if not (alike(given, expected) or (session.over and expected.startswith(given))):
            faults.append(f"{apart_at(given, expected)}; Redis got {through[:3000]!r}")
        begins = alike(raw[: len(wanted)], wanted) or dropped(raw, wanted, data)
        if closed is not None and not found.refused and not begins:
            faults.append(f"closed with {wanted!r}, where Redis says {raw!r}")
        found.kind = _kind(session, closed, raw, wanted)
        yield found


def _swapped(said: bytes, refusals: list[bytes]) -> bytes:
    return _MARKED.sub(lambda match: refusals[int(match[match.lastindex or 0])], said)


def apart_at(given: bytes, wanted: bytes) -> str:
    """Where, and what stands there."""
    at = next((place for place, (a, b) in enumerate(zip(given, wanted, strict=False)) if a != b), -1)
    at = min(len(given), len(wanted)) if at < 0 else at
    cut = slice(max(0, at - 300), at + 300)
    return f"{len(given)} and {len(wanted)} bytes are apart at {at}: given {given[cut]!r}, not {wanted[cut]!r}"


def alike(given: bytes, wanted: bytes) -> bool:
    """Who leaves all channels at once does so in the order of the server's hash seed. And Redis writes so much at once:
    when it finds then that we have half-closed, it drops what is left."""
    if given == wanted:
        return True
    if min(len(given), len(wanted)) > WRITTEN_AT_ONCE_BYTES and (given.startswith(wanted) or wanted.startswith(given)):
        return True
    return b"unsubscribe" in given and sorted(given.split(b"\r\n")) == sorted(wanted.split(b"\r\n"))


def dropped(raw: bytes, wanted: bytes, data: bytes) -> bool:
    """Redis closes on a request of HTTP at once, and drops what it had answered before."""
    return wanted.startswith(raw) and (b"POST" in data or b"Host:" in data)


def _kind(session: Recorded, closed: str | None, raw: bytes, wanted: bytes) -> str:
    ours = "passed"
    if closed is not None:
        ours = f"closed: {closed}"
    elif session.over:
        ours = f"not followed: {session.blinded}"
    if session.refusals:
        ours += ", after refusals" if closed else ", with refusals"
    theirs = "answered" if raw else "no answer"
    if PROTOCOL_ERROR in raw[-200:]:
        theirs = raw[raw.rindex(PROTOCOL_ERROR) + 1 : -2].decode(errors="replace").partition(", got")[0][:60]
    elif closed is not None and not session.refusals and len(raw) > len(wanted):
        theirs = "more answers"
    return f"{ours} | {theirs}"


def _bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))] if len(data) < 800 else [data]
