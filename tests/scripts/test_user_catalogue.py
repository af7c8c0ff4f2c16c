"""What is learned into a user's own catalogue, what is left out and why, and the file it is kept in."""

from __future__ import annotations

import hashlib
import json

import pytest

from emqproxy.locks.events import Release
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.raw import Hand
from emqproxy.scripts.renew import Renewal
from emqproxy.scripts.user_catalogue import (
    SCRIPTS_MAX,
    CatalogueError,
    Learnt,
    Text,
    UserScript,
    decode,
    encode,
    learn,
    merge,
)
from tests.scripts.older import old_texts
from tests.scripts.talk import AT, command, evalsha, keys, renew, text_of, words

RENEW = b"--[[ ours ]] if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0"
SHA = hashlib.sha1(RENEW).hexdigest()
ROW = UserScript(SHA, "extendLock", 2, "4.0.0-6.7.0", "", "mine/extendLock-2.lua")


def text(
    body: bytes,
    name: str = "extendLock",
    count: int | None = 2,
    release: str = "",
    where: str = "mine/extendLock-2.lua",
) -> Text:
    return Text(name, count, body, release, where)


def learnt(catalogue: Catalogue, *texts: Text) -> Learnt:
    return learn(texts, catalogue.published)


def test_a_script_of_ones_own_is_learned_with_its_layout(catalogue: Catalogue) -> None:
    assert learnt(catalogue, text(RENEW)) == Learnt([ROW], 0, [])


def test_published_texts_are_counted_and_not_added(catalogue: Catalogue) -> None:
    published = [text(text_of(label)) for label in ("extendLock-2", "moveToActive-11", "extendLock-2")]
    assert learnt(catalogue, *published) == Learnt([], 2, [])


@pytest.mark.parametrize("release", ["", "5.65.1", "6.8.0", "6.8.0-rc.1"])
def test_every_changed_script_of_a_package_is_learned_as_what_it_was(catalogue: Catalogue, release: str) -> None:
    given = []
    for name, (body, count) in old_texts().items():
        given.append(text(body + b"\n-- ours\n", name, count, release))
    added, published, left_out = learnt(catalogue, *given)
    assert (published, left_out) == (0, [])
    own = Catalogue(added=added)
    for name, (body, count) in old_texts().items():
        original = catalogue._lock_scripts.get(hashlib.sha1(body).hexdigest().encode())
        changed = own._lock_scripts.get(hashlib.sha1(body + b"\n-- ours\n").hexdigest().encode())
        script = own.identify(body + b"\n-- ours\n")
        assert script is not None
        assert (script.name, script.arity, script.match) == (name, count, "catalogue")
        assert script.releases == (f"{release}-{release}" if release and "rc" not in release else "")
        assert (original is None) == (changed is None)
        if original is not None and changed is not None:
            assert changed.layout.row == original.layout.row


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (text(b'--- @include "x"\nreturn 1'), "it has @include lines, so it is not what clients send"),
        (text(b"return 1", "", None), "which script it is cannot be told; name the file NAME-KEYS.lua"),
        (text(b"return 1", "extendLock", None), "which script it is cannot be told"),
        (text(b"return 1", "myOwn"), "no script myOwn is known"),
        (text(b"return 1", "extendLock", 3), "no layout of extendLock-3 is known"),
        (text(b"return KEYS[3]"), "its text does not fit extendLock-2: it uses KEYS[3], and there are 2"),
        (text(b"local token = ARGV[2]"), "its text does not fit extendLock-2: its ARGV[2] is said to be the token"),
        (
            text(b"return ARGV[7]", "moveToDelayed", 8),
            "where its arguments stand cannot be told: as in 5.5.4-5.8.5 or 5.33.0-5.73.2",
        ),
        (text(b"return ARGV[7]", "moveToDelayed", 8, "6.8.0"), "where its arguments stand cannot be told"),
    ],
)
def test_what_is_left_out_says_why_in_one_line(catalogue: Catalogue, given: Text, why: str) -> None:
    added, _, left_out = learnt(catalogue, given)
    assert added == []
    (line,) = left_out
    assert line.startswith(f"mine/extendLock-2.lua: {why}")
    assert line.endswith("; left out")
    assert line.isprintable()


@pytest.mark.parametrize(("release", "layout"), [("5.8.0", "5.5.4-5.8.5"), ("5.65.1", "5.33.0-5.73.2")])
def test_where_the_text_leaves_it_open_the_packages_release_tells(
    catalogue: Catalogue, release: str, layout: str
) -> None:
    added, _, left_out = learnt(catalogue, text(b"return ARGV[7]", "moveToDelayed", 8, release))
    assert [(script.layout, script.release) for script in added] == [(layout, release)]
    assert left_out == []


def test_a_script_that_touches_no_job_is_known_and_no_more(catalogue: Catalogue) -> None:
    (row,) = learnt(catalogue, text(b"return 1 -- ours", "getCounts", 1)).added
    own = Catalogue(added=[row])
    assert row.layout == ""
    assert own.identify(row.sha) is not None
    assert own.recognise(command(evalsha(row.sha.encode(), keys(""), "wait"))) is None


# ---------------------------------------------------------------- in the catalogue


def test_an_added_script_is_recognised_by_its_sha_and_its_text_under_any_prefix() -> None:
    own = Catalogue(("emq",), [ROW])
    for sent in (renew("1", "a:1"), evalsha(b"", [b"x:q:1:lock", b"x:q:stalled"], "a:1", 30_000, "1")):
        for call in ([b"evalsha", SHA.encode(), *sent[2:]], [b"eval", RENEW, *sent[2:]]):
            operation = own.recognise(command(call))
            assert isinstance(operation, Renewal)
            assert operation.token == b"a:1"
            assert (operation.script.label, operation.script.match) == ("extendLock-2", "catalogue")
    assert len(own) == len(Catalogue()) + 1
    assert list(own)[-1].sha == SHA
    assert SHA not in own.published
    assert not own.strangers([b"EVALSHA", SHA.encode(), b"1", b"other", b""])
    own.script_loaded(RENEW)
    assert not own._learned


def test_its_keys_must_be_those_of_its_layout() -> None:
    own = Catalogue(("emq",), [ROW])
    operation = own.recognise(command(evalsha(SHA.encode(), keys("1:lock", "waiting"), "a:1", 30_000, "1")))
    assert isinstance(operation, Hand)


def test_a_published_script_cannot_be_given_another_layout(catalogue: Catalogue) -> None:
    sha = hashlib.sha1(text_of("moveToFinished-14")).hexdigest()
    own = Catalogue(added=[UserScript(sha, "extendLock", 2, "4.0.0-6.7.0", "", "x")])
    assert own.identify(sha) == catalogue.identify(sha)
    assert len(own) == len(catalogue)


def test_a_finish_of_ones_own_is_judged_by_its_packages_release(catalogue: Catalogue) -> None:
    body, count = old_texts()["retryJob"]
    for release in ("", "5.65.1"):
        (row,) = learnt(catalogue, text(body + b"-- ours", "retryJob", count, release)).added
        names = ("active", "wait", "paused", "7", "meta", "events", "delayed", "prioritized", "pc", "marker", "stalled")
        sent = words("EVAL", body + b"-- ours", keys(*names), "emq:orders:", 1, "LPUSH", "7", "a:1", b"")
        operation = Catalogue(added=[row]).recognise(command(sent))
        assert operation is not None
        (intent,) = operation.intents(AT, 0)
        assert isinstance(intent, Release)
        assert intent.token == b"a:1"


# ---------------------------------------------------------------- the file


def test_the_file_comes_back_and_has_one_script_a_line() -> None:
    other = UserScript("0" * 40, "getCounts", 1, "", "5.81.5", "bullmq/scripts/getCounts-1.js")
    data = encode([other, ROW])
    assert decode(data) == [ROW, other]
    assert data == encode([ROW, other])
    assert data.count(b"\n") == 4
    assert json.loads(data)["scripts"][0]["script"] == "extendLock"
    assert decode(encode([])) == []


def test_merging_keeps_what_was_there_and_takes_the_newer_of_two() -> None:
    other = UserScript("0" * 40, "getCounts", 1, "", "", "x")
    newer = UserScript(SHA, "extendLock", 2, "4.0.0-6.7.0", "5.81.5", "y")
    assert merge([ROW, other], [newer]) == [newer, other]


def row(**changed: object) -> bytes:
    told = {"sha": SHA, "script": "extendLock", "keys": 2, "layout": "", "release": "", "source": ""} | changed
    return json.dumps({"emqproxy_scripts": 1, "scripts": [told]}).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a catalogue of scripts (Input data was truncated)"),
        (b"\xff", "not a catalogue of scripts ("),
        (b"[" * 100_000, "not a catalogue of scripts ("),
        (b"[]", "not a catalogue of scripts (Expected `object`, got `array`)"),
        (b"{}", "not a catalogue of scripts (Object missing required field"),
        (row(text="return 1"), "not a catalogue of scripts (Object contains unknown field `text`"),
        (row(keys="2"), "not a catalogue of scripts (Expected `int`, got `str`"),
        (row().replace(b": 1,", b": 2,", 1), "its form is 2, and this release reads 1"),
        (row(sha=SHA.upper()), "is no sha1 of 40 lower-case hex digits"),
        (row(release="newest"), "'newest' is no release like 5.81.5"),
        (row(layout="1.0.0-2.0.0"), "extendLock-2 has no layout 1.0.0-2.0.0 in this release; add its package again"),
        (encode([ROW, ROW]), "a sha stands in it twice"),
        (encode([ROW] * (SCRIPTS_MAX + 1)), f"it has more than {SCRIPTS_MAX} scripts"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_clear_line(data: bytes, why: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        decode(data)
    line = str(caught.value)
    assert why in line
    assert line.isprintable()
    assert len(line) < 400
