"""Back-pressure is TCP's own: nothing piles up in us, and nobody waits who would not wait without us."""

from __future__ import annotations

import contextlib
import hashlib
import threading

from tests.processes import EmqProxy, RedisServer, eventually
from tests.proxy.wires import ask, dial, exactly, half_close, rss_mib, send_all, sidecar
from tests.session.talk import words

MIB = 1 << 20


def test_a_client_that_never_reads_costs_little(redis_session: RedisServer, proxy: EmqProxy):
    with dial(proxy.port) as client, dial(proxy.port) as other:
        ask(client, "SET", "big", bytes(4 * MIB), answer=b"+OK\r\n")
        before = rss_mib(proxy.pid)
        client.sendall(words("GET", "big") * 50)  # 200 MiB, of which the kernel and we hold a part
        ask(other, "PING", answer=b"+PONG\r\n")
        answer = len(b"$4194304\r\n") + 4 * MIB + 2
        # What was asked is answered; all but a few buffers of it waits in Redis.
        eventually(lambda: b"omem=0 " not in clients_with_output(redis_session), what="output waits in Redis")
        assert rss_mib(proxy.pid) - before < 24
        for _ in range(50):
            assert len(exactly(client, answer)) == answer
        ask(client, "PING", answer=b"+PONG\r\n")


def clients_with_output(redis: RedisServer) -> bytes:
    """The one with most of it."""
    rows = redis.call("CLIENT", "LIST").splitlines()
    return max((row for row in rows if b"omem=" in row), key=lambda row: int(row.partition(b"omem=")[2].split()[0]))


def test_a_long_pipeline_is_written_before_one_answer_is_read(redis_session: RedisServer, proxy: EmqProxy):
    count = 600_000
    with dial(proxy.port) as client:
        before = rss_mib(proxy.pid)
        for _ in range(10):
            client.sendall(words("PING") * (count // 10))
        client.sendall(words("ECHO", "end"))
        assert rss_mib(proxy.pid) - before < 32
        assert exactly(client, 7 * count) == b"+PONG\r\n" * count
        assert exactly(client, 9) == b"$3\r\nend\r\n"


def test_a_stopped_upstream_takes_no_more_than_the_buffers_between_and_nothing_is_lost():
    with RedisServer() as redis, sidecar(redis.url) as proxy, dial(proxy.port) as client:
        ask(client, "PING", answer=b"+PONG\r\n")
        before = rss_mib(proxy.pid)
        redis.freeze()
        sent = bytearray()
        block = b"".join(words("RPUSH", "l", f"{number:08}") for number in range(1000))
        client.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while len(sent) < 200 * MIB:
                view = memoryview(block)[len(sent) % len(block) :]
                sent += view[: client.send(view)]
        assert len(sent) < 32 * MIB
        assert rss_mib(proxy.pid) - before < 16
        redis.thaw()
        client.settimeout(20)
        rest = block[len(sent) % len(block) :]
        count = (len(sent) + len(rest)) // len(block) * 1000
        sender = send_all(client, [rest])
        expected = b"".join(b":%d\r\n" % number for number in range(1, count + 1))
        assert exactly(client, len(expected)) == expected
        sender.join(5)
        client.sendall(words("LRANGE", "l", 0, 1999))
        listed = b"".join(b"$8\r\n%08d\r\n" % number for number in range(1000)) * 2
        assert exactly(client, 7 + len(listed)) == b"*2000\r\n" + listed


def test_a_value_of_64_mib_passes_both_ways(redis_session: RedisServer, proxy: EmqProxy):
    value = b"".join(hashlib.sha512(b"%d" % number).digest() for number in range(1024)) * 1024
    assert len(value) == 64 * MIB
    head = b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % len(value)
    with dial(proxy.port) as client:
        before = rss_mib(proxy.pid)
        sender = send_all(client, [head, value, b"\r\n", words("GET", "big")], lambda: None)
        assert exactly(client, 5) == b"+OK\r\n"
        whole = exactly(client, len(b"$67108864\r\n") + len(value) + 2)
        sender.join(5)
        assert whole == b"$67108864\r\n" + value + b"\r\n"
        assert rss_mib(proxy.pid) - before < 24
        assert redis_session.call("STRLEN", "big") == b":67108864\r\n"


def test_many_clients_at_once(redis_session: RedisServer, proxy: EmqProxy):
    """Each gets its own answers."""
    wrong: list[int] = []

    def one(number: int) -> None:
        with dial(proxy.port) as client:
            for turn in range(50):
                text = b"%04d %04d" % (number, turn)
                client.sendall(words("ECHO", text) * 3)
                if exactly(client, 45) != (b"$9\r\n" + text + b"\r\n") * 3:
                    wrong.append(number)
            half_close(client)
            if client.recv(1):
                wrong.append(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert wrong == []
