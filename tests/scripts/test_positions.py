"""What texts say of their arguments: enough to tell every layout from its namesakes, and never a wrong one."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import bullmq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.scripts import layouts
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.layouts import Layout
from emqproxy.scripts.positions import contradiction, fitting, said_of
from tests.scripts.older import old_texts

LAYOUTS = layouts.load()


def texts() -> list[bytes]:
    new = [path.read_bytes() for path in (Path(bullmq.__file__).parent / "commands").glob("*.lua")]
    return [*new, *(text for text, _ in old_texts().values())]


def layout(name: str, arity: int, first: str) -> Layout:
    (found,) = (row for row in LAYOUTS[name, arity] if row.row.first == first)
    return found


def true_layout(catalogue: Catalogue, text: bytes) -> tuple[tuple[Layout, ...], Layout] | None:
    script = catalogue.identify(hashlib.sha1(text).hexdigest())
    assert script is not None
    rows = LAYOUTS.get((script.name, script.arity))
    if rows is None:
        return None
    held = layouts.in_range(rows, *script.releases.split("-"))
    assert held is not None
    return rows, held


def test_every_text_of_two_releases_tells_its_layout(catalogue: Catalogue) -> None:
    told = 0
    for text in texts():
        found = true_layout(catalogue, text)
        if found is not None:
            assert list(fitting(found[0], said_of(text))) == [found[1]]
            told += 1
    assert told > 60


def test_without_its_first_comment_a_text_never_tells_a_wrong_one(catalogue: Catalogue) -> None:
    for text in texts():
        found = true_layout(catalogue, text)
        if found is not None:
            bare = re.sub(rb"\A\s*--\[\[.*?\]\]", b"", text, flags=re.DOTALL)
            assert found[1] in fitting(found[0], said_of(bare))


@pytest.mark.parametrize(
    ("text", "firsts"),
    [
        (b"local token = ARGV[5]\nlocal jobId = ARGV[4]\nlocal f = ARGV[7]", ["5.5.4"]),
        (b"--[[ ARGV[3] the id of the job\n ARGV[4] token ]]\nreturn ARGV[6]", ["5.8.6"]),
        (b"--[[ ARGV[3] job id\n ARGV[4] token ]]\nreturn ARGV[7]", ["5.33.0"]),
        (b"--[[\n KEYS[1] wait key\n ARGV[5] token ]]\nreturn ARGV[5]", ["4.0.0"]),
        (b"return ARGV[7]", ["5.5.4", "5.33.0"]),
        (
            b"--[[ ARGV[4] token ]]\nlocal token = ARGV[5]\nlocal skip = ARGV[7]",
            [],
        ),  # a comment that is not of this code
        (b"local token = ARGV[6]", []),
        (b"return KEYS[9]", []),
        (b"return ARGV[8]", []),
    ],
)
def test_the_five_layouts_of_one_script(text: bytes, firsts: list[str]) -> None:
    found = fitting(LAYOUTS["moveToDelayed", 8], said_of(text))
    assert [row.row.first for row in found] == firsts


def test_a_contradiction_is_told_in_words() -> None:
    renew = layout("extendLock", 2, "4.0.0")
    assert contradiction(renew, said_of(b"local token = ARGV[2]")) == "its ARGV[2] is said to be the token"
    assert contradiction(renew, said_of(b"return KEYS[3]")) == "it uses KEYS[3], and there are 2"
    assert contradiction(renew, said_of(b"--[[ ARGV[1] token ]] return KEYS[1]")) is None


@given(st.binary() | st.text().map(str.encode))
def test_any_text(text: bytes) -> None:
    for rows in LAYOUTS.values():
        fitting(rows, said_of(text))
