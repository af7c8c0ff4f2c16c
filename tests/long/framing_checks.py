"""What must hold of the strict reader and of the pairing for any bytes, told without a server: lists of complaints."""

from __future__ import annotations

import random

from emqproxy.session.commands import LOCK_MARK, RULES, WRITES
from emqproxy.session.exchange import ErrorReply, Exchange, Missing
from emqproxy.session.session import Session
from emqproxy.wire.frames import ClientWireError
from emqproxy.wire.items import Item
from emqproxy.wire.strict import StrictReader
from tests.long.framing_inputs import ECHO, WHERE
from tests.session.talk import pieces as cut_at


def cut(data: bytes, rnd: random.Random, count: int) -> list[bytes]:
    """In so many places."""
    return cut_at(data, [rnd.randrange(1 << 30) for _ in range(count)])


def pieces(parts: list[bytes]) -> tuple[list[tuple[bytes, Item]], str | None]:
    """What the strict reader makes of a stream: plain commands counted one by one, streamed parts joined."""
    reader, out, fault = StrictReader(RULES, WRITES, (LOCK_MARK,)), [], None
    try:
        for part in parts:
            out += reader.feed(part)
    except ClientWireError as error:
        fault, out = str(error.args[0]), out + error.args[1]
    joined: list[tuple[bytes, Item]] = []
    held = b""
    for piece in out:
        if piece.item is None:
            held += piece.raw
        elif joined and isinstance(piece.item, int) and isinstance(joined[-1][1], int):
            joined[-1] = (joined[-1][0] + held + piece.raw, joined[-1][1] + piece.item)
            held = b""
        else:
            joined.append((held + piece.raw, piece.item))
            held = b""
    if held and fault is None:
        joined.append((b"", 0))
    return joined, fault


def check_reader(data: bytes, parts: list[bytes]) -> list[str]:
    """However it is cut, the same commands with the same bytes; and these are the begin of what was sent."""
    whole, cut_up = pieces([data]), pieces(parts)
    faults = []
    if whole != cut_up:
        faults.append(f"read whole {whole}, in {len(parts)} pieces {cut_up}")
    if not data.startswith(b"".join(raw for raw, _ in whole[0])):
        faults.append("what goes on is not the begin of what was sent")
    return faults


def check_pairing(data: bytes, said: bytes, rnd: random.Random) -> list[str]:
    """Observe mode: each answer that the session pairs is the answer to that call, as the call itself says."""
    session = Session()
    exchanges: list[Exchange] = []
    for part in cut(data, rnd, rnd.randrange(3)):
        for command in session.from_client(part, 1):
            session.keep(command, words=True)
    for part in cut(said, rnd, rnd.randrange(3)):
        exchanges += session.from_server(part, 2)
    swaps = b"SWAPDB" in data.upper()  # databases do not know their numbers any more
    faults = [fault for one in exchanges if (fault := mispaired(one)) is not None]
    return [fault for fault in faults if not (swaps and "says Redis" in fault)]


def mispaired(exchange: Exchange) -> str | None:
    """What is wrong with an exchange of a script whose answer is known."""
    asked, reply = exchange.command.words, exchange.reply
    if isinstance(reply, ErrorReply | Missing) or len(asked) < 3 or asked[0] != b"EVAL" or asked[2] != b"0":
        return None
    if asked[1] == ECHO.encode() and len(asked) > 3 and reply != asked[3]:
        return f"{asked} is paired with {reply!r}"
    if asked[1] == WHERE.encode() and reply not in (None, b"%d" % exchange.db):
        return f"database {exchange.db}, says the pairing; {reply!r}, says Redis"
    return None
