"""The table of commands against the real server's own; which words are keys, against COMMAND GETKEYS."""

from __future__ import annotations

import socket
from typing import Any

import hiredis
import pytest

from emqproxy.session.commands import RULES, WRITES, Rule
from emqproxy.session.table import COMMANDS, Spec, key_positions, option_of
from tests.processes import RedisServer
from tests.session.talk import words

LATER = {b"DELEX", b"DELIFEQ"}
"""In the table although no 7.0 server has them."""
FLAGS = ("write", "blocking", "no_multi", "no_auth", "noscript")


def ask(redis: RedisServer, *commands: bytes) -> list[Any]:
    """The decoded answers to commands on a connection of their own."""
    reader, out = hiredis.Reader(), []
    with socket.create_connection(("127.0.0.1", redis.port), timeout=5) as conn:
        conn.sendall(b"".join(commands))
        while len(out) < len(commands):
            if (value := reader.gets()) is False:
                reader.feed(conn.recv(1 << 20))
            else:
                out.append(value)
    return out


def as_row(command: list[Any]) -> tuple[int, set[str], tuple[int, int, int]]:
    """Arity, flags and key positions as the server has them; a container's writing subcommands count as its own."""
    flags, keys = {str(flag) for flag in command[2]}, tuple(command[3:6])
    for subcommand in command[9] if len(command) > 9 else ():
        if "write" in subcommand[2]:
            flags.add("write")
            keys = tuple(subcommand[3:6])
    return command[1], {flag for flag in FLAGS if flag in flags}, keys


def texts(value: Any) -> Any:
    if isinstance(value, list):
        return [texts(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value


def test_the_table_is_the_server_s(redis_session: RedisServer) -> None:
    (info, found) = ask(redis_session, words("INFO", "server"), words("COMMAND"))
    exact = b"redis_version:7.0." in info
    theirs = {row[0].upper().encode(): as_row(row) for row in texts(found)}
    if not exact:
        assert {b"EVALSHA", b"SET"} <= set(theirs)
        return
    assert set(theirs) - set(COMMANDS) == set(), "commands that the table lacks"
    assert set(COMMANDS) - set(theirs) == LATER
    ours = {name: (s.arity, set(s.flags.split()), (s.first, s.last, s.step)) for name, s in COMMANDS.items()}
    assert {name: (ours[name], row) for name, row in theirs.items() if ours[name] != row} == {}


def test_every_row_has_a_rule_of_pairing() -> None:
    assert {spec.pairing for spec in COMMANDS.values()} <= {"one"} | {rule.value for rule in Rule}
    used = {spec.pairing for spec in COMMANDS.values()}
    assert {rule.value for rule in Rule} - {"refused"} <= used
    assert not WRITES & set(RULES)
    for name in WRITES:
        assert COMMANDS[name].writes
        assert COMMANDS[name].first or COMMANDS[name].more


def samples(name: bytes, spec: Spec) -> list[list[bytes]]:
    """Calls of a command that the server can find the keys of."""
    shaped = {
        b"BLMPOP": [b"0 2 a b LEFT", b"0 1 a LEFT"],
        b"BZMPOP": [b"0 2 a b MIN"],
        b"LMPOP": [b"2 a b LEFT COUNT 2"],
        b"ZMPOP": [b"2 a b MIN"],
        b"MIGRATE": [b"h 1 k 0 5", b"h 1 k 0 5 COPY REPLACE"],
        b"SORT": [b"a BY x", b"a BY x STORE d"],
        b"GEORADIUS": [b"a 1 2 3 m STORE d", b"a 1 2 3 m", b"a 1 2 3 m STOREDIST d"],
        b"GEORADIUSBYMEMBER": [b"a m 3 m STORE d"],
        b"XREADGROUP": [b"GROUP g c COUNT 1 STREAMS a b > >"],
        b"XGROUP": [b"CREATE s g $", b"DESTROY s g"],
        b"MSET": [b"a 1 b 2"],
        b"MSETNX": [b"a 1 b 2"],
        b"PFMERGE": [b"d a b"],
        b"PFDEBUG": [b"GETREG a"],
    }
    if name in shaped:
        return [[name, *rest.split()] for rest in shaped[name]]
    if spec.more.startswith("count:"):
        return [[name, *[b"x"] * (int(spec.more[6:]) - 1), b"2", b"a", b"b", b"y"]]
    least = abs(spec.arity)
    lengths = [least] if spec.arity > 0 else [least, least + 1, least + 4]
    return [[name, *(b"w%d" % n for n in range(1, length))] for length in lengths]


@pytest.mark.parametrize("name", sorted(WRITES - LATER), ids=bytes.decode)
def test_the_keys_are_those_that_the_server_finds(redis_session: RedisServer, name: bytes) -> None:
    calls = samples(name, COMMANDS[name])
    answers = ask(redis_session, *(words("COMMAND", "GETKEYS", *call) for call in calls))
    for call, answer in zip(calls, answers, strict=True):
        assert isinstance(answer, list), (call, answer)
        assert sorted({call[at] for at in key_positions(call)}) == sorted(set(answer)), call


def test_keys_of_what_is_cut_or_unknown() -> None:
    held = [b"DEL", *[b"k"] * 63]
    assert key_positions(held, 100) == list(range(1, 64))
    assert key_positions([b"blpop", b"a", b"b", b"0"]) == [1, 2]
    assert key_positions([b"BLPOP", b"a"], 80) == [1]
    assert key_positions([b"ZUNIONSTORE", b"d", b"x"]) == [1]
    assert key_positions([b"ZUNIONSTORE", b"d", b"99", b"a"]) == [1, 3]
    assert key_positions([b"MIGRATE", b"h", b"1", b"", b"0", b"5", b"KEYS", b"a", b"b"]) == [3, 7, 8]
    assert key_positions([b"NOPE", b"a"]) == key_positions([]) == key_positions([b"SORT"]) == []
    assert key_positions([b"SET", None, b"v"]) == [1]


def test_an_option_ends_at_a_zero_byte(redis_session: RedisServer) -> None:
    """So redis-server compares it: SORT with `STORE` and a tail writes."""
    sort = [b"SORT", b"list", b"store\0x", b"emq:q:1:lock"]
    answers = ask(redis_session, words("RPUSH", "list", 1), words(*sort), words("EXISTS", sort[-1]))
    assert answers == [1, 1, 1]
    assert key_positions(sort) == [1, 3]
    assert [option_of(word) for word in (b"get", b"Get\0", b"\0get", b"", None)] == [b"GET", b"GET", b"", b"", b""]
