"""The gated session: answer n goes to question n whatever was refused, and nothing goes on that was not judged."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from emqproxy.session.exchange import NOT_RUN, ErrorReply, Missing
from emqproxy.session.gated import PLACEHOLDER, REJECTED_WHEN_QUEUEING
from emqproxy.session.standing import UNPROVEN_BYTES_MAX
from tests.session.gated_talk import ABORTED, Asked, Gated, answers, expected, numbered, refusal
from tests.session.talk import pieces, words

PUSH = b">2\r\n"
KINDS = ("call", "call", "call", "plain", "plain", "MULTI", "EXEC", "DISCARD", "SKIP", "OFF", "ON", "HELLO", "PING")


def _said(kind: str, number: int, resp: int) -> bytes:
    match kind:
        case "call":
            return numbered(number)
        case "plain":
            return words("ECHO", f"plain {number}")
        case "HELLO":
            return words("HELLO", resp)
        case "SKIP" | "OFF" | "ON":
            return words("CLIENT", "REPLY", kind)
    return words(kind)


@st.composite
def conversations(draw: st.DrawFn) -> list[Asked]:
    """MULTI is not begun inside MULTI, nor anything but calls while answers are kept back: there the gate closes."""
    asked: list[Asked] = []
    multi = off = skip = False
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=25)):
        said = _said(kind, len(asked), draw(st.sampled_from([2, 3, 3])))
        changes = kind in {"MULTI", "EXEC", "DISCARD", "HELLO"}
        if (changes and (off or skip)) or (kind in {"SKIP", "OFF", "ON", "HELLO"} and multi):
            continue
        if kind in {"EXEC", "DISCARD", "MULTI"}:
            if multi == (kind == "MULTI"):
                continue
            multi = kind == "MULTI"
        skip = kind == "SKIP" and not off
        off = (off or kind == "OFF") and kind != "ON"
        asked.append(Asked(said, kind == "call" and draw(st.booleans())))
    if multi:
        asked.append(Asked(words("EXEC")))
    return asked


CUTS = st.lists(st.integers(0, 1 << 20), max_size=8)


@settings(deadline=None, max_examples=300)
@given(conversations(), CUTS, CUTS, st.integers(0, 1 << 30))
@example([Asked(words("HELLO", 3)), Asked(numbered(1), True), Asked(numbered(2), True)], [], list(range(60)), 3)
def test_answer_n_goes_to_question_n(asked: list[Asked], cuts: list[int], back: list[int], seed: int) -> None:
    gated = Gated(number for number, one in enumerate(asked) if one.refused)
    upstream = gated.asks(*pieces(b"".join(one.raw for one in asked), cuts))
    assert gated.session.blinded is None
    assert not any(one.raw in upstream for one in asked if one.refused)
    frames = list(answers(upstream, random.Random(seed)))
    told = gated.hears(*pieces(b"".join(frames), back))
    want = expected(asked)
    # In place: each of the server's frames is given, but for those that answer a replacement.
    left = list(want)
    assert told == b"".join([frame if frame.startswith(PUSH) else _given(frame, left) for frame in frames])
    assert left == []
    assert gated.session.answered
    assert not gated.session.swaps
    for exchange in gated.exchanges:
        number = int(exchange.command.words[-1] or b"-1")
        assert not asked[number].refused
        assert exchange.reply == number or isinstance(exchange.reply, ErrorReply | Missing)


def _given(frame: bytes, left: list[bytes]) -> bytes:
    """A server's frame as the client is given it: the next answer it must be given, with an attribute of its own."""
    want = left.pop(0)
    if frame.startswith(b"|") and frame.endswith(want):
        return frame
    assert want.startswith(b"-EMQPROXY") or frame == want
    return want


@settings(deadline=None)
@given(conversations(), CUTS, CUTS)
def test_however_it_is_cut_the_same_comes_of_it(asked: list[Asked], cuts: list[int], back: list[int]) -> None:
    refused = [number for number, one in enumerate(asked) if one.refused]
    whole, cut_up = Gated(refused), Gated(refused)
    data = b"".join(one.raw for one in asked)
    upstream = whole.asks(data)
    assert cut_up.asks(*pieces(data, cuts)) == upstream
    said = b"".join(answers(upstream, random.Random(len(data))))
    assert cut_up.hears(*pieces(said, back)) == whole.hears(said)
    of_whole, of_cut = (
        [(one.command.request, one.reply, one.in_exec, one.db) for one in gated.exchanges] for gated in (whole, cut_up)
    )
    assert of_cut == of_whole


# ---------------------------------------------------------------- each rule by hand


def test_a_refused_call_is_replaced_and_its_answer_swapped() -> None:
    gated = Gated([2])
    assert gated.asks(numbered(1) + numbered(2) + words("GET", "k")) == numbered(1) + PLACEHOLDER + words("GET", "k")
    assert gated.session.swaps
    assert gated.hears(b":1\r\n+PO", b"NG\r\n$-1\r\n") == b":1\r\n" + refusal(2) + b"$-1\r\n"
    assert [exchange.reply for exchange in gated.exchanges] == [1]
    assert not gated.session.swaps


def test_inside_multi_it_makes_redis_abort_the_exec() -> None:
    gated = Gated([2])
    multi, ends = words("MULTI"), words("EXEC")
    assert gated.asks(multi + numbered(1) + numbered(2) + ends) == multi + numbered(1) + REJECTED_WHEN_QUEUEING + ends
    told = gated.hears(b"+OK\r\n+QUEUED\r\n-ERR wrong number of arguments for 'get' command\r\n" + ABORTED)
    assert told == b"+OK\r\n+QUEUED\r\n" + refusal(2) + ABORTED
    assert [exchange.reply for exchange in gated.exchanges] == [NOT_RUN]


def test_under_client_reply_nothing_is_given_and_a_skip_is_used_up() -> None:
    gated = Gated([1, 3])
    asked = words("CLIENT", "REPLY", "SKIP") + numbered(1) + numbered(2) + words("CLIENT", "REPLY", "OFF") + numbered(3)
    gated.asks(asked + words("CLIENT", "REPLY", "ON"))
    assert not gated.session.swaps
    assert gated.hears(b":2\r\n+OK\r\n") == b":2\r\n+OK\r\n"


def test_what_is_kept_back_is_not_waited_for_before_a_close() -> None:
    """Calls under CLIENT REPLY OFF have no answer; a connection that is to be closed would wait for ever."""
    gated = Gated()
    gated.asks(words("CLIENT", "REPLY", "OFF") + numbered(1) + b"*+1\r\n")
    assert gated.session.blinded
    assert gated.session.answered
    waits = Gated()
    waits.asks(numbered(1) + words("CLIENT", "REPLY", "OFF") + numbered(2) + b"*+1\r\n")
    assert not waits.session.answered
    waits.hears(b":1\r\n")
    assert waits.session.answered
    assert [exchange.reply for exchange in waits.exchanges] == [1]


def test_the_begin_of_a_replacement_s_answer_is_held_and_a_push_is_not() -> None:
    gated = Gated([1])
    gated.asks(words("HELLO", 3) + numbered(0) + numbered(1))
    assert gated.hears(b"%0\r\n:0\r\n") == b"%0\r\n:0\r\n"
    assert gated.hears(b"+") == b""
    assert gated.session.swaps
    assert gated.hears(b"PONG\r\n+") == refusal(1) + b"+"
    again = Gated([1])
    again.asks(words("HELLO", 3) + numbered(1))
    again.hears(b"%0\r\n")
    push = b">2\r\n+message\r\n$20\r\n" + b"+PONG\r\n+PONG\r\n:1\r\n*1" + b"\r\n"
    told = b"".join(again.hears(push[at : at + 1]) for at in range(len(push)))
    assert told == push
    assert again.hears(b"+PONG\r\n") == refusal(1)


@pytest.mark.parametrize("bad", [b"*+1\r\n", b"*0\r\n", words("MONITOR"), words("DEL\0", "k"), b"GET 'k'\r\n"])
def test_nothing_behind_what_cannot_be_judged_goes_on(bad: bytes) -> None:
    gated = Gated()
    assert gated.asks(words("PING") + bad + numbered(1), numbered(2)) == words("PING")
    assert gated.session.blinded
    assert gated.judged == []
    assert gated.hears(b"+PONG\r\n") == b"+PONG\r\n"
    assert gated.session.answered


def test_nothing_goes_on_behind_quit() -> None:
    gated = Gated()
    assert gated.asks(words("QUIT") + numbered(1), numbered(2)) == words("QUIT")
    assert gated.session.blinded is None
    assert gated.hears(b"+OK\r\n") == b"+OK\r\n"


def test_one_too_large_is_refused_in_its_place() -> None:
    """Of a connection to which Redis has answered, `judge_bytes` is the limit; of another, UNPROVEN_BYTES_MAX."""
    gated = Gated()
    gated.session.judge_bytes = 3 * UNPROVEN_BYTES_MAX
    large = words("EVALSHA", "f" * 40, 0, b"v" * 2 * UNPROVEN_BYTES_MAX)
    assert gated.asks(words("PING") + large + words("PING")) == words("PING") + PLACEHOLDER + words("PING")
    told = gated.hears(b"+PONG\r\n+PONG\r\n+PONG\r\n")
    assert told.startswith(b"+PONG\r\n-EMQPROXY too_large ")
    assert told.endswith(b"\r\n+PONG\r\n")
    assert gated.asks(large) == large
    assert gated.judged == [b"v" * 2 * UNPROVEN_BYTES_MAX]


def test_errors_prove_nobody() -> None:
    gated = Gated()
    gated.asks(words("PING"))
    gated.hears(b"-NOAUTH Authentication required.\r\n")
    large = words("EVALSHA", "f" * 40, 0, b"v" * 2 * UNPROVEN_BYTES_MAX)
    assert gated.asks(large) == PLACEHOLDER


def test_the_last_error_before_a_close_is_given_but_never_in_a_refusal_s_place() -> None:
    gated = Gated()
    gated.asks(numbered(1))
    assert gated.hears(b":1\r\n-ERR Protocol error\r\n") == b":1\r\n-ERR Protocol error\r\n"
    assert gated.session.over
    queued = Gated([1])
    queued.asks(words("MULTI") + numbered(1) + words("EXEC"))
    assert queued.hears(b"+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n") == b"+OK\r\n" + refusal(1) + b"*1\r\n+PONG\r\n"
    assert queued.session.over


def test_past_its_bookkeeping_a_connection_is_closed() -> None:
    gated = Gated()
    gated.session._pending_bytes_max = 10_000
    calls = [numbered(number) for number in range(100)]
    upstream = gated.asks(b"".join(calls))
    assert 5 < len(upstream) // len(calls[10]) < 20
    assert gated.session.blinded == "its unanswered requests take more than limits.pending_bytes"


def test_a_session_that_was_free_is_gated_between_commands() -> None:
    """What was asked before keeps its answers; a frame that was read in part is given on as it is."""
    gated = Gated([1])
    session = gated.session
    (command,) = session.from_client(numbered(0) + b"*2\r\n$3\r\nGE", 1)
    session.keep(command)
    assert not session.at_boundary
    assert session.open_bytes <= len(b"T\r\n$1\r\nk\r\n")
    session.from_client(b"T\r\n$1\r\nk\r\n", 1)
    assert session.at_boundary
    assert session.from_server(b":0\r\n$2", 1)[0].reply == 0
    session.gate()
    assert gated.asks(numbered(1)) == PLACEHOLDER
    rest = b"0\r\n" + b"x" * 20 + b"\r\n"
    assert gated.hears(rest[:13], rest[13:] + b"+PONG\r\n") == rest + refusal(1)
