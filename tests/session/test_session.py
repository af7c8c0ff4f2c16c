"""The pairing, conversation by conversation: which exchange comes out, with which answer, database and instants."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from emqproxy.session.exchange import LOST, NOT_RUN, SILENT, UNREAD, ErrorReply, Missing
from emqproxy.session.session import CALL_BYTES, SLOT_BYTES, Session
from tests.processes import RedisServer
from tests.session.talk import Fed, converse, mark, prepare, words


def evalsha(*rest: object) -> bytes:
    return words("EVALSHA", "f" * 40, 0, *rest)  # type: ignore[arg-type]


def test_a_pipeline_is_paired_in_order():
    fed = Fed().client(words("PING") * 2 + evalsha(1) + words("GET", "k") + evalsha(2))
    fed.server(b"+PONG\r\n+PONG\r\n:1\r\n$-1\r\n*1\r\n:2\r\n")
    assert fed.answers == [1, [2]]
    assert [x.command.words[3] for x in fed.exchanges] == [b"1", b"2"]
    assert [x.command.request for x in fed.exchanges] == [1, 2]


def test_instants_are_those_of_the_last_byte_out_and_the_last_byte_in():
    fed = Fed().client(evalsha(1)[:-1], evalsha(1)[-1:])
    fed.server(b":", b"1\r\n")
    (exchange,) = fed.exchanges
    assert (exchange.opened, exchange.closed) == (2, 4)


def test_what_nobody_keeps_is_counted_and_not_read():
    fed = Fed()
    (command,) = fed.session.from_client(evalsha(1), 1)
    fed.session.forget(command)
    assert command.words == []
    fed.client(evalsha(2)).server(b"*1\r\n$3\r\nabc\r\n:2\r\n")
    assert fed.answers == [2]
    assert fed.session.pending_bytes == 0


def test_multi_gives_the_results_at_exec_in_its_window():
    fed = Fed().client(words("MULTI"), evalsha(1), words("SET", "a", "b"), evalsha(2), words("EXEC"))
    fed.server(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:-6\r\n+OK\r\n-NOSCRIPT none\r\n")
    assert fed.answers == [-6, ErrorReply(b"NOSCRIPT none")]
    assert {(x.opened, x.in_exec) for x in fed.exchanges} == {(5, True)}


@pytest.mark.parametrize(
    "end", [b"*-1\r\n", b"_\r\n", b"-EXECABORT Transaction discarded because of previous errors.\r\n"]
)
def test_an_exec_that_did_not_run(end: bytes):
    fed = (
        Fed()
        .client(words("MULTI"), evalsha(1), words("EXEC"), evalsha(2))
        .server(b"+OK\r\n+QUEUED\r\n" + end + b":7\r\n")
    )
    assert fed.answers == [NOT_RUN, 7]


def test_discard_reset_and_a_refusal_when_queueing():
    fed = Fed().client(
        words("MULTI"), evalsha(1), words("DISCARD"), words("MULTI"), evalsha(2), evalsha(3), words("RESET"), evalsha(4)
    )
    fed.server(b"+OK\r\n+QUEUED\r\n+OK\r\n+OK\r\n-OOM no\r\n+QUEUED\r\n+RESET\r\n:4\r\n")
    assert fed.answers == [NOT_RUN, ErrorReply(b"OOM no"), NOT_RUN, 4]
    assert fed.session.blinded is None


def test_commands_go_to_the_database_that_was_selected_before_them():
    fed = Fed().client(
        words("SELECT", 1) + evalsha(1) + words("MULTI") + words("SELECT", 2) + evalsha(2) + words("EXEC") + evalsha(3)
    )
    assert [c.db for c in fed.commands] == [1, 2, 2]
    fed.server(b"+OK\r\n:1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:2\r\n:3\r\n")
    assert [x.db for x in fed.exchanges] == [1, 2, 2]


def test_a_select_that_failed_is_not_believed():
    fed = (
        Fed()
        .client(words("SELECT", 99) + evalsha(1))
        .server(b"-ERR DB index is out of range\r\n:1\r\n")
        .client(evalsha(2))
    )
    assert [x.db for x in fed.exchanges] == [0]
    assert fed.commands[1].db == 0


def test_pushes_stand_between_answers():
    fed = Fed().client(words("HELLO", 3), words("SUBSCRIBE", "a", "b"), evalsha(1))
    fed.server(
        b"%1\r\n$5\r\nproto\r\n:3\r\n>3\r\n+subscribe\r\n+a\r\n:1\r\n"
        b">3\r\n+message\r\n+a\r\n+x\r\n>3\r\n+subscribe\r\n+b\r\n:2\r\n"
    )
    fed.server(b">2\r\n+invalidate\r\n*1\r\n+k\r\n:1\r\n")
    assert fed.answers == [1]
    assert fed.exchanges[0].resp == 3


def test_a_reply_that_looks_like_a_message_is_a_reply_in_resp_3():
    fed = Fed().client(words("HELLO", 3), words("SUBSCRIBE", "a"), evalsha(1), evalsha(2))
    fed.server(b"%0\r\n>3\r\n+subscribe\r\n+a\r\n:1\r\n*2\r\n+message\r\n+x\r\n:2\r\n")
    assert fed.answers == [[b"message", b"x"], 2]


def test_silence_is_known_to_be_silence():
    fed = Fed().client(words("CLIENT", "REPLY", "SKIP"), evalsha(1), evalsha(2))
    fed.server(b":2\r\n")
    assert fed.answers == [SILENT, 2]
    fed = Fed().client(
        words("CLIENT", "REPLY", "OFF"), evalsha(1), words("SET", "a", "b"), words("CLIENT", "REPLY", "ON"), evalsha(2)
    )
    fed.server(b"+OK\r\n:2\r\n")
    assert fed.answers == [SILENT, 2]


def test_a_denied_silence_blinds():
    fed = (
        Fed()
        .client(words("CLIENT", "REPLY", "SKIP"), evalsha(1), evalsha(2))
        .server(b"-NOAUTH Authentication required.\r\n-NOAUTH x\r\n-NOAUTH x\r\n")
    )
    assert fed.session.blinded
    assert fed.end().answers == [SILENT, UNREAD]


def test_an_empty_command_uses_up_a_skip(redis_session: RedisServer):
    data = words("CLIENT", "REPLY", "SKIP") + b"\r\n" + mark(1) + mark(2)
    prepare(redis_session)
    fed = Fed().client(data).server(converse(redis_session, data))
    assert fed.answers == [[b"1", b"0"], [b"2", b"0"]]


@pytest.mark.parametrize("name", ["MONITOR", "SYNC", "PSYNC"])
def test_a_stream_blinds_and_what_was_asked_before_is_still_paired(name: str):
    fed = Fed().client(evalsha(1) + words(name) + evalsha(2))
    assert fed.session.blinded
    assert not fed.session.over
    fed.server(b":1\r\n+OK\r\n:2\r\n")
    assert fed.answers == [1]
    assert fed.session.over
    assert fed.session.from_client(evalsha(3), 9) == []


@pytest.mark.parametrize(
    "bytes_",
    [b"*1\r\n:1\r\n", b'GET "x\r\n', b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x00"],
)
def test_bytes_that_are_no_command_blind(bytes_: bytes):
    fed = Fed().client(evalsha(1) + bytes_)
    assert fed.session.blinded
    assert fed.server(b":1\r\n").answers == [1]


@pytest.mark.parametrize("bytes_", [b"@what\r\n", b":1\r\n:2\r\n", b"*x\r\n"])
def test_a_server_that_cannot_be_understood_blinds(bytes_: bytes):
    fed = Fed().client(evalsha(1)).server(b":1\r\n" + bytes_)
    assert fed.session.over
    assert fed.answers == [1]


def test_what_was_never_answered_is_lost_and_what_was_never_executed_did_not_run():
    assert Fed().client(evalsha(1)).end().answers == [LOST]
    assert Fed().client(words("MULTI"), evalsha(1)).server(b"+OK\r\n+QUEUED\r\n").end().answers == [NOT_RUN]
    assert Fed().client(words("MULTI"), evalsha(1), words("EXEC")).server(b"+OK\r\n+QUEUED\r\n").end().answers == [LOST]


def test_a_client_names_itself():
    fed = Fed().client(words("CLIENT", "SETNAME", "bull:x")).server(b"+OK\r\n")
    assert fed.session.client_name == "bull:x"
    fed.client(words("HELLO", 3, "AUTH", "u", "SETNAME", "SETNAME", "w")).server(b"%0\r\n")
    assert fed.session.client_name == "w"
    fed.client(words("CLIENT", "SETNAME", "bad")).server(b"-ERR no\r\n")
    assert fed.session.client_name == "w"


def test_pending_work_is_measured():
    fed = Fed().client(words("SCRIPT", "LOAD", "x" * 100_000))
    assert fed.session.pending_bytes > 100_000
    fed.server(b"$40\r\n" + b"a" * 40 + b"\r\n")
    assert fed.session.pending_bytes == 0
    fed.client(words("GET", "k") * 600_000)
    assert fed.session.pending_bytes < 10_000


def test_calls_that_nobody_keeps_are_counted_like_any_other(redis_session: RedisServer):
    session = Session()
    for _ in range(100):
        for command in session.from_client(evalsha(1) * 1_000 + words("GET", "k") + evalsha(2), 1):
            session.forget(command)
    assert session.pending_bytes < 1_010 * SLOT_BYTES, "one read's at most"
    # Among those that are kept, inside MULTI and under silence each answer still finds its question.
    known, unknown, data = Fed(), words("EVALSHA", "e" * 40, 0), bytearray()
    rnd = random.Random(7)
    parts = [unknown, words("GET", "k"), words("MULTI"), words("EXEC"), words("CLIENT", "REPLY", "SKIP"), None]
    for number in range(3_000):
        part = rnd.choice(parts) or mark(number)
        data += part
        for command in known.session.from_client(part, 1):
            if command.name == b"EVAL" and known.session.keep(command, words=True) is None:
                known.commands.append(command)
    data += words("EXEC")
    known.client(words("EXEC")).server(converse(redis_session, bytes(data)))
    if known.session.blinded is None:
        assert known.session.answered
    for exchange in known.end().exchanges:
        if not isinstance(exchange.reply, Missing):
            assert exchange.reply == [exchange.command.words[3], b"0"]


def test_past_its_bound_a_session_goes_blind_and_what_was_asked_is_still_paired():
    fed = Fed()
    fed.session = Session(pending_bytes_max=100 * CALL_BYTES)
    for number in range(200):
        fed.client(evalsha(number))
    assert fed.session.blinded == "its unanswered requests take more than limits.pending_bytes"
    asked = len(fed.commands)
    assert 80 < asked < 110
    fed.server(b":1\r\n" * 200)
    assert fed.answers == [1] * asked
    assert fed.session.over
    assert fed.end().answers == [1] * asked
    assert fed.session.pending_bytes == 0


def test_what_stands_behind_megabytes_is_read():
    value = b"v" * 3_000_000
    fed = Fed().client(words("EVALSHA", "f" * 40, 0, value, "token"))
    assert fed.commands[0].words[3:] == [None, b"token"]
    fed.server(b"*2\r\n*2\r\n$4\r\ndata\r\n$%d\r\n%s\r\n$2\r\n42\r\n" % (len(value), value))
    assert fed.answers == [[[b"data", None], b"42"]]


@pytest.mark.parametrize("cut", range(60))
def test_a_write_on_a_lock_s_key_is_of_interest_wherever_the_bytes_part(cut: int):
    data = words("SET", "k", "v") + words("del", "a", "emq:q:1:lock") + words("SET", "emq:q:1", "x:lock")
    fed = Fed().client(data[:cut], data[cut:])
    fed.server(b"+OK\r\n:1\r\n+OK\r\n")
    assert [(x.command.name, x.command.words, x.reply) for x in fed.exchanges] == [
        (b"DEL", [b"DEL", b"a", b"emq:q:1:lock"], 1)
    ]
    assert fed.session.answered


@pytest.mark.parametrize("name", ["EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO"])
def test_other_ways_to_call_a_script_are_of_interest(name: str):
    fed = Fed().client(words(name, "f", 1, "k")).server(b":3\r\n")
    assert [(x.command.name, x.reply) for x in fed.exchanges] == [(name.encode(), 3)]


def test_behind_quit_nothing_is_asked():
    fed = Fed().client(evalsha(1) + words("QUIT") + evalsha(2), evalsha(3)).server(b":1\r\n+OK\r\n").end()
    assert fed.answers == [1]
    assert fed.session.blinded is None
    assert Fed().client(words("QUIT")).server(b"-NOPERM no\r\n").session.blinded == "QUIT was refused"


class _Strangers:
    age = 0
    prefixes = (b"bull:",)

    def __call__(self, call: Sequence[bytes | None]) -> bool:
        return len(call) > 1 and call[1] == b"f" * 40


STRANGER = words("evalsha", "f" * 40, 1, "elsewhere:1", "a")


@pytest.mark.parametrize(
    "said",
    [
        STRANGER * 3,
        STRANGER * 100,
        words("MULTI") + STRANGER + mark(5) + STRANGER + words("EXEC"),
        words("MULTI") + STRANGER + words("DISCARD"),
        words("CLIENT", "REPLY", "SKIP") + STRANGER,
        words("CLIENT", "REPLY", "OFF") + STRANGER * 2 + words("CLIENT", "REPLY", "ON"),
        words("HELLO", 3) + words("SUBSCRIBE", "news") + STRANGER,
        words("SELECT", 2) + STRANGER,
    ],
)
def test_a_stranger_left_out_changes_nothing_that_is_paired(redis_session: RedisServer, said: bytes):
    """A call that is nothing to anybody is counted like a PING, in every mode."""
    prepare(redis_session)
    asked = mark(1) + said + mark(2) + STRANGER + mark(3)
    answers = converse(redis_session, asked)
    kept, left, cut = Fed().client(asked), Fed(_Strangers()).client(asked), Fed(_Strangers())
    cut.client(*(asked[at : at + 1] for at in range(len(asked))))
    for fed in (kept, left, cut):
        fed.server(answers)
        assert fed.session.blinded is None
    told = [(x.command.words, x.reply, x.db) for x in kept.exchanges if x.command.words[1] != b"f" * 40]
    for fed in (left, cut):
        assert [(x.command.words, x.reply, x.db) for x in fed.exchanges] == told
    assert len(told) >= 3
