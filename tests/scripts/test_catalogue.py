"""Which script a call runs: by sha in any form, by text, by texts that passed by; never wrongly, never raising."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import bullmq
import pytest

from emqproxy.scripts import catalogue as module
from emqproxy.scripts import layouts, texts
from emqproxy.scripts.catalogue import FAMILIES, Catalogue
from emqproxy.scripts.raw import Hand
from emqproxy.scripts.release import rule_of
from tests.scripts.talk import AT, command, evalsha, finish, keys, lock, pick, release, renew, sha_of, sweep, text_of

_CHANGED = b"\n-- a later release\n"


def changed(label: str) -> tuple[bytes, bytes]:
    """The text as a release that nobody knows has it, and its sha."""
    text = text_of(label) + _CHANGED
    return text, hashlib.sha1(text).hexdigest().encode()


def with_sha(sent: list[bytes | None], sha: bytes) -> list[bytes | None]:
    return [sent[0], sha, *sent[2:]]


def as_eval(sent: list[bytes | None], text: bytes) -> list[bytes | None]:
    return [b"eval", text, *sent[2:]]


def unknown(catalogue, call):
    """Whether nobody knows its script: at the most it is known by its shape, or a hand on a lock key that it names."""
    operation = catalogue.recognise(call)
    return operation is None or operation.script.match == ("" if isinstance(operation, Hand) else "shape")


def test_all_published_scripts_are_there(catalogue):
    assert len(catalogue) == len(list(catalogue)) == 677 + len(texts.names())
    assert len({script.name for script in catalogue}) == 70
    assert all(script.match == "catalogue" and script.releases.count("-") == 1 for script in catalogue)


def test_every_lock_script_of_every_release_has_exactly_one_layout(catalogue):
    rows = layouts.load()
    found = 0
    for script in catalogue:
        if script.name not in FAMILIES:
            continue
        first, _, last = script.releases.partition("-")
        held = layouts.in_range(rows[script.name, script.arity], first, last)
        assert held is not None, script
        others = [row for row in rows[script.name, script.arity] if row is not held]
        assert not [row for row in others if row.first <= layouts.release(last) and layouts.release(first) <= row.last]
        found += 1
    assert found == 622 + len(texts.names())


@pytest.mark.parametrize(
    ("name", "borders"),
    [
        ("moveToFinished", ["5.45.2"]),
        ("moveToDelayed", ["5.5.4"]),
        ("retryJob", ["5.5.4"]),
        ("moveToWaitingChildren", ["5.5.4", "5.56.7"]),
        ("moveJobFromActiveToWait", ["5.34.5"]),
    ],
)
def test_no_published_text_spans_a_release_at_which_a_rule_changes(catalogue, name, borders):
    rows, rules = layouts.load(), set()
    for script in catalogue:
        if script.name == name:
            first, _, last = script.releases.partition("-")
            for border in map(layouts.release, borders):
                assert (layouts.release(first) < border) == (layouts.release(last) < border), script
            held = layouts.in_range(rows[name, script.arity], first, last)
            assert held is not None
            rules.add(id(rule_of(script, held)))
    assert len(rules) >= 2, "each of these has a rule before and another after"


def test_the_wheels_lock_scripts_are_published_ones(catalogue):
    for path in sorted((Path(bullmq.__file__).parent / "commands").glob("*.lua")):
        script = catalogue.identify(path.read_bytes())
        assert script is not None
        assert (script.label, script.match) == (path.stem, "catalogue")
        assert catalogue.identify(script.sha.upper()) == script


@pytest.mark.parametrize("form", ["evalsha", "EVALSHA", "EvalSha"])
def test_a_sha_is_known_in_any_case(catalogue, form):
    sent = renew("1", "a:1")
    sent[0] = form.encode()
    for sha in (sha_of("extendLock-2"), sha_of("extendLock-2").upper()):
        operation = catalogue.recognise(command(with_sha(sent, sha)))
        assert operation is not None
        assert operation.script.label == "extendLock-2"


@pytest.mark.parametrize("form", ["eval", "EVAL"])
def test_a_published_text_is_known_by_its_sha(catalogue, form):
    sent = as_eval(pick("a:1"), text_of("moveToActive-11"))
    sent[0] = form.encode()
    operation = catalogue.recognise(command(sent))
    assert operation is not None
    assert (operation.script.label, operation.script.match) == ("moveToActive-11", "catalogue")


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [b"evalsha"],
        [b"evalsha", None],
        [b"evalsha", None, b"2"],
        [b"evalsha", b"0" * 40, b"0"],
        [b"get", b"key"],
        [b"script", b"load", b"return 1"],
        [b"eval", b"return 1", b"0"],
        [b"eval", None, b"0"],
        [b"fcall", *pick("a:1")[1:]],
        evalsha(sha_of("extendLock-2"), [b"emq:orders:1", b"emq:orders:stalled"], "a:1", 1, "1"),  # no lock's key
        [*sweep()[:-3], None, b"1", b"1"],
        evalsha(sha_of("pause-7"), keys("wait", "paused", "meta", "prioritized", "events", "delayed", "marker"), "x"),
    ],
    ids=str,
)
def test_what_is_no_lock_operation(catalogue, sent):
    assert catalogue.recognise(command(sent or [b"EVALSHA"])) is None


@pytest.mark.parametrize(
    "sent",
    [
        evalsha(sha_of("extendLock-2"), keys("1:lock"), "a:1", 1, "1"),  # numkeys 1
        [*renew("1", "a:1")[:2], b"9", *renew("1", "a:1")[3:]],  # numkeys past the words
    ],
    ids=str,
)
def test_a_malformed_call_is_a_hand_on_the_lock_keys_it_names(catalogue, sent):
    operation = catalogue.recognise(command(sent))
    assert isinstance(operation, Hand)
    assert [key.key for key in operation.keys] == [lock("1").key]
    assert operation.script.label == "extendLock-2"


def test_extra_arguments_are_tolerated(catalogue):
    sent = renew("1", "a:1")
    assert catalogue.recognise(command([*sent, b"more"])) == catalogue.recognise(command(sent)) is not None


CALLS = {
    "moveToActive-11": pick("a:1"),
    "moveToFinished-14": finish("1", "a:1"),
    "moveStalledJobsToWait-9": sweep(),
    "extendLock-2": renew("1", "a:1"),
    "releaseLock-1": release("1", "a:1"),
}


@pytest.mark.parametrize("label", CALLS)
def test_an_unknown_text_is_known_in_eval_at_once_and_by_sha_when_it_was_loaded(label):
    catalogue, (text, sha), sent = Catalogue(), changed(label), CALLS[label]
    by_sha = command(with_sha(sent, sha))
    assert unknown(catalogue, by_sha)
    at_once = catalogue.recognise(command(as_eval(sent, text)))
    assert at_once is not None
    assert (at_once.script.label, at_once.script.match, at_once.script.releases) == (label, "learned", "")
    assert unknown(catalogue, by_sha), "nobody said that it compiled"
    catalogue.script_loaded(text)
    assert catalogue.recognise(by_sha) == at_once
    assert at_once.script.sha == sha.decode()
    published = catalogue.recognise(command(sent))
    assert published is not None
    assert at_once.intents(AT, 0) == published.intents(AT, 0)


def test_a_text_is_of_the_protocol_only_with_the_keys_of_its_layout():
    text, sha = changed("extendLock-2")
    catalogue = Catalogue()
    catalogue.script_loaded(text)
    assert catalogue.recognise(command(renew("1", "a:1")))
    for stranger in (keys("1:lock", "waiting"), keys("1", "stalled"), keys("1:lock"), keys("1:lock", "stalled", "x")):
        sent = evalsha(sha, stranger, "a:1", 30_000, "1")
        assert unknown(catalogue, command(sent)), stranger


def test_a_stranger_with_a_borrowed_header_is_not_learned_into_another_shape():
    text = text_of("moveToFinished-14")
    catalogue = Catalogue()
    assert unknown(catalogue, command(as_eval(renew("1", "a:1"), text + _CHANGED)))


def test_other_texts_are_not_learned():
    catalogue = Catalogue()
    for text in (b"return 1", b"--[[ hello ]] return 1", b"", None, text_of("extendLock-2")):
        catalogue.script_loaded(text)
    assert not catalogue._learned


def test_learned_texts_are_bounded_and_those_in_use_stay(monkeypatch):
    monkeypatch.setattr(module, "LEARNED_MAX", 4)
    catalogue, (text, sha) = Catalogue(), changed("extendLock-2")
    catalogue.script_loaded(text)
    for number in range(20):
        catalogue.script_loaded(text + b"%d" % number)
        assert catalogue.recognise(command(with_sha(renew("1", "a:1"), sha))), number
    assert len(catalogue._learned) == 4


def test_identify_takes_shas_and_texts(catalogue):
    script = catalogue.identify(sha_of("moveToFinished-14") + b"\n")
    assert (script.name, script.arity, script.match) == ("moveToFinished", 14, "catalogue")
    assert catalogue.identify("6c4c6de2bece2ad87657691d945d902df2198f5e").releases == "5.60.0-5.81.5"
    text, sha = changed("moveToFinished-14")
    unpublished = catalogue.identify(text)
    assert (unpublished.label, unpublished.match, unpublished.sha) == ("moveToFinished-14", "learned", sha.decode())
    for stranger in ("f" * 40, b"return 1", b"", "nonsense", b"\xff" * 40):
        assert catalogue.identify(stranger) is None


def test_a_header_of_two_scripts_names_neither(catalogue):
    assert catalogue.identify(changed("removeJob-2")[0]) is None


def test_a_learned_sha_is_identified_where_one_arity_is_possible():
    catalogue, (text, sha) = Catalogue(), changed("extendLock-2")
    assert catalogue.identify(sha) is None
    catalogue.script_loaded(text)
    assert catalogue.identify(sha).label == "extendLock-2"


def test_of_header_lines_only_hashes_are_shipped():
    headers = json.loads((Path(module.__file__).parent / "data" / "headers.json").read_text())
    assert len(headers) == 70
    assert all(re.fullmatch("[0-9a-f]{16}", line) for lines in headers.values() for line in lines)
