"""`emqproxy simulate` as a user calls it: exit codes, what goes where, what is wrong in one line."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from emqproxy import cli
from emqproxy.simulation.course import play
from emqproxy.simulation.outcome import Outcome
from emqproxy.simulation.settings import Block, Setting
from tests.processes import environment

LOCK = ("--lock-duration", "30000")
STALLS = "Stalls: the lock lapses at 30000 ms, "


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", environment(COLUMNS="100", NO_COLOR="1"))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["simulate", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize(
    ("words", "code", "last"),
    [
        (["--renew", "15000"], 0, "Owned throughout: "),
        (["--renew", "30000"], 0, "Owned throughout: "),
        (["--renew", "30001"], 1, STALLS),
        (["--renew", "15000", "--block", "4000@12000"], 0, "Owned throughout: "),
        (["--renew", "15000", "--block", "40000@12000"], 1, STALLS),
        (
            ["--renew", "15000", "--block", "9000@0", "--block", "22000@9000"],
            1,
            "Stalls: the lock lapses at 30000 ms, ",
        ),
    ],
)
def test_the_answer_and_the_exit_code(
    words: list[str], code: int, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, *LOCK, *words)
    assert (found, err) == (code, "")
    assert any(line.startswith(last) for line in out.splitlines()[-2:])
    assert "\x1b" not in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_json_is_the_outcome_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--renew", "10000", "--stalled-interval", "7000", "--max-stalled", "2", "--block", "90000@1"]
    more = ["--first-sweep", "3000", "--block-every-attempt", "--json"]
    code, out, err = run(capsys, *LOCK, *words, *more)
    setting = Setting(
        lock_duration_ms=30_000, renew_ms=10_000, stalled_interval_ms=7_000, first_sweep_ms=3_000, max_stalled=2,
        blocks=(Block(1, 90_000),), block_every_attempt=True,
    )  # fmt: skip
    assert msgspec.json.decode(out, type=Outcome) == play(setting)
    assert (code, err, json.loads(out)["outcome"]) == (1, "", "failed")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([*LOCK], "missing option '--renew'; write it as emqproxy simulate --help shows"),
        (["--renew", "1"], "missing option '--lock-duration'; write it as emqproxy simulate --help shows"),
        ([*LOCK, "--renew", "15s"], "--renew: '15s' is no whole number; write milliseconds, like 15000"),
        ([*LOCK, "--renew", "0"], "--renew: 0 is out of range; write 1 to "),
        (
            [*LOCK, "--renew", "1", "--block", "5"],
            "--block: '5' is no block; write MS@MS, like 4000@12000: for 4000 ms",
        ),
        (
            [*LOCK, "--renew", "1", "--max-stalled", "-1"],
            "--max-stalled: '-1' is no whole number; write stalls, like 1",
        ),
        ([*LOCK, "--renew", "1", "--block", "1@99999999"], "--renew: 1 ms is so short beside the other times that "),
        (
            [*LOCK, "--renew"],
            "--renew: its value is missing; write --renew and the value that emqproxy simulate --help",
        ),
        ([*LOCK, "--renew", "1", "x"], "got unexpected extra argument(s) (x); write it as emqproxy simulate --help"),
        ([*LOCK, "--renew", "\x1b[31m"], "--renew: '\\x1b[31m' is no whole number"),
    ],
)
def test_bad_usage_is_one_line_and_code_2(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"emqproxy simulate: {line}")
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()


def test_the_defaults_are_the_documents(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, *LOCK, "--renew", "15000", "--json")
    assert msgspec.json.decode(out, type=Outcome).setting == Setting(lock_duration_ms=30_000, renew_ms=15_000)


def test_help_says_what_is_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    words = " ".join(out.split())
    assert code == 0
    for assumed in (
        "Redis answers at once",
        "multiples of their interval",
        "just as the lock ends is in time",
        "until",
    ):
        assert assumed in words


def test_a_terminal_of_ascii_is_written_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding="ascii") as file:
        monkeypatch.setattr("sys.stdout", file)
        assert cli.main(["simulate", *LOCK, "--renew", "45000"]) == 1
        file.flush()
        assert b"X" in written.getvalue()
