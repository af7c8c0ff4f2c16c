"""Values of 64 MiB pass both ways in bounded memory, and what stands behind them in a lock call is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes import RedisServer
from tests.proxy.streams import Client, Stage, Value
from tests.proxy.wires import sidecar

VALUE = Value(64)
GROWN_MIB_MAX = 24
"""Since the sidecar was ready, over all tests here: far less than one such value, whatever went through."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with RedisServer() as redis, sidecar(redis.url) as proxy:
        yield Stage(redis, proxy)


@pytest.fixture(autouse=True)
def bounded(stage: Stage) -> Iterator[None]:
    yield
    assert stage.grown_mib < GROWN_MIB_MAX


@pytest.mark.parametrize("resp", [2, 3])
def test_a_value_that_nobody_reads(stage: Stage, resp: int) -> None:
    with Client(stage.proxy.port, resp) as client:
        stage.set_and_get(client, VALUE)


@pytest.mark.parametrize(("resp", "eval_"), [(2, False), (2, True), (3, False)])
def test_the_token_behind_a_return_value_and_the_job_id_behind_job_data(stage: Stage, resp: int, eval_: bool) -> None:
    with Client(stage.proxy.port, resp) as client:
        stage.play(client, VALUE, VALUE, eval_=eval_)


def test_what_stands_behind_large_elements_of_an_exec(stage: Stage) -> None:
    with Client(stage.proxy.port) as client, Client(stage.proxy.port, 3) as third:
        stage.play_in_exec(client, VALUE, VALUE)
        stage.acquire_in_exec(third, VALUE)


def test_an_array_of_very_many_elements(stage: Stage) -> None:
    with Client(stage.proxy.port) as client:
        stage.listed(client, VALUE.mib)


def test_a_client_that_does_not_read_holds_up_nobody_else(stage: Stage) -> None:
    stage.slow_reader(VALUE)
