"""A connection of which it is open whether Redis does what it asks: little is held for it, and nobody is refused for
that who may ask. `tests/proxy/test_unproven` holds the same against a Redis with a password, and one without.
"""

from __future__ import annotations

import pytest

from emqproxy.session.gated import PLACEHOLDER
from emqproxy.session.standing import (
    UNASKED_WORD_BYTES_MAX,
    UNASKED_WORDS_MAX,
    UNPROVEN_BYTES_MAX,
    WAITING_BYTES,
    denies,
    is_last_word,
    proves,
    trespass,
    trespasses,
)
from emqproxy.wire.items import Held
from emqproxy.wire.replies import HEAD_BYTES_MAX, ReplyReader
from tests.session.gated_talk import SHA, Gated, numbered, refusal, split
from tests.session.talk import words

NOAUTH = b"-NOAUTH Authentication required.\r\n"
CLOSED = b"-ERR Protocol error: unauthenticated bulk length\r\n"
LARGE = words("EVALSHA", SHA, 0, b"v" * (3 * WAITING_BYTES))
HEAD, REST = LARGE[: 2 * WAITING_BYTES], LARGE[2 * WAITING_BYTES :]
WIDE = words("EVALSHA", SHA, 0, *range(9))


def frame(raw: bytes):
    reader = ReplyReader()
    reader.feed(raw)
    return reader.next(HEAD_BYTES_MAX)


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"+OK\r\n", True), (b":0\r\n", True), (b"$-1\r\n", True), (b"*0\r\n", True), (b"%0\r\n", True),
        (b"-NOSCRIPT No matching script. Please use EVAL.\r\n", True), (b"-NOPERM this user has no\r\n", True),
        (b"-LOADING Redis is loading\r\n", True), (b"-WRONGTYPE Operation against\r\n", True),
        (b"+RESET\r\n", False),
        (NOAUTH, None), (b"-WRONGPASS invalid\r\n", None), (b"-NOPROTO unsupported\r\n", None),
        (b"-ERR unknown command 'X'\r\n", None), (b"-DENIED Redis is running in protected mode\r\n", None),
    ],
)  # fmt: skip
def test_what_an_answer_proves(raw: bytes, what: bool | None) -> None:
    assert proves(frame(raw)) is what
    assert denies(frame(raw)) is (raw == NOAUTH)
    assert not is_last_word(frame(raw))


def test_redis_s_last_word() -> None:
    assert is_last_word(frame(CLOSED))
    assert proves(frame(CLOSED)) is None


@pytest.mark.parametrize("held", [Held(UNASKED_WORDS_MAX + 1, 0, 0), Held(3, UNASKED_WORD_BYTES_MAX + 1, 0)])
def test_a_trespass_is_one_command_that_only_asks(held: Held) -> None:
    assert trespasses(held)
    assert not trespasses(Held(UNASKED_WORDS_MAX, UNASKED_WORD_BYTES_MAX, 1 << 20))
    (said,) = split(trespass(held))
    assert said[:2] == [b"SCRIPT", b"EXISTS"]
    assert (len(said) > UNASKED_WORDS_MAX) is (held.words > UNASKED_WORDS_MAX)
    assert (max(map(len, said)) > UNASKED_WORD_BYTES_MAX) is (held.longest > UNASKED_WORD_BYTES_MAX)


# ---------------------------------------------------------------- a session


ASKED = trespass(Held(4, 3 * WAITING_BYTES, 0))
NONE = b"*1\r\n:0\r\n"


def question(gated: Gated) -> bytes:
    return gated.session.question(1)


def test_a_command_that_nobody_may_send_is_asked_after_and_waits_for_the_answer() -> None:
    gated = Gated()
    assert (gated.asks(HEAD), question(gated), gated.session.waits) == (b"", ASKED, True)
    assert question(gated) == b"", "once"
    assert gated.hears(NONE[:5]) == b""
    assert gated.hears(NONE[5:]) == b"", "nobody asked but we"
    assert not gated.session.waits
    assert (question(gated), gated.asks(REST + numbered(1))) == (b"", LARGE + numbered(1))
    assert gated.hears(b":0\r\n:1\r\n") == b":0\r\n:1\r\n"
    assert gated.session.answered
    assert (gated.asks(HEAD), question(gated)) == (b"", b""), "it is known by now"


@pytest.mark.parametrize("part", [WIDE[:5], b"*4\r\n$7\r\nEVALSHA\r\n$16385\r\n"])
def test_what_is_declared_is_enough_to_ask(part: bytes) -> None:
    gated = Gated()
    assert gated.asks(part) == b""
    (said,) = split(question(gated))
    assert (len(said) > UNASKED_WORDS_MAX) is part.startswith(b"*12")
    assert not gated.session.waits


@pytest.mark.parametrize("whole", [WIDE, numbered(1), words("EVALSHA", SHA, 0, b"v" * UNASKED_WORD_BYTES_MAX)[:-1]])
def test_what_comes_whole_or_is_small_is_not_asked_after(whole: bytes) -> None:
    gated = Gated()
    gated.asks(whole)
    assert question(gated) == b""


def test_whom_a_password_is_asked_hears_what_redis_says_to_what_it_sent() -> None:
    gated = Gated()
    gated.asks(HEAD)
    question(gated)
    assert gated.hears(CLOSED[:9], CLOSED[9:]) == CLOSED
    assert question(gated) == b""


def test_a_server_without_such_limits_gets_the_command_to_refuse_it_itself() -> None:
    """Up to UNPROVEN_BYTES_MAX; nothing is waited for then, for no answer will come."""
    gated = Gated()
    gated.asks(HEAD)
    question(gated)
    assert gated.hears(NOAUTH) == b""
    assert (gated.session.waits, question(gated)) == (False, b"")
    assert gated.asks(REST) == LARGE
    assert gated.hears(NOAUTH) == NOAUTH
    huge = words("EVALSHA", SHA, 0, b"v" * UNPROVEN_BYTES_MAX)
    assert gated.asks(huge) == PLACEHOLDER
    assert gated.hears(b"-ERR unknown command 'PING'\r\n").startswith(b"-EMQPROXY too_large ")


def test_what_is_known_of_one_command_is_asked_again_for_the_next() -> None:
    """AUTH may stand between them."""
    gated = Gated()
    gated.asks(HEAD)
    question(gated)
    gated.asks(REST + words("AUTH", "secret") + HEAD)
    assert gated.hears(NOAUTH + NOAUTH) == NOAUTH
    assert question(gated) == ASKED
    assert gated.hears(b"+OK\r\n" + NONE) == b"+OK\r\n"
    assert gated.asks(REST) == LARGE


def test_inside_multi_nothing_is_asked() -> None:
    """It would be queued. That MULTI is answered OK tells enough; where it was refused, there is none."""
    gated = Gated()
    assert gated.asks(words("MULTI") + HEAD) == words("MULTI")
    assert (question(gated), gated.session.waits) == (b"", True)
    assert gated.hears(b"+OK\r\n") == b"+OK\r\n"
    assert (question(gated), gated.session.waits) == (b"", False)
    refused = Gated()
    refused.asks(words("MULTI") + HEAD)
    assert refused.hears(NOAUTH) == NOAUTH
    assert question(refused) == ASKED


def test_where_no_answer_is_to_be_had_nothing_is_waited_for() -> None:
    gated = Gated()
    gated.asks(words("CLIENT", "REPLY", "OFF") + HEAD)
    assert (question(gated), gated.session.waits) == (b"", False)
    renamed = Gated()
    renamed.asks(HEAD)
    question(renamed)
    assert renamed.hears(b"-ERR unknown command 'SCRIPT'\r\n") == b""
    assert (question(renamed), renamed.session.waits) == (b"", False)
    assert renamed.asks(REST) == LARGE


def test_reset_takes_back_what_was_proved() -> None:
    gated = Gated()
    gated.asks(words("AUTH", "secret") + words("RESET"))
    gated.hears(b"+OK\r\n")
    assert (gated.asks(HEAD), question(gated)) == (b"", b"")
    gated.hears(b"+RESET\r\n")
    assert question(gated) == ASKED


def test_that_a_password_is_asked_goes_before_our_refusal() -> None:
    gated = Gated([1])
    assert gated.asks(numbered(1)) == PLACEHOLDER
    assert gated.hears(NOAUTH) == NOAUTH
    known = Gated([1])
    known.asks(numbered(1))
    assert known.hears(b"+PONG\r\n") == refusal(1)
