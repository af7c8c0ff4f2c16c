"""Each mode and each command is a row: paired exactly, or the session says that it is blind. A real Redis answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emqproxy.session.table import COMMANDS
from tests.processes import RedisServer
from tests.session.rows import MODES, PASSWORD, SUBJECTS, call_of, judge

HEAD = "              resp2 resp3 multi multi3 subscribed subscribed3 off skip noauth"
ROWS = """
reply on         = = = = = = = = =
reply off        = = o o o o = = o
reply skip       = = o o o o = = o
reply what       = = = = = = = = =
setname          = = = = = = = = =
tracking         = = = = = = = = =
bcast            = = = = = = = = =
no-evict         = = = = = = = = =
no-touch         = = = = = = = = =
pause            = = = = = = = = =
kill             x x x x = = x x =
hello 2          = = = = = = o o =
hello 3          = = = = = = o o =
hello 9          = = = = = = o o =
hello x          = = = = = = o o =
hello auth       = = = = = = o o =
wrongpass        = = = = = = o o =
hello syntax     = = = = = = o o =
hello name       = = = = = = o o =
auth             = = = = = = = = =
auth wrong       = = = = = = = = =
subscribe        = = o o = = o o =
psubscribe       = = o o = = o o =
ssubscribe       = = o o = = o o =
unsubscribe      = = o o = = o o =
unsubscribe b    = = o o = = o o =
publish          = = o o = = o o =
to itself        = = = = = = = = =
reply in eval    = = = = = = = = =
eval_ro          = = = = = = = = =
fcall            = = = = = = = = =
on a lock        = = = = = = = = =
replconf         = = = = = = = = =
replconf ack     o o o o o o o o o
getack           o o o o o o o o o
watch            = = = = = = = = =
nil exec         = = = = = = = = =
execabort        = = = = = = = o =
discard          = = = = = = = o =
nested           = = = = = = = o =
exec x           = = = = = = = o =
reset x          = = = = = = o o =
select           = = = = = = o o =
select 99        = = = = = = o o =
swapdb           = = = = = = = = =
sleep            = = = = = = = = =
reload           = = = = = = = = =
attributes       = = = o = = = = =
push             = = = o = = = = =
verbatim         = = = = = = = = =
blocks           = = = = = = = = =
wait             = = = = = = = = =
abort            = = = = = = = = =
failover         = = = = = = = = =
cluster          = = = = = = = = =
psync            o o o o o o o o o
inline           = = = = = = = = =
empty            = = = = = = = = =
inline modes     = = = = = = = o =
quotes           o o o o o o o o o
no length        o o o o o o o o o
http             o o o o o o o o o
unknown          = = = = = = = = =
one word         = = = = = = = = =
"""
"""Of `SUBJECTS`. What is blind, is so because what follows depends on an answer that nobody will see."""

COMMAND_ROWS = """
DISCARD          = = = = = = = o =
EXEC             = = = = = = = o =
HELLO            = = = = = = o o =
MONITOR          o o o o o o o o o
MULTI            = = = = o o o o =
PSUBSCRIBE       = = o o = = o o =
PSYNC            o o o o o o o o o
PUNSUBSCRIBE     = = o o = = o o =
QUIT             x x x x x x x x x
RESET            = = = = = = = o =
SELECT           = = = = = = o o =
SSUBSCRIBE       = = o o = = o o =
SUBSCRIBE        = = o o = = o o =
SUNSUBSCRIBE     = = o o = = o o =
SYNC             o o o o o o o o o
UNSUBSCRIBE      = = o o = = o o =
"""
"""Of all commands in the table, called once each. Every other command is exact in every mode."""


def table(rows: str) -> dict[str, list[str]]:
    return {row[:17].strip(): row[17:].split() for row in rows.strip("\n").splitlines()}


EXPECTED, EXPECTED_COMMANDS = table(ROWS), table(COMMAND_ROWS)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer(requirepass=PASSWORD, **{"enable-debug-command": "yes"}) as server:
        yield server


@pytest.fixture(scope="module")
def exact(redis: RedisServer) -> bool:
    """Whether it is the version that the verdicts were settled with; another's must be right, and may differ."""
    return b"redis_version:7.0." in redis.call("INFO", "server")


def test_the_tables_are_whole() -> None:
    assert HEAD.split() == list(MODES)
    assert set(EXPECTED) == set(SUBJECTS)
    assert {len(row) for row in (*EXPECTED.values(), *EXPECTED_COMMANDS.values())} == {len(MODES)}
    assert {name.encode() for name in EXPECTED_COMMANDS} <= set(COMMANDS)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_in_every_mode(redis: RedisServer, exact: bool, subject: str) -> None:
    found = [judge(redis, mode, SUBJECTS[subject]) for mode in MODES]
    assert not exact or found == EXPECTED[subject]


@pytest.mark.parametrize("mode", MODES)
def test_every_command_in_a_mode(redis: RedisServer, exact: bool, mode: str) -> None:
    column = list(MODES).index(mode)
    found = {name.decode(): judge(redis, mode, call_of(name, spec.arity)) for name, spec in COMMANDS.items()}
    expected = {name: EXPECTED_COMMANDS[name][column] if name in EXPECTED_COMMANDS else "=" for name in found}
    assert not exact or found == expected
