"""Where statements begin and end: on one sample of each kind, and on all texts of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lua.statements import code_lines, statements

LUA = Path(__file__).parents[2] / "lua"
SAMPLE = """\
-- a comment: if then end
local a, b = f(1, "end"), { x = 1, [2] = -#t, 3; function() return 1 end } -- end
if a == b and not (a or b) then
  call("GET", a.b[1]:sub(1, 2) .. [[ end ]])
elseif a then
  a, b.c = b, a
else
  return
end
for i = 1, #t, 2 do t[i] = nil end
for k, v in pairs(t) do break end
while true do f{ 1 } end
repeat f "x" until a ~= 0x10
do local x end
local function g(...) return ... end
function m.n:o() end
if a then g() end;
return a >= 1.5e3
"""


def test_each_kind_is_found_whole() -> None:
    found = statements(SAMPLE)
    assert [at.kind for at in found] == [
        "local", "return", "if", "call", "clause", "call", "clause", "return", "for", "call", "for", "break", "while",
        "call", "repeat", "call", "do", "local", "local", "return", "function", "if", "call", "return",
    ]  # fmt: skip
    whole = {SAMPLE[at.start:at.end] for at in found}
    assert "for i = 1, #t, 2 do t[i] = nil end" in whole
    assert 'call("GET", a.b[1]:sub(1, 2) .. [[ end ]])' in whole
    assert 'repeat f "x" until a ~= 0x10' in whole
    assert "elseif a then\n  a, b.c = b, a\n" in whole
    assert "return a >= 1.5e3" in whole


def test_an_if_alone_knows_its_body_and_so_does_a_clause() -> None:
    bodies = [SAMPLE[slice(*at.body)] for at in statements(SAMPLE) if at.body is not None]
    assert bodies == ["a, b.c = b, a", "return", "g()"]


def test_lines_with_code() -> None:
    lines = code_lines(SAMPLE)
    assert 1 not in lines
    assert 9 not in lines
    assert SAMPLE[lines[5]:].startswith("elseif")
    assert sorted(lines) == [2, 3, 4, 5, 6, 7, 8, *range(10, 19)]


@pytest.mark.parametrize("bad", ["if a then", "local = 1", "a +", "for x do end", "$"])
def test_what_is_no_lua_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"at \d+|line \d+"):
        statements(bad)


@pytest.mark.parametrize("path", sorted(LUA.rglob("*.lua")), ids=lambda path: path.stem)
def test_ours_are_read(path: Path) -> None:
    text = path.read_text()
    found = statements(text)
    assert all(any(at.start <= start < at.end for at in found) for start in code_lines(text).values())
