"""Script texts in a package's JavaScript modules: `{name: 'extendLock', content, keys: 2}` with the text as a string.

The module is read as words and literals, and never run. Strings are taken as the language defines them, escapes and
line ends in templates among them, so that what comes out is byte for byte what a client sends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_SKIPPED: Final = re.compile(r"\s+|//[^\n\r\u2028\u2029]*|/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile(r"[\w$]+")
_LITERALS: Final[dict[str, re.Pattern[str]]] = {
    "`": re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL),
    "'": re.compile(r"'((?:[^'\\\n\r]|\\\r\n|\\.)*)'", re.DOTALL),
    '"': re.compile(r'"((?:[^"\\\n\r]|\\\r\n|\\.)*)"', re.DOTALL),
}
_ESCAPE: Final = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_LINE_ENDS: Final = frozenset(("\n", "\r", "\r\n", "\u2028", "\u2029"))
_PLAIN: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_PARTS: Final = frozenset(("name", "content", "keys"))


class NotReadableError(Exception):
    """Why no script can be read from a module, in words."""


class Literal(NamedTuple):
    """A script as a module has it."""

    name: str
    keys: int
    text: bytes


class _Token(NamedTuple):
    text: str
    is_string: bool


def read_scripts(source: str) -> list[Literal]:
    """The scripts that a module gives out; an index or another module has none. Raises NotReadableError."""
    tokens = list(_tokens(source))
    found: list[Literal] = []
    strings: dict[str, str] = {}
    """By the name that each was given to."""
    parts: dict[str, str] = {}
    for at, token in enumerate(tokens):
        sign = tokens[at + 1].text if at + 1 < len(tokens) and not tokens[at + 1].is_string else ""
        value = tokens[at + 2] if at + 2 < len(tokens) else _Token("", False)
        if token.is_string:
            continue
        if sign == "=" and value.is_string:
            strings[token.text] = value.text
        elif token.text in _PARTS and sign == ":":
            parts[token.text] = value.text if value.is_string else strings.get(value.text, value.text)
        elif token.text == "content" and sign in {",", "}"} and "content" in strings:
            parts["content"] = strings["content"]
        if parts.keys() == _PARTS:
            found.append(_script(parts))
            parts = {}
    return found


def _script(parts: dict[str, str]) -> Literal:
    if not parts["keys"].isdecimal() or len(parts["keys"]) > 3:
        raise NotReadableError(f"the number of keys of {parts['name']} is no number")
    return Literal(parts["name"], int(parts["keys"]), parts["content"].encode())


def _tokens(source: str) -> Iterator[_Token]:
    at = 0
    while at < len(source):
        if blank := _SKIPPED.match(source, at):
            at = blank.end()
        elif source[at] in _LITERALS:
            found = _LITERALS[source[at]].match(source, at)
            if found is None:
                raise NotReadableError("a string in it has no end")
            yield _Token(_value(found[1], template=source[at] == "`"), True)
            at = found.end()
        elif word := _WORD.match(source, at):
            yield _Token(word[0], False)
            at = word.end()
        else:
            yield _Token(source[at], False)
            at += 1


def _value(raw: str, *, template: bool) -> str:
    """What a literal stands for."""
    if template:
        if re.search(r"(?<!\\)(?:\\\\)*\$\{", raw):
            raise NotReadableError("a text in it is put together when the module runs")
        raw = re.sub(r"\r\n?", "\n", raw)  # in a template a line's end is always a newline
    value = _ESCAPE.sub(_unescaped, raw)
    # Two escapes may make one character between them; one that is half a character is sent as U+FFFD.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if "\\u" in raw else value


def _unescaped(found: re.Match[str]) -> str:
    number = found[1] or found[2] or found[3]
    if number:
        if int(number, 16) > 0x10FFFF:
            raise NotReadableError("a string in it names no character")
        return chr(int(number, 16))
    if found[4] in _LINE_ENDS:
        return ""
    if found[4] in "123456789xu":
        raise NotReadableError("a string in it has an escape that is none")
    return _PLAIN.get(found[4], found[4])
