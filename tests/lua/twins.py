"""Pairs of databases of one Redis that live through the same, one with the released scripts and one with ours.

One server, so that time and the hash seed are the same for both. Compared after every step are the reply and the whole
keyspace: types, values, the order of lists, of fields and of members with equal scores, and when each key expires.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import hiredis

from tests.lua.calls import Call, Word
from tests.lua.queues import Queues, unpacked
from tests.processes import RedisServer

EXPIRY_APART_MS_MAX: Final = 40_000
"""Far more than a busy machine needs between two calls; times to live that are used lie further apart."""
PATIENCE_S: Final = 20
LANES: Final = 8
"""How many pairs of databases there are."""
SPARE_DB: Final = 2 * LANES
"""Compared with nothing."""
OPTIONS: Final = {
    # One event a node: MAXLEN ~ trims at nodes only, and what is trimmed shall be seen.
    "stream-node-max-entries": "1", "databases": str(SPARE_DB + 1),
    # Fields stand in the order in which they were written.
    "hash-max-listpack-value": "1000000", "hash-max-listpack-entries": "100000",
}  # fmt: skip
SNAPSHOT: Final = """
local function read(db)
  redis.call("SELECT", db)
  local keys = redis.call("KEYS", "*")
  table.sort(keys)
  local values, expiries = {}, {}
  for i, key in ipairs(keys) do
    local kind, value = redis.call("TYPE", key).ok, nil
    if kind == "string" then value = redis.call("GET", key)
    elseif kind == "list" then value = redis.call("LRANGE", key, 0, -1)
    elseif kind == "hash" then value = cmsgpack.pack(redis.call("HGETALL", key)) -- seldom looked into
    elseif kind == "zset" then value = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
    elseif kind == "set" then
      value = redis.call("SMEMBERS", key)
      table.sort(value)
    else -- The ids of a stream's entries are times. What stands further back was compared when it was new.
      value = redis.call("XREVRANGE", key, "+", "-", "COUNT", 12)
      for n, entry in ipairs(value) do value[n] = entry[2] end
      value[#value + 1] = redis.call("XLEN", key)
      value = cmsgpack.pack(value)
    end
    values[3 * i - 2], values[3 * i - 1], values[3 * i] = key, kind, value
    expiries[i] = redis.call("PEXPIRETIME", key)
  end
  return values, expiries
end
local theirs, their_expiries = read(ARGV[1])
local ours, our_expiries = read(ARGV[2])
if cmsgpack.pack(ours) == cmsgpack.pack(theirs) then ours = 0 end
return {theirs, their_expiries, ours, our_expiries}
"""


class ServerFaultError(AssertionError):
    """The server did not answer, or said what no script says."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to both databases: first commands, then at most one call of a script."""

    label: str
    before: Sequence[Sequence[Word]] = ()
    call: Call | None = None


@dataclass(slots=True)
class Outcome:
    """What a step came to. `theirs` is the released scripts' reply."""

    theirs: Any
    ours: Any
    queues: Queues
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same. `where` is `reply`, a key, or a key and ` expires`."""

    script: str
    where: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.where}\n      released {self.theirs!r}\n      ours     {self.ours!r}"


Texts = Mapping[str, str]


class Twins:
    """A context manager. `ours` may lack scripts: where one is missing, the released one plays both parts."""

    def __init__(self, theirs: Texts, ours: Texts, options: Texts = OPTIONS) -> None:
        self.server = RedisServer(None, None, **options)
        try:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(PATIENCE_S)
            self._socket.connect(str(self.server.socket_path))
            self._reader = hiredis.Reader()
            (snapshot,) = self.ask([("SCRIPT", "LOAD", SNAPSHOT)])
            self._snapshot = ("EVALSHA", snapshot, 0)
            self._texts = (dict(theirs), {**theirs, **ours})
            self._theirs, self._ours = ({name: self.load(text) for name, text in side.items()} for side in self._texts)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self.server.stop()

    def load(self, text: str) -> bytes:
        """A text's sha. Raises ServerFaultError where it does not compile."""
        (sha,) = self.ask([("SCRIPT", "LOAD", text)])
        if not isinstance(sha, bytes):
            raise ServerFaultError(str(sha))
        return sha

    def shas(self, *, ours: bool) -> dict[str, bytes]:
        """Name with arity → the sha of the text that is run for it."""
        return self._ours if ours else self._theirs

    def replace(self, name: str, text: str | None) -> None:
        """From now on, this is our text of a script; None: the released one."""
        self._texts[1][name] = self._texts[0][name] if text is None else text
        self._ours[name] = self.load(self._texts[1][name])

    @contextmanager
    def before_each_text(self, lead: str) -> Iterator[None]:
        """Within it, each text of both sides has this before it."""
        kept = self._theirs, self._ours
        self._theirs, self._ours = (
            {name: self.load(lead + text) for name, text in side.items()} for side in self._texts
        )
        try:
            yield
        finally:
            self._theirs, self._ours = kept

    def fresh(self) -> None:
        """Both databases empty."""
        self.ask([("FLUSHALL",)])

    def step(self, step: Step) -> Outcome:
        """Does it to both databases of the first lane, and compares. Raises ServerFaultError."""
        return self.steps([(0, step)])[0]

    def steps(self, lanes: Sequence[tuple[int, Step]]) -> list[Outcome]:
        """One step in each of some lanes, all in one go: what costs time is waiting for the server's turn."""
        commands: list[Sequence[Word]] = []
        for lane, step in lanes:
            for db, shas in ((2 * lane, self._theirs), (2 * lane + 1, self._ours)):
                commands += [("SELECT", db), *step.before]
                if (call := step.call) is not None:
                    commands.append(("EVALSHA", shas[call.script], len(call.keys), *call.keys, *call.argv))
            commands.append((*self._snapshot, 2 * lane, 2 * lane + 1))
        replies = iter(self.ask(commands))
        return [self._outcome(step, replies) for _, step in lanes]

    def _outcome(self, step: Step, replies: Iterator[Any]) -> Outcome:
        script, answers = step.call.script if step.call is not None else "", []
        rest = []
        for _ in ("theirs", "ours"):
            rest += [next(replies) for _ in range(1 + len(step.before))]
            answers.append(next(replies) if step.call is not None else None)
        shot = next(replies)
        for reply in (*rest, shot):
            if _is_error(reply):
                raise ServerFaultError(f"{step.label}: {reply}")
        theirs, ours = answers
        differences = [] if _alike(script, theirs, ours) else [Difference(script, "reply", theirs, ours)]
        differences += _apart(script, *shot)
        return Outcome(theirs, ours, Queues(shot[0]), differences)

    def ask(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """The replies to some commands; an error is a value."""
        return self._exchange(b"".join(hiredis.pack_command(tuple(words)) for words in commands), len(commands))

    def _exchange(self, commands: bytes, count: int) -> list[Any]:
        try:
            self._socket.sendall(commands)
            replies: list[Any] = []
            while len(replies) < count:
                while (reply := self._reader.gets()) is not False:
                    replies.append(reply)
                if len(replies) < count:
                    data = self._socket.recv(1 << 20)
                    if not data:
                        raise ServerFaultError("the server closed the connection")
                    self._reader.feed(data)
            return replies
        except TimeoutError:
            raise ServerFaultError(f"no answer within {PATIENCE_S} s") from None


def _is_error(reply: object) -> bool:
    return isinstance(reply, hiredis.ReplyError)


def _alike(script: str, theirs: Any, ours: Any) -> bool:
    """Times to live may lie a little apart; of an error only the kind counts, as the rest names the text's lines."""
    if theirs == ours and type(theirs) is type(ours):
        return True
    if _is_error(theirs) and _is_error(ours):
        return _kind(theirs) == _kind(ours)
    if script == "moveJobFromActiveToWait-9":
        return _near(theirs, ours)
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours) == 4:
        return theirs[:2] + theirs[3:] == ours[:2] + ours[3:] and _near(theirs[2], ours[2])
    return False


def _kind(error: object) -> str:
    """`WRONGTYPE`, or where it is the script itself that failed, that."""
    word = str(error).split(" ", 1)[0]
    return "ERR in a script" if re.match(r"(ERR|user_script)", word) else word


def _near(theirs: Any, ours: Any) -> bool:
    if not isinstance(theirs, int) or not isinstance(ours, int):
        return False
    return (theirs > 0) == (ours > 0) and abs(theirs - ours) <= EXPIRY_APART_MS_MAX and min(theirs, ours) >= 0


def _apart(script: str, theirs: list[Any], expire: list[int], ours: Any, our_expire: list[int]) -> Iterator[Difference]:
    if ours == 0:
        for name, end, our_end in zip(theirs[::3], expire, our_expire, strict=True):
            if end != our_end and not (end > 0 and our_end > 0 and abs(end - our_end) <= EXPIRY_APART_MS_MAX):
                yield Difference(script, f"{name.decode()} expires", end, our_end)
        return
    sides = [dict(zip(flat[::3], zip(flat[1::3], flat[2::3], strict=True), strict=True)) for flat in (theirs, ours)]
    for name in sorted(sides[0].keys() | sides[1].keys()):
        a, b = (side.get(name) for side in sides)
        if a != b:
            yield Difference(script, name.decode(), a and unpacked(*a), b and unpacked(*b))
