"""Each metric against what was written and done: calls by hand through a real proxy on a real Redis, then /metrics
beside the journal's lines, the bytes that were sent, and Redis itself.
"""

from __future__ import annotations

import bisect
import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.observer.playing import JOB, PASSWORD, SECRET, TOKEN, Client, play
from tests.observer.scrape import Page, get, page, page_with
from tests.processes import LOOPBACK, EmqProxy, RedisServer, children, eventually, free_port
from tests.scripts.talk import renew

AGE_RATIOS = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0, 1.25, 2.0)
SUSPICIONS = {"double", "foreign", "reaped_alive", "disputed", "orphan", "resurrected", "straggler"}
STATES = {
    "acquire": ("wait", "active"),
    "delay": ("active", "delayed"),
    "retry": ("active", "wait"),
    "wait": ("active", "wait"),
}

Line = dict[str, Any]


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[EmqProxy, Client, Page, list[Line], int]]:
    """The proxy as it stands afterwards, its page and its journal."""
    admin = free_port()
    with (
        RedisServer(requirepass=PASSWORD) as redis,
        EmqProxy(
            f"redis://:{PASSWORD}@{LOOPBACK}:{redis.port}", "--admin", f"{LOOPBACK}:{admin}",
            env={"OTEL_TRACES_EXPORTER": "none"},
        ) as proxy,
    ):  # fmt: skip
        client = Client(proxy.port)
        try:
            play(client, proxy)
            locks = len([key for key in client.ask(["KEYS", "*:lock"]) if client.ask(["EXISTS", key])])
            told = page_with(admin, lambda seen: settled(seen, client, proxy))
            yield proxy, client, told, proxy.journal(), locks
        finally:
            client.close()


def settled(seen: Page, client: Client, proxy: EmqProxy) -> bool:
    """All that was done stands on the page."""
    lines = proxy.journal()
    whole = bool(lines) and seen.one("emq_observer_records_total") == lines[-1]["seq"] == len(lines)
    return whole and seen.by("emq_proxy_bytes_total", "direction")["to_server",] == client.sent_bytes


Played = tuple[EmqProxy, Client, Page, list[Line], int]


def test_renewals_by_grade(played: Played) -> None:
    _, _, told, lines, _ = played
    expected = Counter((line["queue"], line["grade"]) for line in lines if line["op"] == "renew")
    assert told.by("emq_lock_renewals_total", "queue", "grade") == expected
    assert {grade for _, grade in expected} >= {"on_time", "unknown"}


def test_violations_by_kind(played: Played) -> None:
    _, _, told, lines, _ = played
    expected: Counter[tuple[str, str]] = Counter()
    for line in lines:
        kinds = {line["grade"]} & {"late", "critical", "too_late"} | {line["finding"]} & SUSPICIONS
        kinds |= {line["code_name"]} if line["outcome"] == "refused" else set()
        kinds |= {"lapse"} if line["op"] == "lapse" else set()
        expected.update((line["queue"], kind) for kind in kinds)
    assert told.by("emq_lock_violations_total", "queue", "kind") == expected
    assert {kind for _, kind in expected} >= {"RenewRefused", "JobLockMismatch", "JobLocked", "lapse"}


def test_the_ages_of_locks_at_their_renewal(played: Played) -> None:
    _, _, told, lines, _ = played
    figures = [line for line in lines if line["age_ms"] is not None and line["remaining_ms"] is not None]
    ratios = [line["age_ms"] / (line["age_ms"] + line["remaining_ms"]) for line in figures if line["op"] == "renew"]
    assert told.one("emq_lock_renewal_age_ratio_count") == len(ratios) > 3
    assert told.one("emq_lock_renewal_age_ratio_sum") == pytest.approx(sum(ratios), abs=1e-4)
    up_to = told.by("emq_lock_renewal_age_ratio_bucket", "le")
    for bound in AGE_RATIOS:
        assert up_to[(f"{bound}",)] == bisect.bisect_right(sorted(ratios), bound), bound
    assert told.one("emq_lock_remaining_seconds_count") == len(figures)
    remaining_s = sum(line["remaining_ms"] for line in figures) / 1e3
    assert told.one("emq_lock_remaining_seconds_sum") == pytest.approx(remaining_s, abs=1e-4)


def test_jobs_moved_and_jobs_stalled(played: Played) -> None:
    _, _, told, lines, _ = played
    expected: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        states = ("active", line["target"]) if line["op"] in ("finish", "reap") else STATES.get(line["op"])
        if states is not None:
            expected[line["queue"], *states, line["outcome"]] += 1
    assert told.by("emq_job_transitions_total", "queue", "from", "to", "outcome") == expected
    assert {to for _, _, to, _ in expected} >= {"active", "completed", "failed", "delayed", "wait"}
    reaped = Counter((line["queue"], line["target"]) for line in lines if line["op"] == "reap")
    assert told.by("emq_jobs_stalled_total", "queue", "outcome") == reaped != Counter()


def test_what_scripts_returned(played: Played) -> None:
    _, _, told, lines, _ = played
    codes = Counter(
        (line["script"], line["code_name"] or str(line["code"]))
        for line in lines
        if line["script"] and (line["code_name"] or line["code"] is not None)
    )
    said = told.by("emq_script_returns_total", "script", "code")
    assert said.total() == codes.total()
    for (script, code), count in codes.items():
        other = code.lstrip("-").isdigit() and not -32 <= int(code) <= 1
        assert other or said[script, code] == count, (script, code)
    assert said["moveToFinished-14", "JobLockMismatch"] >= 1


def test_operations_on_jobs_in_the_words_of_the_standard(played: Played) -> None:
    _, _, told, lines, _ = played
    ops = {"add", "acquire", "renew", "finish", "delay", "retry", "wait", "release", "remove"}
    expected: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        if line["op"] in ops:
            name = {"completed": "complete", "failed": "fail"}[line["target"]] if line["op"] == "finish" else line["op"]
            error = line["code_name"] if line["outcome"] in ("refused", "error") else ""
            system = {"emq": "echomq", "bull": "bullmq"}[line["prefix"]]
            expected[system, name, line["queue"], error] += 1
    labels = ("messaging_system", "messaging_operation_name", "messaging_destination_name", "error_type")
    assert told.by("messaging_client_operation_duration_seconds_count", *labels) == expected
    took_s = sum(line["took_us"] for line in lines if line["op"] in ops) / 1e6
    assert told.one("messaging_client_operation_duration_seconds_sum") == pytest.approx(took_s, abs=1e-3)
    sent = told.by("messaging_client_sent_messages_total", "messaging_destination_name")
    assert sent == {("orders",): 6, ("mail",): 2}
    acquired = Counter((line["queue"],) for line in lines if line["op"] == "acquire" and line["outcome"] == "ok")
    taken = told.by("messaging_client_consumed_messages_total", "messaging_destination_name", "error_type")
    assert Counter({(queue,): count for (queue, error), count in taken.items() if not error}) == acquired


def test_attempts_and_the_locks_that_are_held(played: Played) -> None:
    """Every grant has ended in one way or is held yet: by the account, and by Redis itself."""
    _, _, told, lines, locks = played
    grants = [line for line in lines if line["effect"] == "granted"]
    ended = told.by("messaging_process_duration_seconds_count", "error_type")
    assert told.one("emq_locks_held") == locks == 1
    assert len(grants) - ended.total() - locks == 1, "it lapsed, and its connection lives: it may speak yet"
    assert ended["",] == len([line for line in lines if line["effect"] == "released"])
    assert ended["LockLost",] == 2, "one was late, one's lock was deleted by hand"
    assert 0 < told.one("emq_locks_oldest_age_seconds") < 600


def test_what_the_data_plane_counts_is_what_was_done(played: Played) -> None:
    _, client, told, _, _ = played
    by_script = told.by("db_client_operation_duration_seconds_count", "db_operation_name", "db_stored_procedure_name")
    assert by_script.pop(("DEL", "")) == by_script.pop(("SET", "")) == 1, "hands, on a lock and on a list"
    assert Counter({(script,): count for (_, script), count in by_script.items()}) == client.calls
    errors = told.by("db_client_operation_duration_seconds_count", "db_stored_procedure_name", "error_type")
    assert {error: count for (_, error), count in errors.items() if error} == {"NOSCRIPT": 1, "WRONGTYPE": 1}
    assert told.by("emq_proxy_bytes_total", "direction") == {
        ("to_server",): client.sent_bytes, ("to_client",): client.got_bytes,
    }  # fmt: skip
    assert told.by("emq_proxy_connections", "side") == {("client",): 1, ("server",): 1}
    assert told.one("emq_noscript_total") == told.one("emq_scripts_unrecognized_total") == 1
    assert told.one("emq_proxy_inflight") == told.one("emq_proxy_faults_total") == 0
    assert told.one("emq_proxy_overhead_seconds_count") > 40
    assert told.one("emq_proxy_loop_lag_seconds_count") > 10


def test_nothing_that_is_secret_stands_on_the_page(played: Played) -> None:
    _, _, told, _, _ = played
    for canary in (PASSWORD, SECRET, TOKEN, TOKEN.replace("-", ""), JOB, "canary", "another"):
        assert canary not in told.text, canary


def test_a_restarted_observer_listens_again_and_says_so(played: Played) -> None:
    """Last: what it had counted is gone, what the data plane counts is not. A call in a transaction is in flight."""
    proxy, client, told, _, _ = played
    port = int(str(proxy.wait_log(lambda line: line["event"] == "admin listens")["admin"]).rpartition(":")[2])
    for pid in children(proxy.pid):
        os.kill(pid, signal.SIGKILL)
    assert client.ask(["MULTI"]) == b"OK"
    client.ask(renew(f"{JOB}-5", "nobody"))
    client.calls.clear()
    page_now = eventually(lambda: restarted(port), 30, "the listener of a new observer")
    assert page_now.one("emq_observer_restarts_total") == page_now.one("emq_proxy_inflight") == 1
    assert page_now.one("emq_observer_records_total") < told.one("emq_observer_records_total")
    assert page_now.one("emq_proxy_bytes_total") > told.one("emq_proxy_bytes_total")
    assert page_now.one("emq_locks_held") == told.one("emq_locks_held"), "the open attempts were told it"
    assert get(port, "/readyz")[0] == 200


def restarted(port: int) -> Page | None:
    seen = page(port)
    return seen if seen.one("emq_proxy_inflight") else None
