"""`emqproxy check` as a user calls it: exit codes, the table, JSON, and files that prove nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from emqproxy import cli
from tests.observer.records_factory import Numbers, Story, blind, decided
from tests.processes import environment
from tests.shadowed import write_journal


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(COLUMNS="200", NO_COLOR="1"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.ndjson"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["check", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def lawful(path: Path) -> Path:
    story = Story()
    return write_journal(path, *(decided(r, "passed") for r in (story.acquire(0), story.renew(1), story.finish(2))))


def shadowed(path: Path) -> Path:
    story = Story()
    batch = [
        decided(story.acquire(0), "passed"),
        decided(story.renew(1), "would_block", "zero_token"),
        decided(story.finish(2), "would_block", "mass_delete"),
    ]
    return write_journal(path, *batch)


def test_nothing_would_have_been_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, str(lawful(path)))
    assert (code, err) == (0, "")
    assert "3 calls were judged: none would have been refused." in out
    assert len(out.splitlines()) == 1


def test_what_would_have_been_refused_is_a_table_a_rule_with_what_to_do(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, str(shadowed(path)))
    assert (code, err) == (1, "")
    zero, mass = out.index("zero_token: 1 would have been refused, of which Redis took 1"), out.index("mass_delete: 1")
    assert zero < out.index("emq:b3JkZXJz:w:one", zero) < out.index("renew emq:orders:42") < mass
    assert 'rules.mass_delete is "shadow": mode "enforce" alone lets them pass' in out[mass:]
    assert 'token "0"' in out[zero:mass]
    assert out.splitlines()[-1].endswith("3 calls were judged: 2 would have been refused, by 2 rules.")


def test_the_rules_are_those_of_the_configuration(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "a.toml"
    config.write_text('[rules]\nmass_delete = "enforce"\nzero_token = "observe"')
    _, out, _ = run(capsys, str(shadowed(path)), "--config", str(config))
    assert 'rules.zero_token is "observe"' in out
    assert "rules.mass_delete" not in out


def test_what_enforce_has_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    code, out, _ = run(capsys, str(write_journal(path, decided(story.acquire(0), "passed"), story.finish_blocked(5))))
    assert code == 1
    assert "lapsed_holder: 1 refused\n" in out
    assert out.splitlines()[-1].endswith("2 calls were judged: 1 was refused, by 1 rule.")


def test_json_has_the_same_and_no_character_that_a_terminal_acts_upon(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    story.peer = story.peer.__class__(7, "127.0.0.1:1", "[red]\x9b31m\x1b[31m")
    write_journal(path, decided(story.acquire(0), "would_block", "bad_duration"))
    code, out, _ = run(capsys, str(path), "--json")
    told = json.loads(out)
    assert (code, told["file"], told["would_block"], told["rules"][0]["stance"]) == (1, str(path), 1, "enforce")
    assert told["rules"][0]["offences"][0]["client"] == "[red]\x9b31m\x1b[31m"
    assert out.isascii()
    assert "\x1b" not in out
    code, out, _ = run(capsys, str(path))
    assert "[red]\\u009b31m\\u001b[31m" in out
    assert "\x1b" not in out


def test_rotated_halves_are_read_from_standard_input(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shadowed(path).read_bytes()
    torn = whole[: len(whole) - 9]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(torn)))
    code, out, _ = run(capsys, "-")
    assert code == 1
    assert "1 line is no journal's (torn, or of another program): passed over." in out


def test_a_line_without_an_end_is_not_held(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = lawful(path).read_bytes()
    path.write_bytes(whole + b"x" * (5 << 20) + b"\n" + whole)
    code, out, _ = run(capsys, str(path))
    assert code == 0
    assert "1 line is no journal's" in out
    assert "6 calls were judged" in out


def test_what_a_journal_does_not_tell_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story()
    first = decided(story.acquire(0), "passed")
    story.numbers.seq += 4
    write_journal(path, first, story.renew(1))
    with path.open("ab") as file:
        file.write(b'{"v":2}\n')
    code, out, _ = run(capsys, str(path))
    assert code == 0
    assert "1 call was taken in observe mode: of that nothing is known." in out
    assert "4 lines are missing" in out
    assert "1 line is of another version" in out


def test_a_file_that_proves_nothing_is_code_2_and_says_what_to_do(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story()
    observed = write_journal(path, story.acquire(0), story.renew(1))
    idle = write_journal(path.with_name("idle"), blind(Numbers(), 5))
    other, none, empty = (path.with_name(name) for name in ("other", "none", "empty"))
    other.write_text('{"v":2}\n')
    none.write_text("GET / HTTP/1.1\n")
    empty.write_text("")
    take = 'take one with mode = "shadow"'
    for file, words in (
        (observed, f"its 2 calls were taken in observe mode, where nothing is decided: it proves nothing; {take}"),
        (idle, f"no call of a worker stands in it: it proves nothing; {take} while there is work to do"),
        (other, "a journal of another version; read it with the release that wrote it"),
        (none, f"no line of a journal stands in it; {take}, with --journal FILE"),
        (empty, f"no line of a journal stands in it; {take}, with --journal FILE"),
    ):
        assert run(capsys, str(file)) == (2, "", f"emqproxy check: FILE: {file}: {words}\n")
        assert run(capsys, str(file), "--json")[0] == 2


@pytest.mark.parametrize(("file", "words"), [("/nowhere", "No such file or directory"), ("/", "Is a directory")])
def test_a_file_that_cannot_be_read_is_one_line(file: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, file)
    assert (code, out) == (2, "")
    assert err == f"emqproxy check: FILE: {file}: {words}; write the path of a journal, or - for stdin\n"
