"""The command line as a user meets it: what is offered, exit codes, and one line for every mistake."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from emqproxy import __version__, cli
from emqproxy.scripts import texts
from emqproxy.scripts.catalogue import Catalogue
from tests.processes import environment

COMMANDS = [
    "run", "check-config", "scripts", "trace-id", "healthcheck", "demo", "simulate", "check", "explain", "replay",
]  # fmt: skip
RUN_OPTIONS = [
    "--config", "--listen", "--upstream", "--mode", "--journal", "--health", "--admin", "--require-upstream",
    "--log-level", "--help",
]  # fmt: skip
SHA = next(script.sha for script in Catalogue() if script.label == "moveToFinished-14")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(COLUMNS="200", NO_COLOR="1"))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(words)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_help_offers_what_is_built_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--help")
    assert (code, err) == (0, "")
    offered = re.findall(r"^  ([a-z-]+)  ", out.partition("Commands:")[2], re.MULTILINE)
    assert sorted(offered) == sorted(COMMANDS)


@pytest.mark.parametrize("words", [[name] for name in COMMANDS] + [["scripts", n] for n in ("list", "identify", "add")])
def test_every_command_has_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *words, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: emqproxy {' '.join(words)}")
    assert len(out.splitlines()[2].strip()) > 20  # a sentence on what it is for


def test_run_has_the_options_of_this_release(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "run", "--help")
    assert re.findall(r"^  (--[a-z-]+)", out, re.MULTILINE) == RUN_OPTIONS


@pytest.mark.parametrize("words", [["--version"], ["--version", "run"]])
def test_version(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *words) == (0, f"emqproxy {__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "emqproxy: missing command; write it as emqproxy --help shows"),
        (["rum"], "emqproxy: no such command 'rum'; write 'run'"),
        (["explain", "42"], "emqproxy explain: JOB: '42' is no job's key; write PREFIX:QUEUE:ID"),
        (["explain", "a:b:c", "--journal", "/nowhere"], "emqproxy explain: --journal: /nowhere: No such file or"),
        (["explain", "a:b:c", "--admin", "x"], "emqproxy explain: --admin: x: no URL; write one like http://"),
        (["explain", "a:b:c", "--admin", "http://127.0.0.1:1"], "emqproxy explain: --admin: http://127.0.0.1:1: Conn"),
        (["explain", "a:b:c", "--admin", "x", "--journal", "y"], "emqproxy explain: --admin: a journal is given alre"),
        (["replay", "/nowhere"], "emqproxy replay: FILE: /nowhere: No such file or directory; write the path of a j"),
        (["replay", "/dev/null"], "emqproxy replay: FILE: /dev/null: no line of a journal in it"),
        (["replay", "/dev/null", "--redact", "/dev/null"], "emqproxy replay: --redact: /dev/null: exists already"),
        (["--versoin"], "emqproxy: --versoin: no such option; write --version"),
        (["run", "--lisen", "x"], "emqproxy run: --lisen: no such option; write --listen"),
        (["run", "--mode", "on"], "emqproxy run: --mode: unknown value; write observe, shadow or enforce"),
        (["run", "--listen"], "emqproxy run: --listen: its value is missing; write --listen and the value that"),
        (["run", "--require-upstream=1"], "emqproxy run: --require-upstream: takes no value; write --require-upstream"),
        (["run", "x"], "emqproxy run: got unexpected extra argument(s) (x); write it as emqproxy run --help shows"),
        (
            ["run", "--listen", "ftp://x:1"],
            "emqproxy run: --listen: unknown scheme ftp://; write tcp://HOST:PORT, tls://HOST:PORT or",
        ),
        (["run", "--listen", "tls://x:1"], "emqproxy run: tls.cert_file: a tls:// listener has no certificate; write"),
        (["run", "--upstream", "redis://u:CANARY/@h"], "emqproxy run: --upstream: the port is no number"),
        (["run", "--health", "9464"], "emqproxy run: --health: "),
        (["run", "--log-level", "loud"], "emqproxy run: --log-level: unknown value; write debug, info, warning or"),
        (["run", "--config", "/nowhere"], "emqproxy run: /nowhere: No such file or directory; write the path of"),
        (["check"], "emqproxy check: missing argument 'FILE'; write it as emqproxy check --help shows"),
        (["check-config"], "emqproxy check-config: missing argument 'FILE'; write it as"),
        (["check-config", "/nowhere"], "emqproxy check-config: /nowhere: No such file or directory; write the path of"),
        (["scripts"], "emqproxy scripts: missing command; write it as emqproxy scripts --help shows"),
        (["scripts", "lst"], "emqproxy scripts: no such command 'lst'; write 'list'"),
        (["scripts", "identify", "/nowhere"], "emqproxy scripts identify: FILE|SHA: /nowhere: No such file or"),
        (["scripts", "add"], "emqproxy scripts add: missing argument 'PATH'; write it as emqproxy scripts add --help"),
        (["scripts", "add", "."], "emqproxy scripts add: --catalogue: there is no file to write to; write --catalogue"),
        (["scripts", "add", "/nowhere", "--catalogue", "x"], "emqproxy scripts add: PATH: /nowhere: No such file or"),
        (["scripts", "list", "--catalogue", "/nowhere"], "emqproxy scripts list: scripts.catalogue: /nowhere: No such"),
        (["trace-id"], "emqproxy trace-id: missing argument 'JOB'; write it as emqproxy trace-id --help shows"),
        (["trace-id", "42"], "emqproxy trace-id: JOB: '42' is no job's key; write PREFIX:QUEUE:ID"),
        (["trace-id", "emq:orders:"], "emqproxy trace-id: JOB: 'emq:orders:' is no job's key; write PREFIX:QUEUE:ID"),
        (["trace-id", "emq:orders:@3"], "emqproxy trace-id: JOB: 'emq:orders:@3' is no job's key; write"),
        (["trace-id", "emq::42"], "emqproxy trace-id: JOB: 'emq::42' is no job's key; write PREFIX:QUEUE:ID"),
        (["trace-id", "emq:q:42@x"], "emqproxy trace-id: JOB: 'emq:q:42@x': no database's number stands after the @"),
        (["trace-id", "emq:q:42@-1"], "emqproxy trace-id: JOB: 'emq:q:42@-1': no database's number stands after"),
        (["trace-id", "emq:q:42@" + "9" * 23], f"emqproxy trace-id: JOB: 'emq:q:42@{'9' * 23}': no database's"),
        (["trace-id", "bull:q:me@example.org"], "emqproxy trace-id: JOB: 'bull:q:me@example.org': no database's"),
        (["r\x1b[31mun"], "emqproxy: no such command"),
        (["healthcheck", "--x"], "emqproxy healthcheck: --x: no such option; write --health HOST:PORT or --url URL"),
        (["demo", "--keap"], "emqproxy demo: --keap: no such option; write --keep"),
    ],
)
def test_bad_usage_is_one_line_and_code_2(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith(line)
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()
    assert "CANARY" not in err


def test_check_config_shows_what_is_in_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.toml"
    file.write_text('upstream = "redis://u:CANARY@h"\n[trace]\ntoken_key = "CANARY"')
    code, out, err = run(capsys, "check-config", str(file))
    assert (code, err) == (0, "")
    assert 'upstream = "redis://h:6379"\n' in out
    assert 'token_key = "" # set, and not shown' in out
    assert "CANARY" not in out
    file.write_text("[lateness]\nlate = 2")
    code, out, err = run(capsys, "check-config", str(file))
    assert (code, out) == (2, "")
    assert err.startswith(f"emqproxy check-config: lateness.late in {file}: ")


def test_scripts_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "scripts", "list")
    rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert len(rows) == len(Catalogue()) > 600
    assert [row[3:] for row in rows if row[3:]] == [["lua/"]] * len(texts.names())
    assert all(re.fullmatch(r"\w+-\d+", row[0]) and len(row[2]) == 40 for row in rows)


def test_scripts_identify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "scripts", "identify", SHA.upper())
    assert code == 0
    assert out.split()[0] == "moveToFinished-14"
    assert out.split()[2:] == [SHA, "catalogue"]
    stranger = tmp_path / "a.lua"
    stranger.write_text("return 1")
    code, out, err = run(capsys, "scripts", "identify", str(stranger))
    assert (code, out) == (1, "")
    assert err == f"emqproxy scripts identify: {stranger}: no script of the lock protocol is known by it\n"
    assert run(capsys, "scripts", "identify", "0" * 40)[0] == 1


@pytest.mark.parametrize("by", ["option", "variable"])
def test_scripts_add_and_what_then_knows_them(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, file = tmp_path / "mine", tmp_path / "own.json"
    own.mkdir()
    text = "-- ours\nif redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0\r\n"
    (own / "extendLock-2.lua").write_bytes(text.encode())
    (own / "unheardOf-1.lua").write_text("return 1")
    sha = hashlib.sha1(text.encode()).hexdigest()
    option = ["--catalogue", str(file)] if by == "option" else []
    if by == "variable":
        monkeypatch.setenv("EMQPROXY_SCRIPTS__CATALOGUE", str(file))
    code, out, err = run(capsys, "scripts", "add", str(own / "extendLock-2.lua"), *option)
    assert (code, err) == (0, "")
    added, summary = out.splitlines()
    assert added.split() == ["extendLock-2", "4.0.0-6.7.0", sha, "added"]
    assert summary == f"1 added to {file}; 0 of published releases; 0 left out"
    before = file.read_bytes()
    code, out, err = run(capsys, "scripts", "add", str(own), *option)
    assert code == 1
    assert out.splitlines()[-1] == f"0 added to {file}; 0 of published releases; 1 left out"
    assert err.startswith("emqproxy scripts add: mine/unheardOf-1.lua: no script unheardOf is known")
    assert err.count("\n") == 1
    assert file.read_bytes() == before.replace(b'"extendLock-2.lua"', b'"mine/extendLock-2.lua"')
    assert run(capsys, "scripts", "list", *option)[1].splitlines()[-1].split() == ["extendLock-2", "-", sha, str(file)]
    for what in (sha, str(own / "extendLock-2.lua")):
        assert run(capsys, "scripts", "identify", what, *option) == (0, f"extendLock-2  -  {sha}  catalogue\n", "")


@pytest.mark.parametrize("command", ["run", "check-config", "add"])
def test_a_bad_catalogue_is_one_line(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, config = tmp_path / "own.json", tmp_path / "a.toml"
    own.write_text("[]")
    config.write_text(f'[scripts]\ncatalogue = "{own}"')
    words = {
        "run": ["run", "--config", str(config)],
        "check-config": ["check-config", str(config)],
        "add": ["scripts", "add", str(tmp_path), "--catalogue", str(own)],
    }[command]
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert f"scripts.catalogue: {own}: not a catalogue of scripts (" in err
    assert err.count("\n") == 1


def trace(namespace: bytes, db: bytes, key: bytes) -> str:
    """By the formula that is promised to users, not by our own function."""
    data = namespace + b"\0" + db + b"\0" + key
    return hashlib.blake2b(data, digest_size=16, person=b"emqproxy.trace.1").hexdigest()


@pytest.mark.parametrize(
    ("words", "identity"),
    [
        (["emq:orders:42"], (b"", b"0", b"emq:orders:42")),
        (["emq:orders:42@3"], (b"", b"3", b"emq:orders:42")),
        (["emq:orders:42", "--namespace", "prod"], (b"prod", b"0", b"emq:orders:42")),
        (["bull:q:me@example.org@0"], (b"", b"0", b"bull:q:me@example.org")),
        (["bull:q:é"], (b"", b"0", "bull:q:é".encode())),
    ],
)
def test_trace_id(words: list[str], identity: tuple[bytes, bytes, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "trace-id", *words) == (0, trace(*identity) + "\n", "")


def test_trace_id_takes_the_namespace_of_the_configuration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", environment(EMQPROXY_TRACE__NAMESPACE="prod-eu"))
    assert run(capsys, "trace-id", "emq:q:1")[1] == trace(b"prod-eu", b"0", b"emq:q:1") + "\n"


def test_as_a_module_and_quick_to_tell_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "emqproxy", "--version"],
        env=environment(), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"emqproxy {__version__}\n")
    assert "typer" not in done.stderr


def test_the_exit_code_is_the_process_s() -> None:
    done = subprocess.run([sys.executable, "-m", "emqproxy", "rum"], env=environment(), capture_output=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
