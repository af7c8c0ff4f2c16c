"""What a client sends becomes a line of expected replies: its shape, and when it ends."""

from __future__ import annotations

from collections import deque

import pytest

from emqproxy.session.commands import CHANNEL_KINDS, CONFIRMATIONS, RULES, Rule
from emqproxy.session.intake import SILENT_MAX, Intake
from emqproxy.session.modes import Run, Slot
from emqproxy.wire.requests import RequestReader
from tests.session.talk import words


def line_of(*commands: bytes) -> tuple[list[object], Intake]:
    line: deque[Slot | Run] = deque()
    intake = Intake(line)
    intake.take(RequestReader(RULES).feed(b"".join(commands)), 1)
    return [item.count if isinstance(item, Run) else item.rule for item in line], intake


def test_plain_commands_are_one_counted_run_between_those_that_matter() -> None:
    line, _ = line_of(*[words("GET", "k")] * 5, words("MULTI"), words("SET", "a", "b"), words("EXEC"), words("PING"))
    assert line == [5, Rule.MULTI, 1, Rule.EXEC, 1]


def test_silenced_commands_leave_no_slot_and_the_next_one_is_guarded() -> None:
    line, intake = line_of(words("CLIENT", "REPLY", "OFF"), words("GET", "k"), words("CLIENT", "REPLY", "ON"))
    assert line == [Rule.CLIENT]
    slot = intake._line[0]
    assert isinstance(slot, Slot)
    assert slot.guarded
    assert line_of(words("CLIENT", "REPLY", "SKIP"), words("GET", "k"), words("GET", "k"))[0] == [None]


@pytest.mark.parametrize(
    "commands",
    [
        (words("MULTI"), words("CLIENT", "REPLY", "OFF")),
        (words("MULTI"), words("SUBSCRIBE", "a")),
        (words("SUBSCRIBE", "a"), words("CLIENT", "REPLY", "SKIP")),
        (words("CLIENT", "REPLY", "OFF"), words("SELECT", 1)),
        (words("CLIENT", "REPLY", "SKIP"), words("MULTI")),
        (words("MONITOR"),),
        (words("POST", "/"),),
        (words("CLIENT", "REPLY\0x", "OFF"),),
    ],
)
def test_what_cannot_be_followed_closes_the_line(commands: tuple[bytes, ...]) -> None:
    line, intake = line_of(*commands, words("PING"))
    assert line[-1] is Rule.BLIND
    assert intake.blind


@pytest.mark.parametrize(("way", "shape"), [("OFF\0x", []), ("skip\0", []), ("ON\0off", [2])])
def test_a_way_of_client_reply_ends_at_a_zero_byte(way: str, shape: list[object]) -> None:
    """So redis-server compares it: `OFF` with a tail keeps answers back."""
    assert line_of(words("CLIENT", "REPLY", way), words("GET", "k"))[0] == shape


def test_script_calls_under_silence_are_bounded() -> None:
    call = words("EVALSHA", "f" * 40, 0)
    _, intake = line_of(words("CLIENT", "REPLY", "OFF"), call * (SILENT_MAX + 2))
    assert intake.blind


def test_passwords_are_not_kept() -> None:
    hello = words("HELLO", 3, "AUTH", "user", "secretCANARY", "SETNAME", "w")
    _, intake = line_of(hello, words("AUTH", "secretCANARY"))
    assert "secretCANARY" not in repr(list(intake._line))


def test_the_tables_of_commands_agree() -> None:
    channels = {name for name, rule in RULES.items() if rule in {Rule.SUBSCRIBE, Rule.UNSUBSCRIBE}}
    assert channels == set(CHANNEL_KINDS)
    assert {name.upper() for name in CONFIRMATIONS} == channels
    assert all(name == name.upper() for name in RULES)
