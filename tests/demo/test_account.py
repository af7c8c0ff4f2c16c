"""The account: plain lines for a file, and on a terminal the locks that are held just now, as they run down."""

from __future__ import annotations

import datetime as dt
import io
import re
from typing import Any

import pytest
from rich.console import Console

from emqproxy.demo.account import Account
from emqproxy.demo.plan import JOBS, KILLED, ROBBED, STUCK
from tests.demo.lines import BEGAN, told


def console(*, terminal: bool, width: int = 80, no_color: bool = True) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=width, no_color=no_color, _environ={"TERM": "xterm"}), out


def shown(account: Account, out: io.StringIO, seconds: float) -> str:
    """What is drawn below the account at an instant."""
    before = out.tell()
    account.refresh(BEGAN + dt.timedelta(seconds=seconds))
    return out.getvalue()[before:]


def until(job: str, effect: str) -> list[dict[str, Any]]:
    """A job's lines to the first one of such an effect."""
    lines = told(job)
    return lines[: [line["effect"] for line in lines].index(effect) + 1]


def test_a_file_gets_one_plain_line_for_each_sentence() -> None:
    out, text = console(terminal=False, width=40)
    with Account(out) as account:
        for job in JOBS:
            account.begin(job)
            for line in told(job):
                account.tell(line)
                account.refresh()
        account.direct("$ kill -9 42")
    said = text.getvalue()
    assert "\x1b" not in said
    assert "  0.0 s  worker-1 picked it up: its lock lives 3.0 s, unless it is renewed.\n" in said
    assert "         worker-2 holds the lock: the result of the work is thrown away.\n" in said
    assert said.endswith("\n         $ kill -9 42\n")
    assert "left" not in said.replace("were left", ""), "what runs down is for terminals only"


def test_a_terminal_s_lines_are_no_wider_than_it_is() -> None:
    out, text = console(terminal=True, width=60)
    account = Account(out)
    for line in (line for job in JOBS for line in told(job)):
        account.tell(line)
    account.direct("$ " + "word " * 30)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue()).splitlines()
    assert len(lines) > 30
    assert max(map(len, lines)) <= 60
    assert all(line.startswith(" ") for line in lines), "indented where it goes on"


def test_a_held_lock_runs_down_and_is_gone_when_it_is_given_back() -> None:
    out, text = console(terminal=True)
    with Account(out) as account:
        lines = told("healthy")
        account.tell(lines[0])
        assert "worker-1 healthy" in shown(account, text, 1.0)
        assert "2.0 s left" in shown(account, text, 2.0)
        account.tell(lines[1])
        assert "3.0 s left" in shown(account, text, 2.0)
        account.tell(lines[2])
        assert "left" not in shown(account, text, 3.0)


def test_one_who_works_on_without_a_lock_stands_beside_the_new_holder() -> None:
    out, text = console(terminal=True)
    with Account(out) as account:
        for line in until(STUCK, "held_by_other")[:-1]:
            account.tell(line)
        both = shown(account, text, 7.5)
        assert "worker-1 stuck" in both
        assert "no lock any more" in both
        assert "worker-2 stuck" in both
        account.tell(until(STUCK, "held_by_other")[-1])
        assert "worker-1" not in shown(account, text, 8.5)


def test_a_deleted_lock_is_no_lock() -> None:
    out, text = console(terminal=True)
    with Account(out) as account:
        for line in until(ROBBED, "deleted"):
            account.tell(line)
        assert "no lock any more" in shown(account, text, 3.0)


def test_a_dead_worker_s_lock_is_shown_until_another_takes_the_job() -> None:
    out, text = console(terminal=True)
    with Account(out) as account:
        *before, takeover, _ = told(KILLED)
        for line in before:
            account.tell(line)
        account.died("worker-1")
        assert "worker-1 killed" in shown(account, text, 6.0)
        account.tell(takeover)
        assert "worker-1" not in shown(account, text, 7.5)


@pytest.mark.parametrize("no_color", [True, False])
def test_colour_can_be_switched_off(no_color: bool) -> None:
    out, text = console(terminal=True, no_color=no_color)
    for line in told("slow"):
        Account(out).tell(line)
    assert ("\x1b[33m" in text.getvalue()) is not no_color


def test_a_job_that_is_played_again_says_why() -> None:
    out, text = console(terminal=False)
    Account(out).begin("slow", again=True)
    assert text.getvalue() == "\nslow: once more, as this machine stood still for too long\n"
