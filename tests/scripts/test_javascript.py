"""Script texts in JavaScript: what is read is what node gives, and nothing is run."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqproxy.scripts.javascript import Literal, NotReadableError, read_scripts
from tests.e2e.packages import node_packages
from tests.scripts.older import old_texts


def module(content: str) -> str:
    return (
        f"\"use strict\";\n/* it's a `built` module */ // don't stop\nconst content = {content};\n"
        "exports.one = {\n    name: 'one',\n    content,\n    keys: 2,\n};\n"
    )


def test_the_texts_of_a_released_package_are_those_that_node_gives() -> None:
    folder = node_packages() / "node_modules" / "bullmq5" / "dist"
    for kind in ("cjs", "esm"):
        found = {
            script.name: (script.text, script.keys)
            for path in sorted((folder / kind / "scripts").glob("*-*.js"))
            for script in read_scripts(path.read_bytes().decode())
        }
        assert found == old_texts()
        assert len(found) == 50


ODD = [
    r"`a\\b\`c\$\{d\}e`",
    r"`\x41\u0042\u{1F600}\0\t\v\f\b\r\n-`",
    r"`é ☃ \é \q $ {x}`",
    "`one\r\ntwo\rthree\nfour`",
    "`one\\\ntwo\\\r\nthree`",
    r'"it\'s \"so\""',
    r"'\ud83d\ude00 it\'s'",
    "'one\\\ntwo'",
    r"'half a character \ud83d is sent as another'",
]


@pytest.mark.parametrize("content", ODD)
def test_escapes_are_those_of_the_language(content: str, tmp_path: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed: it is what the reader is held against")
    file = tmp_path / "one-2.js"
    file.write_bytes(module(content).encode())
    look = "process.stdout.write(JSON.stringify(require(process.argv[1]).one))"
    done = subprocess.run([node, "-e", look, str(file)], capture_output=True, check=True, timeout=30)
    told = json.loads(done.stdout.decode("utf-8", "surrogatepass"))
    assert read_scripts(module(content)) == [
        Literal(
            told["name"],
            told["keys"],
            told["content"].encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode(),
        )
    ]


@pytest.mark.parametrize(
    "source",
    [
        'const t=`return 1`;export const one={name:"one",content:t,keys:2};',
        "export const one = { keys: 2, content: `return 1`, name: 'one' }",
        'const content = "return 1"\nexports.one = { content, name: "one", keys: 2 }',
        "exports.one = { name: 'one', keys: 2, content: 'return 1' }",
    ],
)
def test_other_forms_of_a_module(source: str) -> None:
    assert read_scripts(source) == [Literal("one", 2, b"return 1")]


@pytest.mark.parametrize("source", ["", "export * from './one-2';", "const name = 'x';", "exports.x = {name: 'x'}"])
def test_a_module_without_a_script(source: str) -> None:
    assert read_scripts(source) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("`return ${1 + 1}`", "is put together"),
        (r"`a\\${1}`", "is put together"),
        ("`no end", "has no end"),
        ("'no\nend'", "has no end"),
        (r"'\u{110000}'", "names no character"),
        (r"`\u12`", "an escape that is none"),
        (r"`\1`", "an escape that is none"),
    ],
)
def test_what_cannot_be_read_says_why(content: str, why: str) -> None:
    with pytest.raises(NotReadableError, match=why):
        read_scripts(module(content))


def test_a_number_of_keys_that_is_none() -> None:
    with pytest.raises(NotReadableError, match="number of keys of one"):
        read_scripts("exports.one = {name: 'one', content: 'x', keys: many}")


@given(st.text(alphabet="`'\"\\${}/*\n\r ax0u:,=") | st.text())
def test_any_source(source: str) -> None:
    with contextlib.suppress(NotReadableError):
        read_scripts(source)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(text: str) -> None:
    assert read_scripts(module(json.dumps(text))) == [Literal("one", 2, text.encode())]
