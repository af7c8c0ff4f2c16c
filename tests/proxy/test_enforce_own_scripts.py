"""A user's own scripts in enforce mode: refused while nobody knows them, let through by their sha or once added."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from emqproxy import cli
from tests.processes import EmqProxy, RedisServer, environment
from tests.proxy.breaches import ALL_RULES
from tests.proxy.hand import Hand, hand
from tests.scripts import talk
from tests.scripts.talk import PREFIX, text_of

OWN = b"return redis.call('HINCRBY', KEYS[1], 'mine', 1)"
CHANGED = text_of("updateData-1") + b"\n-- changed by its user\n"
META = PREFIX + b"meta"


def sidecar(redis: RedisServer, **more: str) -> EmqProxy:
    return EmqProxy(redis.url, "--mode", "enforce", env={"OTEL_SDK_DISABLED": "true"} | ALL_RULES | more)


def own(client: Hand) -> object:
    return client.answer(client.wire.call("EVAL", OWN, 1, META))


def test_a_script_that_is_allowed_by_its_sha(redis_session: RedisServer) -> None:
    with sidecar(redis_session) as proxy, hand(proxy.port) as client:
        assert str(own(client)).startswith("EMQPROXY unknown_script")
        reads = b"return redis.call('GET', KEYS[1])"
        assert client.answer(client.wire.call("EVAL_RO", reads, 1, PREFIX + b"x")) is None
        assert str(client.answer(client.wire.call("FCALL", "mine", 1, META))).startswith("EMQPROXY unknown_script")
        assert "Function not found" in str(client.answer(client.wire.call("FCALL", "mine", 1, "other")))
    allowed = f'["{hashlib.sha1(OWN).hexdigest()}"]'
    with sidecar(redis_session, EMQPROXY_SCRIPTS__ALLOW=allowed) as proxy, hand(proxy.port) as client:
        assert own(client) == 1
        sha = client.wire.call("SCRIPT", "LOAD", OWN)
        assert client.answer(client.wire.call("EVALSHA", sha.upper(), 1, META)) == 2
        other = client.answer(client.wire.call("EVAL", OWN + b" ", 1, META))
        assert str(other).startswith("EMQPROXY unknown_script"), "its sha, and no other"


def test_scripts_that_were_added_pass_by_their_sha(
    redis_session: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's variant of a known script, whose text is never sent, only its sha."""
    monkeypatch.setattr("os.environ", environment(NO_COLOR="1"))
    folder, catalogue = tmp_path / "commands", tmp_path / "catalogue.json"
    folder.mkdir()
    (folder / "updateData-1.lua").write_bytes(CHANGED)
    assert cli.main(["scripts", "add", str(folder), "--catalogue", str(catalogue)]) == 0
    key = PREFIX + b"7"
    redis_session.call("HSET", key, "data", "{}")
    redis_session.call("SCRIPT", "LOAD", CHANGED)
    call = talk.evalsha(hashlib.sha1(CHANGED).hexdigest().encode(), [key], "new")
    with sidecar(redis_session) as proxy, hand(proxy.port) as client:
        assert str(client.answer(client.wire.call(*call))).startswith("EMQPROXY unknown_script")
    with sidecar(redis_session, EMQPROXY_SCRIPTS__CATALOGUE=str(catalogue)) as proxy, hand(proxy.port) as client:
        assert client.answer(client.wire.call(*call)) == 0
        assert redis_session.call("HGET", key, "data") == b"$3\r\nnew\r\n"
        short = client.answer(client.wire.call(call[0], call[1], 0, key, "new"))
        assert str(short).startswith("EMQPROXY malformed_call")
