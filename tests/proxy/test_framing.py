"""No bytes make Redis run what was not judged; `tests/long/fuzz_framing` sends a million, this the corpus and some."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long.framing_corpus import read
from tests.long.framing_inputs import CANARY
from tests.long.framing_roads import Roads
from tests.long.framing_sidecars import Sidecars
from tests.long.fuzz_framing import fuzz, numbered
from tests.processes import eventually
from tests.proxy.wires import dial, drain, half_close
from tests.session.talk import words

CORPUS = Path(__file__).parent / "framing_corpus.txt"


@pytest.fixture(scope="module")
def roads() -> Iterator[Roads]:
    with Roads() as three:
        yield three


@pytest.fixture(scope="module")
def sidecars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecars]:
    with Sidecars(tmp_path_factory.mktemp("sidecars")) as two:
        yield two


def test_the_corpus(roads: Roads, sidecars: Sidecars) -> None:
    inputs = list(enumerate(read(CORPUS)))
    tally = fuzz(inputs, [roads], sidecars, 3)
    assert not tally.differences, str(tally.differences[0])
    assert sidecars.troubles() == []
    assert tally.inputs == len(inputs) > 100
    assert len(tally.classes) > 50


def test_made_inputs_by_the_same_seed_and_by_a_new_one(roads: Roads, sidecars: Sidecars) -> None:
    """What a new one finds is told by its seed and number: `made(seed, number)` gives it again."""
    for seed, count in ((1, 1000), (random.randrange(1 << 24), 200)):
        told: list[str] = []
        tally = fuzz(numbered(seed, count), [roads], sidecars, 50, told.append)
        assert not tally.differences, f"seed {seed}: {told} {sidecars.troubles()}"
        assert (tally.inputs, tally.through_sidecars) == (count, count // 50)
    assert tally.died_directly
    assert tally.refused
    assert sidecars.troubles() == []


def test_a_command_that_nobody_judged_would_be_seen(roads: Roads) -> None:
    """The road to the gated server without a gate: the canary dies, and it shows."""
    roads.gated.say(words("SELECT", 2) + words("DEL", CANARY))
    assert roads.gated.heard() == b"+OK\r\n:1\r\n"
    assert roads.gated.state()[1] is False
    roads.gated.say(words("PEXPIRE", CANARY, 1))
    roads.gated.heard()
    assert roads.gated.state()[1] is False
    found = roads.travel(words("DEL", CANARY), random.Random(0))
    assert (found.faults, found.refused, found.died_directly) == ([], 1, True)


def test_a_difference_is_found(roads: Roads) -> None:
    """One server that answers otherwise, and one whose keys are other ones."""
    with contextlib.closing(dial(roads.gated.server.socket_path)) as other:
        other.sendall(words("SELECT", 3) + words("SET", "only-here", 1))
        half_close(other)
        drain(other)
    faults = roads.travel(words("PING"), random.Random(0)).faults
    assert len(faults) == 1
    assert faults[0].startswith("other keys")
    with contextlib.closing(dial(roads.gated.server.socket_path)) as other:
        other.sendall(words("SET", "k0", "apart"))
        half_close(other)
        drain(other)
    faults = roads.travel(words("GET", "k0"), random.Random(0)).faults
    assert any("are apart at 1" in fault for fault in faults)


def test_a_connection_that_is_closed_waits_for_no_answer_that_is_kept_back(sidecars: Sidecars) -> None:
    """Calls under CLIENT REPLY OFF have none; it would stay open for ever."""
    with dial(sidecars.enforcing.port) as client:
        client.sendall(words("CLIENT", "REPLY", "OFF") + words("EVAL", "return 1", 0) + b"*+1\r\n")
        assert drain(client).startswith(b"-EMQPROXY closed ")


def test_who_goes_while_a_blocked_call_delays_its_close_is_seen_to_go(sidecars: Sidecars) -> None:
    """What was asked before is answered first, and may never be."""
    redis = sidecars.enforced.server
    client = dial(sidecars.enforcing.port)
    client.sendall(words("BLPOP", "nothing", 0) + b"*+1\r\n" + words("PING") * 1000)
    eventually(lambda: b"cmd=blpop" in redis.call("CLIENT", "LIST"), what="the blocked call")
    client.close()
    eventually(lambda: b"cmd=blpop" not in redis.call("CLIENT", "LIST"), what="the end of the blocked call")


def test_a_name_with_a_zero_byte_may_be_any_command(roads: Roads) -> None:
    """Why such a name is refused: redis-server looks it up by all its bytes, and compares them up to the zero."""
    roads.raw.say(b"".join(words("SET", "k", 1) + words(b"DEL\0%d" % number, "k") for number in range(5000)))
    assert b"\r\n:1\r\n" in roads.raw.heard()
    roads.raw.state()
    through = b"".join(words(b"DEL\0%d" % number, CANARY) for number in range(50))
    found = roads.travel(words("PING") + through, random.Random(1))
    assert found.faults == []
    assert "zero byte" in found.kind
