"""Where the statements of a Lua 5.1 text begin and end: what a mutation deletes and a count of coverage counts.

Reads the whole grammar, keeps only places. What it cannot read raises ValueError: the text is ours, and compiles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"(?P<skip>\s+|--\[(?P<c>=*)\[.*?\](?P=c)\]|--[^\n]*)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\[(?P<s>=*)\[.*?\](?P=s)\])"
    r"|(?P<number>0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<op>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}\[\];:,.])",
    re.DOTALL,
)
_KEYWORDS: Final = frozenset((
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
    "repeat", "return", "then", "true", "until", "while",
))  # fmt: skip
_BLOCK_ENDS: Final = frozenset(("end", "else", "elseif", "until", ""))
_BINARY: Final = frozenset(("+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", ">", "<=", ">=", "and", "or"))
_CONSTANTS: Final = frozenset(("nil", "true", "false", "..."))


@dataclass(frozen=True, slots=True)
class Statement:
    """`text[start:end]`; `kind` is its first word, `call` for a call or an assignment, `clause` for else and elseif.

    `body` is where the first block of an `if` without other clauses stands, or the block of a clause.
    """

    start: int
    end: int
    kind: str
    body: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    kind: str
    word: str


def statements(text: str) -> list[Statement]:
    """All of a text, at any depth, in the order in which they begin."""
    return sorted(_Parser(text).parsed(), key=lambda found: (found.start, -found.end))


def code_lines(text: str) -> dict[int, int]:
    """Line number → where its first token begins, of the lines that hold more than closing words."""
    lines: dict[int, int] = {}
    for token in _tokens(text):
        if token.word not in ("end", ")", "}", "", ",", ";"):
            lines.setdefault(text.count("\n", 0, token.start) + 1, token.start)
    return lines


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: no Lua")
        at = match.end()
        if match["skip"] is not None:
            continue
        kind = next(kind for kind in ("string", "number", "name", "op") if match[kind] is not None)
        word = match[0] if kind in ("name", "op") else kind
        found.append(_Token(match.start(), at, "keyword" if word in _KEYWORDS else kind, word))
    return [*found, _Token(at, at, "end of text", "")]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._found: list[Statement] = []

    def parsed(self) -> list[Statement]:
        self._block()
        self._take("")
        return self._found

    @property
    def _word(self) -> str:
        return self._tokens[self._at].word

    def _take(self, word: str | None = None) -> _Token:
        token = self._tokens[self._at]
        if word is not None and token.word != word:
            raise ValueError(f"at {token.start}: {word} expected, not {token.word}")
        self._at += 1
        return token

    def _took(self, *words: str) -> bool:
        if self._word in words:
            self._at += 1
            return True
        return False

    def _name(self) -> None:
        token = self._take()
        if token.kind != "name":
            raise ValueError(f"at {token.start}: a name expected, not {token.word}")

    def _block(self) -> tuple[int, int]:
        start = self._tokens[self._at].start
        end = start
        while self._word not in _BLOCK_ENDS:
            end = self._statement()
        return start, end

    def _statement(self) -> int:
        start, word = self._tokens[self._at].start, self._word
        read = {
            "if": self._if, "while": self._while, "do": self._do, "for": self._for, "repeat": self._repeat,
            "function": self._function, "local": self._local, "return": self._return, "break": self._take,
        }.get(word)  # fmt: skip
        body = None
        if read is None:
            self._call_or_assignment()
        else:
            body = read()
        self._took(";")
        end = self._tokens[self._at - 1].end
        self._found.append(Statement(start, end, word if read is not None else "call", body if word == "if" else None))
        return end

    def _if(self) -> tuple[int, int] | None:
        self._take("if")
        self._expression()
        self._take("then")
        body: tuple[int, int] | None = self._block()
        while self._word in ("elseif", "else"):
            first = self._take()
            if first.word == "elseif":
                self._expression()
                self._take("then")
            block = self._block()
            self._found.append(Statement(first.start, self._tokens[self._at].start, "clause", block))
            body = None
        self._take("end")
        return body

    def _while(self) -> None:
        self._take("while")
        self._expression()
        self._do()

    def _do(self) -> None:
        self._take("do")
        self._block()
        self._take("end")

    def _for(self) -> None:
        self._take("for")
        self._names()
        if not self._took("=", "in"):
            raise ValueError(f"at {self._tokens[self._at].start}: = or in expected")
        self._expressions()
        self._do()

    def _repeat(self) -> None:
        self._take("repeat")
        self._block()
        self._take("until")
        self._expression()

    def _function(self) -> None:
        self._take("function")
        self._name()
        while self._took(".", ":"):
            self._name()
        self._function_body()

    def _function_body(self) -> None:
        self._take("(")
        while self._word != ")":
            self._take()
        self._take(")")
        self._block()
        self._take("end")

    def _local(self) -> None:
        self._take("local")
        if self._word == "function":
            self._function()
            return
        self._names()
        if self._took("="):
            self._expressions()

    def _return(self) -> None:
        self._take("return")
        if self._word not in _BLOCK_ENDS and self._word != ";":
            self._expressions()

    def _call_or_assignment(self) -> None:
        self._suffixed()
        while self._took(","):
            self._suffixed()
        if self._took("="):
            self._expressions()

    def _names(self) -> None:
        self._name()
        while self._took(","):
            self._name()

    def _expressions(self) -> None:
        self._expression()
        while self._took(","):
            self._expression()

    def _expression(self) -> None:
        while self._took("not", "-", "#"):
            pass
        token = self._tokens[self._at]
        if token.kind in ("number", "string") or token.word in _CONSTANTS:
            self._take()
        elif token.word == "function":
            self._take()
            self._function_body()
        elif token.word == "{":
            self._table()
        else:
            self._suffixed()
        if self._word in _BINARY:
            self._take()
            self._expression()

    def _table(self) -> None:
        self._take("{")
        while not self._took("}"):
            if self._took("["):
                self._expression()
                self._take("]")
                self._take("=")
            elif self._tokens[self._at].kind == "name" and self._tokens[self._at + 1].word == "=":
                self._take()
                self._take("=")
            self._expression()
            self._took(",", ";")

    def _suffixed(self) -> None:
        if self._took("("):
            self._expression()
            self._take(")")
        else:
            self._name()
        while True:
            token = self._tokens[self._at]
            if self._took("."):
                self._name()
            elif self._took("["):
                self._expression()
                self._take("]")
            elif self._took(":"):
                self._name()
            elif self._took("("):
                if not self._took(")"):
                    self._expressions()
                    self._take(")")
            elif token.kind == "string":
                self._take()
            elif token.word == "{":
                self._table()
            else:
                return
