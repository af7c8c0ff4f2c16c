"""The configuration: what wins over what, that a mistake is one helpful line, that the example tells the truth."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from emqproxy.config import Config, ConfigError, HostPort, Listen, Upstream, load
from emqproxy.locks import policy

SHA = "c35baf769e5dc3d9194b2bceca04ab59f7c510f7"
EXAMPLE = Path(__file__).parent.parent / "config" / "emqproxy.toml"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("EMQPROXY_"):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.toml"


def test_defaults() -> None:
    config = load()
    assert config == Config()
    assert config.listen == (Listen("tcp", "127.0.0.1", 6380),)
    assert config.upstream == Upstream("tcp", "127.0.0.1", 6379)
    assert config.health == HostPort("0.0.0.0", 9464)
    assert (config.lateness.late, config.lateness.critical) == (0.6, 0.8)


def test_flags_over_environment_over_file_over_defaults(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('log_level = "error"\n[lateness]\nlate = 0.1\ncritical = 0.2\n[observer]\njournal = "file"')
    assert load(str(file)).observer.journal == "file"
    monkeypatch.setenv("EMQPROXY_LATENESS__CRITICAL", "0.3")
    monkeypatch.setenv("EMQPROXY_OBSERVER__JOURNAL", "environment")
    assert load(str(file)).observer.journal == "environment"
    config = load(str(file), {"observer.journal": "flag"})
    assert config.observer.journal == "flag"
    assert (config.lateness.late, config.lateness.critical) == (0.1, 0.3)  # one table, three sources
    assert (config.log_level, config.limits.locks) == ("error", 50_000)


def test_the_file_may_be_named_by_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("require_upstream = true")
    monkeypatch.setenv("EMQPROXY_CONFIG", str(file))
    assert load().require_upstream


def test_a_config_is_what_it_was_given_and_not_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMQPROXY_LOG_LEVEL", "debug")
    assert Config().log_level == "info"
    with pytest.raises(ValidationError):
        Config().log_level = "debug"  # type: ignore[misc]


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:1,unix:///a/b", " 127.0.0.1:1 , unix:///a/b ,"])
def test_lists_in_a_variable(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMQPROXY_LISTEN", text)
    monkeypatch.setenv("EMQPROXY_PREFIXES", "emq,{myapp}")
    config = load()
    assert config.listen == (Listen("tcp", "127.0.0.1", 1), Listen("unix", path="/a/b"))
    assert config.prefixes == ("emq", "{myapp}")


def test_lists_in_a_variable_may_be_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMQPROXY_LISTEN", '["tcp://127.0.0.1:1", "unix:///a/b"]')
    monkeypatch.setenv("EMQPROXY_PREFIXES", ' ["a","b,c"]')
    config = load()
    assert config.listen == (Listen("tcp", "127.0.0.1", 1), Listen("unix", path="/a/b"))
    assert config.prefixes == ("a", "b,c")
    monkeypatch.setenv("EMQPROXY_LISTEN", "[::1]:6380")  # no JSON, however it begins
    assert load().listen == (Listen("tcp", "::1", 6380),)


def test_the_rules_are_those_of_the_locks_at_their_defaults() -> None:
    stances = {rule.value: stance.name.lower() for rule, stance in policy.DEFAULTS.items()}
    assert dict(Config().rules) == stances
    assert list(stances) == [rule.value for rule in policy.Rule]


def test_rules_and_what_they_ask_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('mode = "enforce"\n[rules]\nzero_token = "observe"\nmass_delete = "enforce"')
    monkeypatch.setenv("EMQPROXY_MODE", "shadow")
    monkeypatch.setenv("EMQPROXY_RULES__ZERO_TOKEN", "shadow")
    monkeypatch.setenv("EMQPROXY_SCRIPTS__ALLOW", f"{SHA.upper()}, {'0' * 40}")
    for name, value in (("JUDGE_BYTES", "1_024"), ("TTL_MS_MIN", "1000"), ("TTL_MS_MAX", "1000")):
        monkeypatch.setenv(f"EMQPROXY_LIMITS__{name}", value)
    config = load(str(file))
    assert config.mode == "shadow"
    assert (config.rules.zero_token, config.rules.mass_delete, config.rules.bad_duration) == (
        "shadow", "enforce", "enforce",
    )  # fmt: skip
    assert config.scripts.allow == (SHA, "0" * 40)
    assert (config.limits.judge_bytes, config.limits.ttl_ms_min, config.limits.ttl_ms_max) == (1024, 1000, 1000)


@pytest.mark.parametrize("text", ["", '""'])
def test_health_may_be_off(text: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if text:
        file.write_text(f"health = {text}")
        assert load(str(file)).health is None
    else:
        monkeypatch.setenv("EMQPROXY_HEALTH", "")
        assert load().health is None


FILES = [
    ("late = 0.5", "late in FILE: unknown; write lateness.late, or remove it"),
    ("[lateness]\nlaet = 0.5", "lateness.laet in FILE: unknown; write lateness.late, or remove it"),
    ("[latenes]\nlate = 0.5", "latenes in FILE: unknown; write lateness, or remove it"),
    ("[lateness]\nlate = 0", "lateness.late in FILE: input should be greater than 0; write a share of"),
    ("[lateness]\nlate = 1.1\ncritical = 1", "lateness.late in FILE: input should be less than or equal to 1; write"),
    ("[lateness]\ncritical = nan", "lateness.critical in FILE: input should be "),
    ("[lateness]\nlate = true", "lateness.late in FILE: "),
    ("[lateness]\nlate = 0.8", "lateness in FILE: late is 0.8 and critical 0.8; write a late below critical"),
    ("lateness = 1", "lateness in FILE: not a table; write a table [lateness]"),
    ('mode = "on"', "mode in FILE: unknown value; write observe, shadow or enforce"),
    ("mode = 1", "mode in FILE: unknown value; write observe, shadow or enforce"),
    ("sole_path = 7", "sole_path in FILE: "),
    ('[rules]\nzero_token = "CANARY"', "rules.zero_token in FILE: unknown value; write observe, shadow or enforce"),
    ('[rules]\nzero = "shadow"', "rules.zero in FILE: unknown; "),
    ('[scripts]\nallow = "CANARY"', "scripts.allow in FILE: number 1 in it is no sha1; write a list of scripts' sha1s"),
    (f'[scripts]\nallow = ["{SHA}", "{SHA}0"]', "scripts.allow in FILE: number 2 in it is no sha1; write a list of"),
    (f'[scripts]\nallow = ["{SHA[:-1]}\\n"]', "scripts.allow in FILE: number 1 in it is no sha1; write a list of"),
    ("[scripts]\nallow = [31337]", "scripts.allow in FILE: not a list of sha1s; write a list of scripts' sha1s"),
    ("[scripts]\nallow = 31337", "scripts.allow in FILE: not a list of sha1s; write a list of scripts' sha1s"),
    ('[observer]\nadmin = "9465"', "observer.admin in FILE: not an address; write HOST:PORT, like 127.0.0.1:9465, or"),
    ("[observer]\nadmin = 9465", "observer.admin in FILE: not an address; write HOST:PORT, like 127.0.0.1:9465, or"),
    ("[limits]\njudge_bytes = 1", "limits.judge_bytes in FILE: input should be greater than or equal to 1024; write"),
    ("[limits]\nttl_ms_min = 0", "limits.ttl_ms_min in FILE: input should be greater than or equal to 1; write millis"),
    (
        "[limits]\nttl_ms_min = 5\nttl_ms_max = 4",
        "limits in FILE: ttl_ms_min is 5 and ttl_ms_max 4; write a ttl_ms_min of at most ttl_ms_max",
    ),
    ("[limits]\nlocks = 0", "limits.locks in FILE: input should be greater than or equal to 1; write a whole number"),
    ("[limits]\nlocks = 1.5", "limits.locks in FILE: not a whole number; write a whole number from 1"),
    ("[drain]\ntimeout = inf", "drain.timeout in FILE: input should be a finite number; write seconds"),
    ('listen = ["tls://0.0.0.0:1"]', "tls.cert_file in FILE: a tls:// listener has no certificate; write its PEM"),
    ('listen = ["a:1", "tls://a:1"]', "listen in FILE: the same address stands twice; write each once"),
    ('[tls]\nkey_file = "k"', "tls.cert_file in FILE: there is a key and no certificate; write its PEM file's path"),
    ('[upstream_tls]\nkey_password = "CANARY"', "upstream_tls.cert_file in FILE: there is a key and no certificate"),
    (
        '[upstream_tls]\nca_file = "c"',
        "upstream in FILE: [upstream_tls] is set and it is no rediss://; write rediss://",
    ),
    ("[tls]\nhandshake_timeout = 0", "tls.handshake_timeout in FILE: input should be greater than 0; write seconds"),
    ('[tls]\nkey_password_file = "/nowhere"', "tls.key_password_file in FILE: cannot read /nowhere (No such file or"),
    ("listen = []", 'listen in FILE: an empty list; write a list like ["tcp://'),
    ("listen = [1]", 'listen in FILE: not an address; write a list like ["tcp://'),
    ("listen = 1", 'listen in FILE: not a list; write a list like ["tcp://'),
    ('listen = ["unix:///tmp/a\\u0000b"]', "listen in FILE: a control character stands in it; write the address"),
    ('upstream = {host = "h"}', "upstream in FILE: not an address; write a URL like redis://"),
    ("health = 1", "health in FILE: not an address; write HOST:PORT, like 0.0.0.0:9464"),
    ("prefixes = []", 'prefixes in FILE: an empty list; write a list like ["emq", "bull"]'),
    ("prefixes = [1]", "prefixes in FILE: not a string; write a list like"),
    ('"late\\u001b[31m" = 1', "late\\u001b[31m in FILE: unknown; "),
    ('"a\\nb" = 1', "a\\u000ab in FILE: unknown; "),
    ("a = " + "[" * 3000, "FILE: nested too deep; write tables one deep"),
    ("a = " + "{b = " * 3000, "FILE: nested too deep; write tables one deep"),
    ("[a" + ".a" * 3000 + "]", "a in FILE: unknown; "),
    ("\ufeffsole_path = true", "FILE: begins with a byte order mark (BOM); save it as UTF-8 without one"),
    ('[observer]\njournal = "a\\u0000b"', "observer.journal in FILE: a control character stands in it; write a file"),
    ('listen = ["a:1", "tcp://a:1"]', "listen in FILE: the same address stands twice; write each once"),
    ('prefixes = ["emq:"]', "prefixes in FILE: a prefix stands without its last colon"),
    ('health = "9464"', "health in FILE: "),
    ('[trace]\ntoken = "hash"', "trace.token in FILE: unknown value; write fingerprint, raw or off"),
    ('[trace]\nnamespace = "a\\u0000b"', "trace.namespace in FILE: a control character stands in it; write a word"),
    ('upstream = "redis://u:CANARY/x@h"', "upstream in FILE: the port is no number"),
    ("[trace]\ntoken_key = 31337", "trace.token_key in FILE: not a string; write a secret"),
    ('[trace]\ntoken_key_file = "/nowhere"', "trace.token_key_file in FILE: cannot read /nowhere (No such file or"),
    ('[trace]\ntoken_key = "CANARY"\ntoken_key_file = "/x"', "trace.token_key_file in FILE: trace.token_key in"),
    ("log_level", "FILE: not TOML: Expected '=' after a key in a key/value pair (at end of document); write lines"),
    ("a = 1\na = 2", "FILE: not TOML: Cannot overwrite a value (at"),
]


@pytest.mark.parametrize(("text", "line"), FILES)
def test_every_mistake_in_a_file_is_one_line(text: str, line: str, file: Path) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        load(str(file))
    said = str(told.value).replace(str(file), "FILE")
    assert said.startswith(line)
    assert said.isprintable()
    assert not re.search("instance of|after validation|pattern|dictionary|value error", said)
    assert "CANARY" not in said
    assert "31337" not in said


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("EMQPROXY_LATENESS__LATE", "x", "EMQPROXY_LATENESS__LATE: not a number; write a share"),
        ("EMQPROXY_LATENESS__LAET", "1", "EMQPROXY_LATENESS__LAET: unknown; write EMQPROXY_LATENESS__LATE"),
        ("EMQPROXY_LATE", "1", "EMQPROXY_LATE: unknown; write EMQPROXY_LATENESS__LATE, or remove it"),
        ("EMQPROXY_LATENESS", "{}", "EMQPROXY_LATENESS: unknown; write EMQPROXY_LATENESS__LATE, or remove it"),
        ("EMQPROXY_UPSTREAM__HOST", "h", "EMQPROXY_UPSTREAM__HOST: unknown; write EMQPROXY_UPSTREAM, or remove it"),
        ("EMQPROXY_OBSERVER__ADMIN", "x", "EMQPROXY_OBSERVER__ADMIN: not an address; write HOST:PORT, like 127.0.0.1"),
        (
            "EMQPROXY_REQUIRE_UPSTREAM",
            "maybe",
            "EMQPROXY_REQUIRE_UPSTREAM: neither true nor false; write true or false",
        ),
        ("EMQPROXY_PREFIXES", '["a",]', "EMQPROXY_PREFIXES: no list; write it with commas, a,b, or as JSON"),
        ("EMQPROXY_PREFIXES", "[]", "EMQPROXY_PREFIXES: an empty list; write a list like"),
        ("EMQPROXY_UPSTREAM", "CANARY", "EMQPROXY_UPSTREAM: write redis://HOST:PORT"),
        ("EMQPROXY_CONFIG", "/nowhere", "/nowhere: No such file or directory; write the path of a TOML file"),
    ],
)
def test_every_mistake_in_a_variable_is_one_line(
    name: str, value: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as told:
        load()
    assert str(told.value).startswith(line)
    assert "CANARY" not in str(told.value)


def test_a_flag_is_named_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^--listen: unknown scheme"):
        load(None, {"listen": ["ftp://x:1"]})
    with pytest.raises(ConfigError, match=r"^--log-level: unknown value"):
        load(None, {"log_level": "loud"})


def test_what_kubernetes_sets_for_a_service_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_DATA", "PORT", "PORT_6380_TCP", "PORT_6380_TCP_ADDR"):
        monkeypatch.setenv(f"EMQPROXY_{name}", "tcp://10.0.0.1:6380")
    assert load() == Config()


def test_a_key_may_come_from_a_file_and_is_shown_nowhere(file: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("CANARY\n")
    file.write_text(f'upstream = "redis://u:CANARY@h"\n[trace]\ntoken_key_file = "{key}"')
    config = load(str(file))
    assert config.trace.token_key.get_secret_value() == "CANARY"
    assert "CANARY" not in "\n".join([*config.lines(), repr(config), str(config), repr(dict(config))])
    key.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        load(str(file))


def test_the_password_of_a_key_may_come_from_a_file_and_is_shown_nowhere(file: Path, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("CANARY\n")
    file.write_text(f'[tls]\ncert_file = "c"\nkey_password_file = "{tmp_path / "password"}"')
    config = load(str(file))
    assert config.tls.key_password.get_secret_value() == "CANARY"
    assert "CANARY" not in "\n".join([*config.lines(), repr(config)])


def test_what_is_shown_can_be_read_again(file: Path) -> None:
    config = load(
        None,
        {
            "listen": ["tcp://[::1]:0", "unix:///a/b"],
            "health": "",
            "observer.journal": 'a "b" \\c\x7f\x9b',
            "mode": "enforce",
            "rules.mass_delete": "observe",
            "scripts.allow": [SHA],
        },
    )
    assert all(line.isprintable() for line in config.lines())
    file.write_text("\n".join(config.lines()))
    assert load(str(file)) == config


def keys(table: dict[str, Any], above: str = "") -> set[str]:
    found: set[str] = set()
    for name, value in table.items():
        found |= keys(value, f"{above}{name}.") if isinstance(value, dict) else {above + name}
    return found


def test_the_example_has_every_key_at_its_default() -> None:
    text = EXAMPLE.read_text()
    assert load(str(EXAMPLE)) == Config()
    assert keys(tomllib.loads(text)) == keys(tomllib.loads("\n".join(Config().lines())))


def test_the_example_says_what_each_key_is() -> None:
    for line in EXAMPLE.read_text().splitlines():
        assert not line or line.startswith(("#", "[")) or "# " in line, f"without a word on it: {line}"
