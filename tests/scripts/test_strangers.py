"""A stranger's call is nothing to anybody, and is one no longer when its text is learnt."""

from __future__ import annotations

from emqproxy.scripts.catalogue import Catalogue
from tests.scripts.talk import keys, sha_of
from tests.scripts.test_catalogue import changed


def test_a_stranger_is_a_sha_that_nobody_knows_on_keys_of_others():
    catalogue = Catalogue(("emq",))
    mine, theirs = keys("1:lock")[0], b"cache:1"
    known, unknown = sha_of("extendLock-2"), b"f" * 40
    assert catalogue.strangers(evalsha_upper(unknown, theirs))
    assert catalogue.strangers([b"EVALSHA", unknown, b"0", b"argument"])
    for call in (
        evalsha_upper(known, theirs),  # a known sha counts under any prefix
        evalsha_upper(known.upper(), theirs),
        evalsha_upper(unknown, mine),
        [b"EVALSHA", unknown, b"1", None],  # a key too large to be read
        [b"EVALSHA", None, b"1", theirs],
        [b"EVALSHA", unknown],
        [b"EVAL", b"return 1", b"1", theirs],  # its text may be learnt
    ):
        assert not catalogue.strangers(call)
    text, sha = changed("extendLock-2")
    assert catalogue.strangers(evalsha_upper(sha, theirs))
    age = catalogue.strangers.age
    catalogue.script_loaded(text)
    assert catalogue.strangers.age != age, "whoever remembers a stranger asks again"
    assert not catalogue.strangers(evalsha_upper(sha, theirs))


def evalsha_upper(sha: bytes, key: bytes) -> list[bytes | None]:
    return [b"EVALSHA", sha, b"1", key, b"token"]
