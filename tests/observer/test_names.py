"""Keys become names without losing or inventing a part."""

from __future__ import annotations

import pytest

from emqproxy.locks import events
from emqproxy.locks.events import Lock, Queue
from emqproxy.observer import names


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        (b"bull:q:", ("bull", "q")),
        (b"{emq}:orders:", ("{emq}", "orders")),
        (b"a:b:c:q:", ("a:b:c", "q")),
        (b"emq:{q}:", ("emq", "{q}")),
        (b"q:", ("", "q")),
        (b"emq:\xffq:", ("emq", "\\xffq")),
        ("emq:büro:".encode(), ("emq", "büro")),
    ],
)
def test_the_queue_is_the_last_part(prefix: bytes, name: tuple[str, str]) -> None:
    assert names.queue_name(Queue(0, prefix)) == name


@pytest.mark.parametrize("job", [b"42", b"a:b", b"repeat:abc:170", b"x:lock", b"@3", b"\xfe"])
def test_a_job_is_its_lock_less_prefix_and_suffix(job: bytes) -> None:
    queue = Queue(0, b"bull:q:")
    lock = Lock(0, queue.prefix + job + b":lock")
    assert names.job_key(lock) == queue.prefix + job
    assert names.job_id(queue, lock) == names.text(job)


@pytest.mark.parametrize(
    ("fact", "word"),
    [
        (events.Granted, "granted"),
        (events.HeldByOther, "held_by_other"),
        (events.NotMine, "not_mine"),
        (events.NoProof, "no_proof"),
        (events.PerhapsGranted, "perhaps_granted"),
        (events.Lapsed, "lapsed"),
        (events.Blinded, "blinded"),
        (events.Untouched, "untouched"),
        (events.Deleted, "deleted"),
        (events.Overwritten, "overwritten"),
    ],
)
def test_effects_are_the_facts_in_the_journals_words(fact: type[events.Fact], word: str) -> None:
    assert events._EFFECTS[fact.__name__] == word


@pytest.mark.parametrize(
    ("prefix", "system"),
    [("emq", "echomq"), ("{emq}", "echomq"), ("bull", "bullmq"), ("myapp", "bullmq"), ("", "bullmq")],
)
def test_the_messaging_system_follows_the_prefix(prefix: str, system: str) -> None:
    assert names.messaging_system(prefix) == system
