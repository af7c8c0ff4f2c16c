"""Strangers' scripts on keys that look like a queue's: counted, and said once a minute with their shas."""

from __future__ import annotations

import hashlib

import pytest
import structlog.testing

from emqproxy import logs
from emqproxy.logs import PERIOD_NS
from emqproxy.proxy.unrecognised import SHAS_MAX, Unrecognised
from emqproxy.scripts.catalogue import Catalogue
from tests.processes import EmqProxy, RedisServer
from tests.proxy.wires import dial, exactly
from tests.scripts.talk import command, evalsha, sha_of, words
from tests.session import talk

STRANGER = b"return {KEYS[1]}"
SHA = hashlib.sha1(STRANGER).hexdigest()


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue()


def test_a_stranger_is_counted_and_named_once_a_minute(catalogue: Catalogue):
    with structlog.testing.capture_logs() as lines:
        seen = Unrecognised(("emq", "bull"), logs.get())
        for turn in range(5):
            seen.saw(command(evalsha(b"%040x" % turn, [b"emq:orders:wait"])), catalogue, turn)
        seen.saw(command(words("EVAL", STRANGER, [b"bull:q:1:lock"])), catalogue, 6)
        assert len(lines) == 1
        seen.saw(command(evalsha(b"f" * 40, [b"emq:orders:wait"])), catalogue, PERIOD_NS + 1)
    assert seen.count == 7
    assert [(line["calls"], line["log_level"]) for line in lines] == [(1, "warning"), (7, "warning")]
    assert lines[0]["shas"] == ["0" * 40]
    assert lines[1]["shas"] == [*(f"{turn:040x}" for turn in range(1, 5)), SHA, "f" * 40]
    assert lines[1]["suppressed"] == 5


@pytest.mark.parametrize(
    "call",
    [
        evalsha(b"0" * 40, [b"other:orders:wait"]),
        evalsha(b"0" * 40, [b"emqx"]),
        evalsha(b"0" * 40, [], b"x"),
        [b"EVALSHA"],
        [b"EVALSHA", None, b"1", None],
        [b"SCRIPT", b"LOAD", b"return 1", b"emq:a"],
        evalsha(sha_of("addStandardJob-9"), [b"emq:orders:wait"]),
        evalsha(sha_of("moveToActive-11").upper(), [b"emq:orders:wait"]),
    ],
)
def test_what_is_no_stranger(catalogue: Catalogue, call: list[bytes | None]):
    seen = Unrecognised(("emq",), logs.get())
    with structlog.testing.capture_logs() as lines:
        seen.saw(command(call), catalogue, 1)
    assert (seen.count, lines) == (0, [])


def test_what_is_remembered_is_bounded(catalogue: Catalogue):
    with structlog.testing.capture_logs() as lines:
        seen = Unrecognised(("emq",), logs.get())
        for turn in range(10 * SHAS_MAX):
            seen.saw(command(evalsha(b"%040x" % turn, [b"emq:q:wait"])), catalogue, 1)
        seen.saw(command(evalsha(b"f" * 40, [b"emq:q:wait"])), catalogue, 2 * PERIOD_NS)
        seen.saw(command(words("EVAL", b"", [b"emq:q:wait"])), catalogue, 4 * PERIOD_NS)
        seen.saw(command([b"EVAL", None, b"1", b"emq:q:wait"]), catalogue, 6 * PERIOD_NS)
    assert len(lines[1]["shas"]) == SHAS_MAX
    assert lines[3]["shas"] == ["a text too large to hash"]


def test_the_sidecar_says_it(redis_session: RedisServer):
    with EmqProxy(redis_session.url, env={"OTEL_SDK_DISABLED": "true"}) as proxy:  # its own: it says so once a minute
        with dial(proxy.port) as client:
            client.sendall(talk.words("EVAL", STRANGER, 1, "emq:orders:wait"))
            assert exactly(client, 26) == b"*1\r\n$15\r\nemq:orders:wait\r\n"
        line = proxy.wait_log(lambda line: "not recognised" in line["event"])
        assert SHA in line["shas"]
