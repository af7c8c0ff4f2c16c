"""Before enforcement is switched on, as an operator goes about it: a real sidecar's journal, and what `check` says."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from emqproxy import cli
from tests.observer.scrape import Page, page_with
from tests.processes import LOOPBACK, EmqProxy, RedisServer, environment, free_port
from tests.proxy.hand import Hand, add, hand, wait_line
from tests.proxy.wires import sidecar
from tests.scripts.talk import PREFIX, lock

OWN = b"return redis.call('GET', KEYS[1])"
BREACHES = {"raw_lock_write", "unknown_script", "zero_token", "bad_duration", "mass_delete"}


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(NO_COLOR="1"))


def check(proxy: EmqProxy, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = cli.main(["check", str(proxy.journal_path), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else err


def work(worker: Hand) -> None:
    """What a lawful worker does."""
    worker.wire.call("CLIENT", "SETNAME", "lawful")
    assert worker.pick("t") is not None
    assert worker.renew(token="t") == 1
    assert worker.finish(token="t") == 0


def breach(tool: Hand, held: str) -> None:
    """Each rule that one connection can break by itself; whatever is answered."""
    tool.wire.call("CLIENT", "SETNAME", "tool")
    tool.finish(held, "0")
    tool.pick("x", ttl_ms=0)
    tool.answer(tool.wire.call("EVAL", OWN, "1", lock(held).key))
    tool.answer(tool.wire.call("DEL", lock("99").key))
    tool.answer(tool.wire.call("FLUSHDB"))


def counted(seen: Page, mode: str) -> dict[tuple[str, str], float]:
    """By action and rule, on the page of metrics: what broke one."""
    told = seen.by("emq_enforcement_actions_total", "mode", "action", "rule")
    assert {of for of, _, _ in told} <= {mode}
    return {(action, rule): count for (_, action, rule), count in told.items() if rule and count}


def play(proxy: EmqProxy, redis: RedisServer, *, breaches: bool) -> None:
    add(redis, "1")
    with hand(proxy.port) as worker:
        work(worker)
        if breaches:
            for job in ("2", "3"):  # what becomes of one lock, not even its own script could say afterwards
                add(redis, job)
                assert worker.pick(f"t{job}") == job
            with hand(proxy.port) as tool:
                breach(tool, "2")
    wait_line(proxy, op="wipe" if breaches else "finish")


@pytest.mark.parametrize(("mode", "done"), [("shadow", "would_block"), ("enforce", "blocked")])
def test_what_a_tool_breaks_is_told_by_rule_client_and_script(
    mode: str, done: str, redis_session: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {f"EMQPROXY_RULES__{rule.upper()}": "enforce" for rule in ("unknown_script", "mass_delete")}
    admin = free_port()
    plain = ("--mode", mode, "--admin", f"{LOOPBACK}:{admin}")
    with EmqProxy(redis_session.url, *plain, env=env | {"OTEL_TRACES_EXPORTER": "none"}) as proxy:
        play(proxy, redis_session, breaches=True)
        code, told = check(proxy, capsys)
        page_with(admin, lambda seen: counted(seen, mode) == dict.fromkeys(((done, rule) for rule in BREACHES), 1))
        for rule in BREACHES if mode == "enforce" else ():
            proxy.wait_log(lambda line, rule=rule: (line.get("action"), line.get("rule")) == ("blocked", rule))
    assert code == 1
    assert (told["unjudged"], told["unreadable"], told["missing"]) == (0, 0, 0)
    assert {rule["rule"] for rule in told["rules"]} == BREACHES
    for rule in told["rules"]:
        assert rule[done] == told[done] / len(BREACHES) == 1, rule
        (offence,) = rule["offences"]
        assert offence["client"] == "tool"
    scripts = {rule["rule"]: rule["offences"][0]["script"] for rule in told["rules"]}
    assert scripts == {
        "zero_token": "moveToFinished-14",
        "bad_duration": "moveToActive-11",
        "unknown_script": hashlib.sha1(OWN).hexdigest(),
        "raw_lock_write": "DEL",
        "mass_delete": "FLUSHDB",
    }
    zero = next(rule for rule in told["rules"] if rule["rule"] == "zero_token")
    assert zero["offences"][0]["example"]["subject"] == (PREFIX + b"2").decode()


def test_a_lawful_worker_is_let_through_by_all_rules(
    redis_session: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with sidecar(redis_session.url, "--mode", "shadow") as proxy:
        play(proxy, redis_session, breaches=False)
        code, told = check(proxy, capsys)
    assert (code, told["judged"], told["rules"]) == (0, 3, [])


def test_a_journal_of_observe_mode_proves_nothing(
    redis_session: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with sidecar(redis_session.url) as proxy:
        play(proxy, redis_session, breaches=True)
        code, told = check(proxy, capsys)
    assert code == 2
    assert "taken in observe mode" in told
