"""Laws 1, 2 and 7 on the real sidecar: it changes no byte, no split changes what it tells, no garbage hurts it."""

from __future__ import annotations

import random
import re
import socket
import threading
from typing import Any

import pytest

from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.wires import Peer, cut, dial, drain, half_close, listening, mark, send_all, sidecar, talk
from tests.scripts import talk as calls
from tests.session.talk import prepare, words
from tests.session.test_pairing import CHANNELS, MODES, PLAIN, REPLIES, conversation

# Redis numbers its clients.
NUMBERED = re.compile(rb"(\$2\r\nid\r\n:)\d+")
HOSTILE = {
    "http get": b"GET / HTTP/1.1\r\nHost: example.test\r\nAccept: */*\r\n\r\n",
    "http post": b"POST /x HTTP/1.1\r\nHost: example.test\r\nContent-Length: 2\r\n\r\n{}",
    "tls hello": bytes.fromhex("16030100c5010000c10303") + bytes(range(186)),
    "zeros": bytes(64),
    "negative bulk": b"*1\r\n$-5\r\nPING\r\n",
    "huge count": b"*99999999999\r\n",
    "no bulk": b"*2\r\n$3\r\nGET\r\n:1\r\n",
    "unbalanced quotes": b'SET k "v\r\n',
    "after good ones": words("SET", "k", "v") + words("PING") + b"*1\r\n$x\r\n",
}
FAULTY_REPLIES = [
    b"+OK\r\n",
    b"$3\r\nabc\r\n",
    b"*1\r\n:1\r\n",
    b"?what\r\n",
    b"$x\r\n",
    b"\0\0\0",
    b"-ERR x\r\n",
    b"\r\n",
]


def blind_lines(proxy: EmqProxy, sock_name: tuple[str, int]) -> list[dict[str, Any]]:
    client = f"{sock_name[0]}:{sock_name[1]}"
    return [line for line in proxy.journal() if line["op"] == "blind" and line["client"] == client]


# ---------------------------------------------------------------- law 2


def comparable(reply: bytes) -> bytes:
    return NUMBERED.sub(rb"\g<1>0", reply)


def test_conversations_read_the_same_with_and_without_us(redis_session: RedisServer, proxy: EmqProxy):
    for seed in range(150):
        data = conversation(seed)[0].replace(words("CLIENT", "ID"), words("CLIENT", "INFO", "x"))
        parts = cut(data, random.Random(seed), seed % 6)
        replies = []
        for way in (proxy.port, redis_session.port):  # one server: each hashes, and so orders, in its own way
            assert redis_session.call("FLUSHALL") == b"+OK\r\n"
            prepare(redis_session)
            replies.append(comparable(talk(way, parts)))
        assert replies[0] == replies[1], seed
    assert proxy.running


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_get_the_answer_redis_gives(redis_session: RedisServer, proxy: EmqProxy, name: str):
    # All of it fits one read of Redis: nothing is unread when it closes, so that no RST takes its answer away.
    direct = dial(redis_session.port)
    through = dial(proxy.port)
    me = through.getsockname()
    with direct, through:
        replies = []
        for sock in (direct, through):
            sock.sendall(HOSTILE[name])
            half_close(sock)
            replies.append(drain(sock))
    assert replies[0] == replies[1]
    (line,) = eventually(lambda: blind_lines(proxy, me), what="the blind line")
    assert (line["outcome"], line["job"]) == ("told", None)
    assert talk(proxy.port, [words("PING")]) == b"+PONG\r\n"


def stuff(rnd: random.Random, pool: list[bytes]) -> bytes:
    """Some of everything: what has sense, what has none, what is cut."""
    out = []
    for _ in range(rnd.randrange(1, 30)):
        match rnd.randrange(6):
            case 0:
                out.append(rnd.randbytes(rnd.randrange(2000)))
            case 1:
                piece = rnd.choice(pool)
                out.append(piece[: rnd.randrange(len(piece) + 1)])
            case _:
                out.append(rnd.choice(pool))
    return b"".join(out) * rnd.choice([1, 1, 1, 200])


def exchange(client: socket.socket, peer: socket.socket, there: list[bytes], back: list[bytes]) -> tuple[bytes, bytes]:
    """Both sides send at once; what arrived at the peer and at the client."""
    senders = [send_all(client, there, lambda: half_close(client)), send_all(peer, back)]
    arrived: list[bytes] = []
    reader = threading.Thread(target=lambda: arrived.append(drain(peer)), daemon=True)
    reader.start()
    for thread in (*senders, reader):
        thread.join(30)
        assert not thread.is_alive()
    peer.close()
    return arrived[0], drain(client)


def test_any_bytes_pass_both_ways_and_blindness_is_told_once():
    sent = [*PLAIN, *MODES, *REPLIES, *CHANNELS, words("MONITOR"), *HOSTILE.values()]
    said = [*FAULTY_REPLIES[:3] * 5, *FAULTY_REPLIES]
    names = []
    with Peer() as upstream, sidecar(upstream.url, ready=False) as proxy:
        listening(proxy)
        for seed in range(60):
            rnd = random.Random(seed)
            client, peer = upstream.pair(proxy, mark(seed))
            names.append(client.getsockname())
            there, back = stuff(rnd, sent), stuff(rnd, said)
            with client, peer:
                got = exchange(client, peer, cut(there, rnd, seed % 9), cut(back, rnd, seed % 7))
            assert got == (there, back), seed
        assert proxy.running
        assert proxy.end() == 0
        told = [len(blind_lines(proxy, name)) for name in names]
        assert told == [1] * len(names), "all of it was garbage somewhere"
        assert not [line for line in proxy.log if "fault" in line]


def test_after_garbage_bytes_still_flow():
    with Peer() as upstream, sidecar(upstream.url, ready=False) as proxy:
        listening(proxy)
        client, peer = upstream.pair(proxy, mark(1))
        with client, peer:
            for number in range(50):
                garbage = random.Random(number).randbytes(3000)
                client.sendall(garbage)
                assert peer.recv(len(garbage), socket.MSG_WAITALL) == garbage
                peer.sendall(garbage[::-1])
                assert client.recv(len(garbage), socket.MSG_WAITALL) == garbage[::-1]
            assert len(eventually(lambda: blind_lines(proxy, client.getsockname()))) == 1
        warned = [line for line in proxy.log if "cannot be followed" in line["event"]]
        assert len(warned) == 1


# ---------------------------------------------------------------- law 1

LABELS = ["moveToActive-11", "moveToFinished-14", "extendLock-2", "extendLocks-1", "moveToDelayed-11", "retryJob-11"]
TIMED = {
    "time",
    "seq",
    "run",
    "opened_ns",
    "closed_ns",
    "age_ms",
    "remaining_ms",
    "took_us",
    "lag_us",
    "conn",
    "client",
    "queue",
    "idle_ms",
    "because",  # with figures of time
    "evidence",  # by `seq`
    "burst",
    "replay",  # its instants
}


def sent(parts: list[bytes | None]) -> bytes:
    return words(*(part for part in parts if part is not None))


def lock_conversation() -> bytes:
    """All of a worker's calls in one pipeline: taken, renewed, refused, finished, delayed, retried; also in MULTI."""
    prefix = calls.PREFIX
    out = [words("SCRIPT", "LOAD", calls.text_of(label)) for label in LABELS]
    for job in ("1", "2", "3"):
        out.append(words("HSET", prefix + job.encode(), "name", "n", "data", "{}", "opts", "{}", "timestamp", 1))
        out.append(words("LPUSH", prefix + b"wait", job))
    out += [words("CLIENT", "SETNAME", "worker"), sent(calls.pick("t:1")), sent(calls.renew("1", "t:1"))]
    out += [sent(calls.renew("1", "wrong")), sent(calls.renew_all(["1", "2"], ["t:1", "t:2"]))]
    out += [sent(calls.finish("1", "wrong")), sent(calls.finish("1", "t:1", fetch="1"))]
    out += [words("MULTI"), words("GET", "x"), sent(calls.renew("2", "t:1")), words("EXEC")]
    out += [sent(calls.retry("2", "t:1")), sent(calls.pick("t:2")), sent(calls.delay("3", "t:2"))]
    out += [sent(calls.evalsha(b"0" * 40, [prefix + b"1:lock"], "x")), words("PING")]
    return b"".join(out)


def told(proxy: EmqProxy, queue: str) -> list[dict[str, Any]]:
    """The queue's lines, when its last call's is among them, without what differs from run to run."""

    def look() -> list[dict[str, Any]]:
        lines = [line for line in proxy.journal() if line["queue"] == queue]
        return lines if any(line["op"] == "delay" for line in lines) else []

    lines = eventually(look, what="the conversation in the journal")
    return [{key: value for key, value in line.items() if key not in TIMED} for line in lines]


def test_no_split_changes_what_is_told(proxy: EmqProxy):
    data = lock_conversation()
    replies, stories = set(), []
    for seed, cuts in enumerate([0, 1, 2, 3, 5, 10, 20, 40, 80, 150, 400, 1000]):
        queue = f"ord{seed:03}"  # a story of its own, in as many bytes
        there = data.replace(b"emq:orders:", b"emq:%s:" % queue.encode())
        reply = talk(proxy.port, cut(there, random.Random(seed), cuts))
        replies.add(re.sub(rb"\d{13}", b"T", reply).replace(queue.encode(), b"orders"))
        stories.append(told(proxy, queue))
    assert len(replies) == 1
    assert [line["op"] for line in stories[0]] == [
        "raw", "raw", "raw",  # jobs are added by hand
        "acquire", "renew", "renew", "renew", "renew", "finish",
        "finish", "acquire", "renew", "retry", "acquire", "delay",
    ]  # fmt: skip
    assert all(story == stories[0] for story in stories)
