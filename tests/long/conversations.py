"""Generated conversations: what one connection says, or two by turns, and when each is to wait for an answer.

A conversation is a value made from a seed. Where it ends by its half-close alone, everything is sent without waiting:
Redis answers what came before the half-close and closes. What takes Redis a while (a value past the socket's buffers,
a call that blocks for a moment) would lose its answer so; such a conversation ends with a PING whose answer is waited
for first.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from tests.long import shapes
from tests.long.script_calls import Scripts, chance, stranger
from tests.long.steps import Conversation, Step
from tests.long.turns import Turns
from tests.long.vocabulary import GLOBAL, PASSWORD, PLAIN, PUBSUB, USER, Voice
from tests.session.talk import words

COMMANDS_MAX: Final = 30
_REPLY_ON: Final = words("CLIENT", "REPLY", "ON")


Item = Callable[[Voice], list[bytes]]


def _out_of_any_mode(voice: Voice) -> bytes:
    """After it a PING is answered, whatever was said before, or the connection is closed."""
    return voice.leave_all() + _REPLY_ON + words("EXEC") + voice.leave_all() + _REPLY_ON


def _plain(templates: tuple[str, ...]) -> Item:
    return lambda voice: [voice.from_template(voice.rnd.choice(templates))]


def _transaction(voice: Voice) -> list[bytes]:
    """Whole, in part, aborted in each way, or one word of it out of place."""
    rnd = voice.rnd
    body = [voice.from_template(rnd.choice(PLAIN[rnd.choice(_IN_MULTI)])) for _ in range(rnd.randrange(5))]
    match rnd.randrange(10):
        case 0:
            return [words(*rnd.choice(("MULTI", "EXEC", "DISCARD", "UNWATCH", "EXEC x")).split())]
        case 1:
            return [voice.from_template("WATCH @s @any")]
        case 2:
            key = voice.key("s")
            return [words("WATCH", key), words("SET", key, "x"), words("MULTI"), *body, words("EXEC")]
        case 3:
            return [words("MULTI"), *body, words("NOSUCH", "x"), *body, words("EXEC")]
        case 4:
            return [words("MULTI"), *body, words("MULTI"), words("WATCH", "k"), words("EXEC")]
        case 5:
            return [words("MULTI"), *body, words("DISCARD")]
        case 6:
            inside = rnd.choice((f"BLPOP {voice.key('l').decode()} 0", "SELECT 1", "HELLO 3", "RESET"))
            return [words("MULTI"), *body, words(*inside.split()), *body, words("EXEC")]
        case 7:
            return [b"multi\r\n", b"get k\r\n", b"exec\r\n"]
        case _:
            return [words("MULTI"), *body, words("EXEC")]


def _subscription(voice: Voice) -> list[bytes]:
    """Into it, something, mostly out of it."""
    rnd = voice.rnd
    inside = [voice.from_template(rnd.choice(PUBSUB)) for _ in range(rnd.randrange(5))]
    out = [voice.leave_all()] if rnd.random() < 0.8 else []
    return [voice.from_template(rnd.choice(("SUBSCRIBE @c @c", "PSUBSCRIBE @cp @cp", "SUBSCRIBE @c"))), *inside, *out]


def _client_reply(voice: Voice) -> list[bytes]:
    rnd = voice.rnd
    hidden = [voice.from_template(rnd.choice(PLAIN[rnd.choice(_IN_MULTI)])) for _ in range(rnd.randrange(3))]
    match rnd.randrange(4):
        case 0:
            return [voice.say("CLIENT", "REPLY", "SKIP")]
        case 1:
            return [voice.say("CLIENT", "REPLY", "OFF"), *hidden]
        case 2:
            return [voice.say("client", "reply", "off"), *hidden, words("CLIENT", "REPLY", "ON")]
        case _:
            return [_REPLY_ON]


def _limited(voice: Voice) -> list[bytes]:
    """As a user who may do little: NOPERM, also inside a transaction."""
    name = voice.rnd.choice((words("AUTH", USER, PASSWORD), words("HELLO", 3, "AUTH", USER, PASSWORD)))
    return [name, voice.from_template("SET @s @v"), voice.from_template("GET @s"), words("AUTH", "default", "any")]


def _tracked(voice: Voice) -> list[bytes]:
    """What a client has read and then changes itself: in RESP 3 it is told so."""
    key = voice.key("s")
    on = voice.rnd.choice(("CLIENT TRACKING ON", "CLIENT TRACKING ON NOLOOP", "CLIENT TRACKING ON OPTIN"))
    read_and_changed = [words("GET", key), words("SET", key, "x"), words("PING")]
    return [words(*on.split()), *read_and_changed, words("CLIENT", "TRACKING", "OFF")]


def _own_key(voice: Voice) -> list[bytes]:
    """What depends on the clock or on the key's whole life is said of a key made for it."""
    key = voice.prefix + b"own"
    dies = [words("PEXPIREAT", key, 33177117420123), words("PEXPIRETIME", key), words("EXPIRETIME", key)]
    return [words("SET", key, voice.value()), words("DUMP", key), *dies, words("DEL", key)]


def _blocking(voice: Voice) -> list[bytes]:
    """For a moment, or not at all."""
    rnd = voice.rnd
    waits = rnd.choice(("0.001", "0.005", "-1", "x"))
    templates = (
        f"BLPOP @l {waits}", f"BRPOP @l @l {waits}", f"BLMOVE @l @l LEFT LEFT {waits}", f"BZPOPMIN @z {waits}",
        "BLPOP @s 0.001", f"BLMPOP {waits} 1 @l LEFT", "XREAD BLOCK 3 STREAMS @x $", f"BRPOPLPUSH @l @l {waits}",
        "WAIT 1 3", "DEBUG SLEEP 0.001",
    )  # fmt: skip
    return [voice.from_template(rnd.choice(templates))]


def _large(voice: Voice) -> list[bytes]:
    rnd = voice.rnd
    value = rnd.randbytes(64) * rnd.choice((300, 1100, 3000, 5000))
    key = voice.prefix + b"large"  # nobody else finds it
    read = rnd.choice((words("GET", key), words("MGET", key, key), words("STRLEN", key), words("ECHO", value)))
    run, more = words("EVAL", "return ARGV[1]", 0, value), words("APPEND", key, value)
    return [words("SET", key, value), read, rnd.choice((run, more, words("PUBLISH", key, value))), words("DEL", key)]


_IN_MULTI: Final = ("strings", "lists, sets", "hashes, sorted", "streams", "raw on locks", "strings", "unknown")
_MODES: Final[dict[str, tuple[int, Item]]] = {
    "transactions": (8, _transaction),
    "subscriptions": (4, _subscription),
    "CLIENT REPLY": (4, _client_reply),
    "permissions": (1, _limited),
    "tracking": (2, _tracked),
    "of an own key": (1, _own_key),
    "scripts": (9, stranger),
    "inline": (6, shapes.inline),
    "empty": (2, shapes.empty),
    "malformed": (1, shapes.malformed),
    "QUIT": (1, lambda voice: [voice.from_template(voice.rnd.choice(("QUIT", "QUIT", "QUIT x y")))]),
}
_WEIGHTS: Final = {
    "strings": 8, "lists, sets": 7, "hashes, sorted": 6, "streams": 4, "keyspace": 5, "RESP types": 3, "connection": 6,
    "unknown": 2, "pubsub": 2, "raw on locks": 5,
}  # fmt: skip
_CALM: Final = ("protocol", "strings", "raw on locks", "lists, sets", "streams")
"""What changes no mode."""
_PATIENT: Final[dict[str, tuple[int, Item]]] = {"blocking": (5, _blocking), "large": (1, _large)}


def _closing_or_silent(items: dict[str, tuple[int, Item]], rnd: random.Random) -> dict[str, tuple[int, Item]]:
    """Redis closes once its last words are sent. Where CLIENT REPLY keeps these back, it waits for a half-close.

    And where it closes with more on its way to it, the kernel may drop the end of a large answer that is still to go.
    """
    left_out = {"CLIENT REPLY", "large"} if rnd.random() < 0.5 else {"QUIT", "malformed"}
    return {name: item for name, item in items.items() if name not in left_out}


class Composer:
    """Makes conversations: the same from the same seed."""

    def __init__(self, scripts: Scripts, seed: int) -> None:
        self._seed = seed
        self._items = {name: (_WEIGHTS[name], _plain(templates)) for name, templates in PLAIN.items()} | _MODES
        self._items["protocol"] = (22, scripts.protocol)
        self._patient = self._items | _PATIENT
        self._alone = self._patient | {"global": (30, _plain(GLOBAL))}
        self._calm = {name: self._items[name] for name in _CALM}

    def conversation(self, number: int, lane: int, *, alone: bool = False) -> Conversation:
        """`alone`: said while nobody else speaks. Odd numbers speak RESP 3."""
        rnd = chance((self._seed, number))
        said = Conversation(f"{self._seed}/{number}", 2 + number % 2)
        voice = Voice(lane, rnd)
        if alone:
            self._one(said, voice, _closing_or_silent(self._alone, rnd), patient=True)
        elif rnd.random() < 0.1:
            self._two(said, voice)
        elif rnd.random() < 0.4:
            self._one(said, voice, _closing_or_silent(self._patient, rnd), patient=True)
        else:
            self._one(said, voice, self._items, patient=False)
        return said

    def _draw(self, said: Conversation, voice: Voice, items: dict[str, tuple[int, Item]]) -> list[bytes]:
        (name,) = voice.rnd.choices(list(items), [weight for weight, _ in items.values()])
        made = items[name][1](voice)
        said.classes[name] = said.classes.get(name, 0) + len(made)
        return made

    def _one(self, said: Conversation, voice: Voice, items: dict[str, tuple[int, Item]], *, patient: bool) -> None:
        rnd = voice.rnd
        parts = [words("HELLO", 3)] if said.resp == 3 else []
        if rnd.random() < 0.01:
            parts = [rnd.choice(shapes.BROWSERS)]
        elif rnd.random() < 0.003 and not patient:
            parts.append(rnd.choice(shapes.OVERSIZE))
        count = rnd.randint(1, rnd.choice((3, 10, COMMANDS_MAX)))
        while len(parts) < count:
            parts += self._draw(said, voice, items)
        if patient:
            mark = b"end %d" % rnd.randrange(1 << 40)
            parts += [_out_of_any_mode(voice), words("PING", mark)]
            said.steps.append(Step(0, shapes.fragments(b"".join(parts), rnd), mark))
            return
        last = rnd.random()
        if last < 0.06:
            parts.append(shapes.truncated(voice))
        elif last < 0.12:
            parts += [words("BLPOP", voice.prefix + b"nothing", 0), words("PING")]  # for ever: until we half-close
        said.steps.append(Step(0, shapes.fragments(b"".join(parts), rnd)))

    def _two(self, said: Conversation, voice: Voice) -> None:
        """Two connections by turns. Each turn ends with an answer that only it can have."""
        said.connections = 2
        turns = Turns(said, voice, lambda: self._draw(said, voice, self._calm))
        for by in (0, 1):
            if said.resp == 3 or voice.rnd.random() < 0.2:
                turns.say(by, words("HELLO", 3))
        for _ in range(voice.rnd.randint(1, 6)):
            voice.rnd.choice(turns.scenes)()
