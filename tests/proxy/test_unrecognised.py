"""Strangers' scripts on keys that look like a queue's: counted, and said once a minute with their shas."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import structlog.testing

from emqproxy import cli, logs
from emqproxy.logs import PERIOD_NS
from emqproxy.proxy.unrecognised import SHAS_MAX, Unrecognised
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.operation import Script
from emqproxy.scripts.user_catalogue import UserScript
from tests.processes import EmqProxy, RedisServer
from tests.proxy.wires import dial, exactly
from tests.scripts.talk import command, evalsha, lock, renew, sha_of, words
from tests.session import talk

STRANGER = b"return {KEYS[1]}"
OWN = b"""-- a renewal of the user's own
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("PEXPIRE", KEYS[1], ARGV[2])
redis.call("SREM", KEYS[2], ARGV[3])
return 1
"""
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
        [b"FCALL", b"mine", b"1", b"other:orders:wait"],
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


def test_a_function_is_named_and_the_hint_says_how_to_be_known(catalogue: Catalogue):
    seen = Unrecognised(("emq",), logs.get())
    with structlog.testing.capture_logs() as lines:
        seen.saw(command([b"FCALL", b"mine", b"1", b"emq:orders:1:lock"]), catalogue, 1)
    assert lines[0]["shas"] == ["function mine"]
    assert "emqproxy scripts add PATH" in lines[0]["hint"]


def test_what_a_user_has_added_is_no_stranger():
    own = UserScript("5" * 40, "extendLock", 2, "4.0.0-6.7.0", "", "")
    seen = Unrecognised(("emq",), logs.get())
    with structlog.testing.capture_logs() as lines:
        seen.saw(command(evalsha(b"5" * 40, [b"emq:orders:wait"])), Catalogue(added=[own]), 1)
    assert (seen.count, lines) == (0, [])


def test_what_is_known_by_its_shape_is_said_once_a_minute_too():
    seen = Unrecognised(("emq",), logs.get())
    with structlog.testing.capture_logs() as lines:
        for turn in range(3):
            seen.guessed(Script("extendLock", 2, f"{turn:040x}", "shape", ""), turn)
        for turn in range(2 * SHAS_MAX):
            seen.guessed(Script("", 0, f"{turn:040x}", "shape", ""), PERIOD_NS + turn + 1)
    assert [(line["calls"], line["log_level"]) for line in lines] == [(1, "warning"), (4, "warning")]
    assert lines[0]["scripts"] == ["extendLock-2 " + "0" * 40]
    assert lines[1]["scripts"] == [f"extendLock-2 {1:040x}", f"extendLock-2 {2:040x}", "one of several " + "0" * 40]
    assert "emqproxy scripts add PATH" in lines[0]["hint"]
    assert (seen.guesses, seen.count, len(seen._guessed)) == (3 + 2 * SHAS_MAX, 0, SHAS_MAX)


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


def test_the_sidecar_tells_by_shape_and_knows_by_its_sha_what_was_added(redis_server: RedisServer, tmp_path: Path):
    """A renewal of the user's own: first told by its shape, then by its sha, in the journal."""
    (tmp_path / "extendLock-2.lua").write_bytes(OWN)
    sha = hashlib.sha1(OWN).hexdigest()
    assert sha.encode() in redis_server.call("SCRIPT", "LOAD", OWN)
    redis_server.call("SET", lock("1").key, "a:1")
    env, file = {"OTEL_SDK_DISABLED": "true"}, str(tmp_path / "own.json")

    def call(proxy: EmqProxy) -> dict[str, object]:
        with dial(proxy.port) as client:
            sent = [word for word in renew("1", "a:1") if word is not None]
            client.sendall(talk.words("EVALSHA", sha, *sent[2:]))
            assert exactly(client, 4) == b":1\r\n"
        return proxy.wait_journal(lambda line: line["op"] == "renew")

    with EmqProxy(redis_server.url, env=env) as proxy:
        line = call(proxy)
        assert (line["script"], line["sha"], line["match"]) == ("extendLock-2", sha, "shape")
        said = proxy.wait_log(lambda line: "by the shape" in line["event"])
        assert said["scripts"] == [f"extendLock-2 {sha}"]
    assert cli.main(["scripts", "add", str(tmp_path), "--catalogue", file]) == 0
    with EmqProxy(redis_server.url, env=env | {"EMQPROXY_SCRIPTS__CATALOGUE": file}) as proxy:
        line = call(proxy)
        assert (line["script"], line["sha"], line["match"]) == ("extendLock-2", sha, "catalogue")
        assert (line["outcome"], line["job"], line["ttl_ms"]) == ("ok", "1", 30_000)
        started = proxy.wait_log(lambda line: line["event"] == "listening")
        assert (started["scripts"].split()[0], started["added_scripts"]) == (str(len(Catalogue())), 1)
