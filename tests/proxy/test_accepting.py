"""Who is let in: as many as there are descriptors for. The rest wait in the kernel's line, and nothing turns idly."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
import structlog
import structlog.testing
import uvloop

from emqproxy.logs import RateLimited
from emqproxy.proxy import accepting
from emqproxy.proxy.accepting import RESERVED, Acceptor, Room
from tests.processes import EmqProxy, RedisServer, eventually, http_get
from tests.proxy.wires import ask, dial, exactly, until
from tests.session.talk import words

WAITS = "clients wait to be let in: raise the limit of open files"


class Inside(asyncio.Protocol):
    """Says that it is in, and counts itself until it is gone."""

    def __init__(self, inside: list[asyncio.BaseTransport], gone: Callable[[], None]) -> None:
        self._inside, self._gone = inside, gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._inside.append(transport)
        cast("asyncio.WriteTransport", transport).write(b"in")

    def connection_lost(self, _: Exception | None) -> None:
        self._inside.remove(self._transport)
        self._gone()


class Hall:
    """An acceptor with room for so many."""

    def __init__(self, clients_max: int) -> None:
        self.inside: list[asyncio.BaseTransport] = []
        self.room = Room(lambda: len(self.inside), RateLimited(structlog.get_logger()))
        self.room.clients_max = clients_max
        self.acceptor = Acceptor(socket.create_server(("127.0.0.1", 0)), self._protocol, self.room)
        self.port = int(self.acceptor.socket.getsockname()[1])

    def _protocol(self) -> Inside:
        return Inside(self.inside, self.acceptor.resume)


def in_a_hall(clients_max: int, test: Callable[[Hall, list[Any]], Awaitable[None]]) -> None:
    async def within() -> None:
        with structlog.testing.capture_logs() as lines:
            hall = Hall(clients_max)
            hall.acceptor.resume()
            try:
                await test(hall, cast("list[Any]", lines))
            finally:
                hall.acceptor.close()
                hall.acceptor.close()
                for transport in hall.inside:
                    transport.close()

    uvloop.run(within())


def test_who_finds_no_room_waits_and_comes_in_when_one_has_gone():
    async def test(hall: Hall, lines: list[Any]) -> None:
        clients = [dial(hall.port) for _ in range(5)]
        await until(lambda: len(hall.inside) == 3)
        await until(lambda: lines)
        for client in clients[3:]:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(2)
        for number in range(3):
            clients[number].close()
            await until(lambda number=number: len(hall.inside) == min(3, 4 - number))
        assert exactly(clients[4], 2) == b"in"
        clients[3].close()
        clients[4].close()
        await until(lambda: not hall.inside)
        (line,) = lines
        assert (line["event"], line["log_level"]) == (WAITS, "error")
        assert line["reason"] == "no descriptors are left for more clients"
        assert line["open_files"] == hall.room.open_files

    in_a_hall(3, test)


def test_without_descriptors_it_waits_a_while_and_tries_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accepting, "RETRY_S", 0.05)
    tries: list[int] = []

    class Exhausted(socket.socket):
        def accept(self) -> Any:
            tries.append(1)
            if len(tries) <= 3:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    async def test(hall: Hall, lines: list[Any]) -> None:
        hall.acceptor.close()
        bound = socket.create_server(("127.0.0.1", 0))
        hall.acceptor = Acceptor(Exhausted(fileno=bound.detach()), hall._protocol, hall.room)
        hall.acceptor.resume()
        port = hall.acceptor.socket.getsockname()[1]
        with dial(port) as client:
            await until(lambda: hall.inside)
            assert exactly(client, 2) == b"in"
            assert len(tries) <= 6, "it tried again only when it was time"
        assert [line["reason"] for line in lines] == ["Too many open files"]

    in_a_hall(3, test)


def test_delay_is_off_where_we_accept():
    """A small answer must not wait for the acknowledgement of the one before."""

    async def test(hall: Hall, _: list[Any]) -> None:
        with dial(hall.port):
            await until(lambda: hall.inside)
            taken = hall.inside[0].get_extra_info("socket")
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    in_a_hall(1, test)


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(soft, 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    try:
        room = Room(lambda: 0, RateLimited(structlog.get_logger()))
        now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert room.open_files == now
        assert now == accepting.LIMIT_MAX or now == hard
        assert room.clients_max == (now - RESERVED) // 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---------------------------------------------------------------- the whole sidecar, with few descriptors

FILES = 100
CLIENTS = (FILES - RESERVED) // 2


class Cramped(EmqProxy):
    """One that may open so few files that it must turn clients away."""

    def _spawn(self, command: list[str], **options: Any) -> Any:
        return super()._spawn(["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", *command], **options)


@pytest.fixture
def cramped(redis_session: RedisServer) -> Iterator[EmqProxy]:
    with Cramped(redis_session.url, env={"OTEL_SDK_DISABLED": "true"}) as proxy:
        yield proxy


def cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_sidecar_without_descriptors_serves_whom_it_has_and_turns_idly_for_nobody(cramped: EmqProxy):
    inside = [dial(cramped.port) for _ in range(CLIENTS)]
    for client in inside:
        ask(client, "PING", answer=b"+PONG\r\n")
    waiting = [dial(cramped.port) for _ in range(10)]
    for client in waiting:
        client.sendall(words("PING"))
    assert cramped.wait_log(lambda line: line["event"] == WAITS)["clients"] == CLIENTS
    status, body = http_get(cramped.health_port, "/readyz")
    assert (status, b"no descriptors are left" in body) == (503, True)
    assert http_get(cramped.health_port, "/healthz")[0] == 200

    began, used = time.monotonic(), cpu_s(cramped.pid)
    eventually(lambda: time.monotonic() - began > 1.0, what="a second")
    assert cpu_s(cramped.pid) - used < 0.5 * (time.monotonic() - began), "it waits, and does not turn"
    for client in inside:
        ask(client, "PING", answer=b"+PONG\r\n")

    for client in inside:
        client.close()
    for client in waiting:
        assert exactly(client, 7) == b"+PONG\r\n"
        client.close()
    eventually(lambda: http_get(cramped.health_port, "/readyz")[0] == 200, what="room again")
    assert sum(WAITS in raw for raw in cramped.raw) == 1
    assert not [raw for raw in cramped.raw if "cannot be reached" in raw]
