"""From figures to metrics: labels and kinds."""

from __future__ import annotations

import pytest

from emqproxy.locks.policy import Rule
from emqproxy.locks.verdicts import Finding, Grade
from emqproxy.observer import metrics_table as table
from emqproxy.observer.metrics import MANY, Metrics
from emqproxy.observer.metrics_reading import Reader, Reading, code_of, states_of, violations_of
from emqproxy.records import Calls, Gauges, ObserverSettings, Spread
from tests.observer.records_factory import ANCHOR, Numbers, Story, blind, decided, hello

NONE = Spread((), 0)


def gauges(**figures: object) -> Gauges:
    numbers = dict.fromkeys(
        ("clients", "servers", "inflight", "to_server_bytes", "to_client_bytes", "noscripts", "unrecognised", "guessed",
         "faults", "reloads_ok", "reloads_failed"), 0,
    )  # fmt: skip
    given = {"ready": True, "ready_body": "{}", "overhead": NONE, "loop_lag": NONE, "calls": ()} | numbers | figures
    return Gauges(**given)  # type: ignore[arg-type]


def read(*messages: object, restarts: int = 0) -> Reading:
    metrics = Metrics()
    for message in (ANCHOR, *messages):
        metrics.on(message)  # type: ignore[arg-type]
    return Reader(hello(restarts=restarts), metrics, lambda: {"exported": 3, "shed": 4}, lambda: 5).read()


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (("renew", "ok", None, 1, None, Grade.ON_TIME, Finding.SOUND, ""), []),
        (("renew", "ok", None, 1, None, Grade.LATE, Finding.SOUND, ""), ["late"]),
        (("renew", "ok", None, 1, None, Grade.UNKNOWN, Finding.UNWITNESSED, ""), []),
        (
            ("renew", "refused", None, 0, "RenewRefused", Grade.TOO_LATE, Finding.STRAGGLER, ""),
            ["too_late", "RenewRefused", "straggler"],
        ),
        (("finish", "refused", "completed", -6, "JobLockMismatch", None, Finding.DOUBTFUL, ""), ["JobLockMismatch"]),
        (("retry", "refused", None, -77, None, None, Finding.SOUND, ""), ["refused"]),
        (("acquire", "ok", None, None, None, None, Finding.DOUBLE, ""), ["double"]),
        (("lapse", "told", None, None, None, None, Finding.SOUND, ""), ["lapse"]),
        (("acquire", "error", None, None, "WRONGTYPE", None, None, ""), []),
        (("finish", "blocked", "completed", -6, "JobLockMismatch", None, None, ""), ["blocked"]),
    ],
)
def test_kinds_of_violations(words: tuple, kinds: list[str]) -> None:
    assert violations_of(words) == kinds


@pytest.mark.parametrize(
    ("op", "target", "states"),
    [
        ("acquire", None, ("wait", "active")),
        ("finish", "failed", ("active", "failed")),
        ("reap", "wait", ("active", "wait")),
        ("wait_children", None, ("active", "waiting-children")),
        ("renew", None, None),
        ("lapse", None, None),
    ],
)
def test_states_between_which_jobs_move(op: str, target: str | None, states: tuple[str, str] | None) -> None:
    assert states_of((op, "ok", target, None, None, None, None, "")) == states


@pytest.mark.parametrize(
    ("code", "name", "told"), [(0, None, "0"), (-2, "JobLockNotExist", "JobLockNotExist"), (None, None, None),
                               (MANY, None, "_other"), (None, "READONLY", "READONLY")],
)  # fmt: skip
def test_codes_are_told_by_name_where_they_have_one(code: int | None, name: str | None, told: str | None) -> None:
    assert code_of(("finish", "ok", None, code, name, None, None, "")) == told


def test_a_queue_of_two_prefixes_is_one_queue_here_and_two_systems_in_the_standards_words() -> None:
    numbers = Numbers()
    emq, bull = (Story(queue=queue, numbers=numbers) for queue in (b"emq:orders:", b"{bull}:orders:"))
    reading = read(emq.acquire(0), bull.acquire(0), bull.renew(1))
    assert reading.numbers[table.TRANSITIONS] == {("orders", "wait", "active", "ok"): 2}
    assert reading.numbers[table.CONSUMED] == {
        ("echomq", "acquire", "orders", ""): 1, ("bullmq", "acquire", "orders", ""): 1,
    }  # fmt: skip
    assert reading.numbers[table.HELD] == {("orders",): 2}


def test_what_the_data_plane_said_last_is_told() -> None:
    calls = (Calls("EVALSHA", "extendLock-2", "", Spread((1, 2) + (0,) * 8, 9_000_000)),)
    told = gauges(clients=3, servers=2, to_server_bytes=10, to_client_bytes=20, reloads_failed=1, calls=calls)
    reading = read(gauges(), told, restarts=2)
    assert reading.numbers[table.CONNECTIONS] == {("client",): 3, ("server",): 2}
    assert reading.numbers[table.BYTES] == {("to_server",): 10, ("to_client",): 20}
    assert reading.numbers[table.RELOADS] == {("ok",): 0, ("failed",): 1}
    assert reading.numbers[table.RESTARTS] == {(): 2}
    labels = ("redis", "EVALSHA", "extendLock-2", "", "redis.internal", "6379")
    assert reading.spreads[table.CALLS] == {labels: ((1, 2, *[0] * 8), 0.009)}


def test_losses_are_told_from_the_start_and_blind_connections_where_they_belong() -> None:
    reading = read()
    assert reading.numbers[table.BLINDED] == {(): 0}
    assert reading.numbers[table.LINES_LOST] == {(): 5}
    assert reading.numbers[table.SPANS] == {("exported",): 3, ("shed",): 4}
    assert read(blind(Numbers(), 1)).numbers[table.BLINDED] == {(): 1}


def test_what_was_decided_is_counted_by_mode_action_and_rule() -> None:
    story = Story()
    shadow, enforce = hello(ObserverSettings(mode="shadow")), hello(ObserverSettings(mode="enforce"))
    reading = read(
        story.acquire(0),
        shadow,
        decided(story.renew(1), "passed"),
        decided(story.renew(2), "passed"),
        decided(story.renew(3), "would_block", "zero_token"),
        enforce,
        story.finish_blocked(4),
    )
    told = reading.numbers[table.ENFORCEMENT]
    assert {labels: count for labels, count in told.items() if count} == {
        ("shadow", "passed", ""): 2, ("shadow", "would_block", "zero_token"): 1,
        ("enforce", "blocked", "lapsed_holder"): 1,
    }  # fmt: skip


def test_what_was_blocked_was_not_run_and_its_code_is_no_scripts() -> None:
    reading = read(Story().finish_blocked(4))
    assert table.RETURNS not in reading.numbers
    assert reading.numbers[table.TRANSITIONS] == {("orders", "active", "completed", "blocked"): 1}
    assert list(reading.spreads[table.OPERATIONS]) == [("echomq", "complete", "orders", "enforcement_blocked")]


@pytest.mark.parametrize(
    ("mode", "actions"), [("observe", set()), ("shadow", {"would_block"}), ("enforce", {"would_block", "blocked"})]
)
def test_what_may_be_blocked_is_told_before_it_is(mode: str, actions: set[str]) -> None:
    reading = Reader(hello(), Metrics(mode), dict, lambda: 0).read()
    rules = {rule.value for rule in Rule}
    expected = {(mode, action, rule) for action in actions for rule in rules}
    assert set(reading.numbers.get(table.ENFORCEMENT, {})) == expected
    assert set(table.RULES) == rules


def test_every_label_has_its_value() -> None:
    story = Story()
    reading = read(story.acquire(0), story.renew(20_000, Grade.LATE), story.lapse(60_000, over=True), gauges())
    for metric, rows in [*reading.numbers.items(), *reading.spreads.items()]:
        assert {len(labels) for labels in rows} == {len(metric.labels)}, metric.name
