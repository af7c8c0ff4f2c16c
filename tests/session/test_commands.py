"""Which plain commands are of interest: writes on a lock, and within the prefixes hands on a queue's lists and jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from emqproxy.session.commands import on_a_queue
from tests.session.talk import Fed, words


class _Strangers:
    age = 0
    prefixes = (b"bull:",)

    def __call__(self, call: Sequence[bytes | None]) -> bool:  # noqa: ARG002  as every rule's
        return False


@pytest.mark.parametrize("cut", range(0, 130, 3))
def test_a_hand_on_a_queue_is_of_interest_wherever_the_bytes_part(cut: int):
    data = words("LPUSH", "bull:q:wait", "1") + words("SET", "bull:q:1", "v") + words("UNLINK", "a", "bull:q:1")
    data += words("LPUSH", "my:q:wait", "bull:q:wait") + words("DEL", "my:q:1") + words("RPOP", "bull:q:active")
    data += words("GET", "bull:q:wait")
    fed = Fed(_Strangers()).client(data[:cut], data[cut:])
    fed.server(b":1\r\n+OK\r\n:1\r\n:1\r\n:0\r\n$1\r\n1\r\n$-1\r\n")
    assert [(x.command.name, x.reply) for x in fed.exchanges] == [(b"LPUSH", 1), (b"UNLINK", 1), (b"RPOP", b"1")]
    assert fed.session.answered


@pytest.mark.parametrize(
    ("sent", "within", "without"),
    [
        ("DEL bull:q:1:lock", True, True),
        ("SET other:lock x", True, True),
        ("SET x other:lock", False, False),
        ("DEL bull:q:1", True, False),
        ("SET bull:q:1 x", False, False),
        ("RENAME bull:q:1 x", True, False),
        ("LPUSH bull:q:wait 1", True, False),
        ("LPUSH bull:q:completed 1", False, False),
        ("LPUSH x bull:q:wait", False, False),
        ("ZADD bull:q:prioritized 1 2", True, False),
        ("RPOPLPUSH x bull:q:active", True, False),
        ("LPUSH my:q:wait 1", False, False),
    ],
)
def test_where_prefixes_are_known_more_is_of_interest(sent: str, within: bool, without: bool):
    said: list[bytes | None] = [*sent.encode().split()]
    assert on_a_queue(said, len(said), (b"emq:", b"bull:")) is within
    assert on_a_queue(said, len(said)) is without
