"""What a reader sees: whole pictures at several widths, and what must hold of any picture."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from emqproxy.lock_timeline import Holding, LockTimeline, Mark, Marked, Proof, Stretch
from emqproxy.timeline_drawing import WIDTH_MIN, DrawnTimeline, draw, plain
from tests.timelines import STALLED

PICTURES = {
    (80, False): """
        s 0       20      40       60      80      100     120      140     160
          ├───────┼───────┼────────┼───────┼───────┼───────┼────────┼───────┼──
worker 1  ▶━━━━━●━━━━━━─◐━━━━━━─────▼··············✕!
  blocked                ░░░░░░░░░░░░░░░░░░░░░░░░░░
worker 2                                       »━━━━━●━━━━━━────○━━━■       ┆
the queue             m            m           S
▶ taken  » taken over  ━ held  ─ past half its time  ● renewed  ◐ renewed late
○ renewed at the last moment  ▼ lapsed  · goes on without it  ✕ renewal refused
■ given back  ! finish refused  ┆ would have ended  ░ blocked
m a sweep marks it  S a sweep puts it back
""",
    (120, False): """
        s 0            20           40           60           80           100           120          140          160
          ├────────────┼────────────┼────────────┼────────────┼────────────┼─────────────┼────────────┼────────────┼───
worker 1  ▶━━━━━━━━━●━━━━━━━━━──◐━━━━━━━━━━─────────▼······················✕!
  blocked                         ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
worker 2                                                             »━━━━━━━━━●━━━━━━━━━───────○━━━━━■            ┆
the queue                     m                  m                   S
▶ taken  » taken over  ━ held  ─ past half its time  ● renewed  ◐ renewed late  ○ renewed at the last moment  ▼ lapsed
· goes on without it  ✕ renewal refused  ■ given back  ! finish refused  ┆ would have ended  ░ blocked
m a sweep marks it  S a sweep puts it back
""",
    (80, True): """
        s 0       20      40       60      80      100     120      140     160
          +-------+-------+--------+-------+-------+-------+--------+-------+--
worker 1  >=====o======-l======-----X..............x!
  blocked                ##########################
worker 2                                       T=====o======----c===]       |
the queue             m            m           S
> taken  T taken over  = held  - past half its time  o renewed  l renewed late
c renewed at the last moment  X lapsed  . goes on without it  x renewal refused
] given back  ! finish refused  | would have ended  # blocked
m a sweep marks it  S a sweep puts it back
""",
    (40, False): """
        s 0       50       100     150
          ├───────┼────────┼───────┼───
worker 1  ▶━━●━━◐━━──▼·····✕!
  blocked       ░░░░░░░░░░░
worker 2                 »━━●━━─○━■  ┆
the queue      m    m    S
▶ taken  » taken over  ━ held
─ past half its time  ● renewed
◐ renewed late
○ renewed at the last moment  ▼ lapsed
· goes on without it  ✕ renewal refused
■ given back  ! finish refused
┆ would have ended  ░ blocked
m a sweep marks it
S a sweep puts it back
""",
}
"""(width, ASCII only) → all of it."""

INSTANTS = st.floats(-1e6, 1e9, allow_nan=False)
STRETCHES = st.lists(st.builds(Stretch, INSTANTS, INSTANTS), max_size=3).map(tuple)
MARKS = st.builds(Marked, INSTANTS, st.sampled_from(Mark))
HOLDINGS = st.builds(
    Holding,
    st.text(max_size=30),
    st.lists(st.builds(Proof, INSTANTS, INSTANTS, st.sampled_from([Mark.RENEWED, Mark.LATE])), max_size=6).map(
        lambda proofs: tuple(sorted(proofs, key=lambda proof: proof[:2]))
    ),
    st.lists(MARKS, max_size=6).map(tuple),
    STRETCHES,
    st.booleans(),
    STRETCHES,
)
TIMELINES = st.builds(
    lambda holdings, queue, start_ms, long_ms: LockTimeline(holdings, queue, start_ms, start_ms + long_ms),
    st.lists(HOLDINGS, max_size=4).map(tuple),
    st.lists(MARKS, max_size=4).map(tuple),
    INSTANTS,
    st.floats(0, 1e9),
)


@pytest.mark.parametrize(("width", "ascii_only"), PICTURES)
def test_the_picture(width: int, ascii_only: bool) -> None:
    assert plain(STALLED, width, ascii_only=ascii_only) == PICTURES[width, ascii_only].strip("\n")


@settings(max_examples=150, deadline=None)
@given(TIMELINES, st.integers(0, 200), st.booleans())
def test_any_picture_fits_and_steers_no_terminal(timeline: LockTimeline, width: int, ascii_only: bool) -> None:
    text = plain(timeline, width, ascii_only=ascii_only)
    assert all(cell_len(line) <= max(width, WIDTH_MIN) for line in text.split("\n"))
    assert text.replace("\n", "").isprintable()


def test_colour_changes_no_letter_and_ascii_is_ascii() -> None:
    coloured, ascii_only = io.StringIO(), plain(STALLED, 80, ascii_only=True)
    Console(file=coloured, force_terminal=True, color_system="truecolor", width=80, legacy_windows=False).print(
        DrawnTimeline(STALLED)
    )
    assert Text.from_ansi(coloured.getvalue().rstrip("\n")).plain.split("\n") == plain(STALLED, 80).split("\n")
    assert "\x1b[" in coloured.getvalue()
    assert ascii_only.isascii()


def test_a_console_that_writes_no_other_signs_gets_ascii() -> None:
    written = io.BytesIO()
    with io.TextIOWrapper(written, encoding="ascii") as file:
        Console(file=file, width=80).print(DrawnTimeline(STALLED))
        file.flush()
        assert written.getvalue().decode("ascii").rstrip("\n") == plain(STALLED, 80, ascii_only=True)


def row(timeline: LockTimeline, name: str, width: int = 80) -> str:
    return next(line for line in plain(timeline, width).split("\n") if line.startswith(name))


def one(*marks: Marked, proofs: tuple[Proof, ...] = (Proof(0, 100),), name: str = "w") -> Holding:
    return Holding(name, proofs, marks)


def test_who_takes_what_was_given_back_takes_nothing_over() -> None:
    first, second = one(Marked(50, Mark.FINISHED)), one(proofs=(Proof(60, 160),), name="v")
    assert "▶" in row(LockTimeline((first, second), (), 0, 200), "v")
    lost = one(Marked(50, Mark.LOST))
    assert "»" in row(LockTimeline((lost, second), (), 0, 200), "v")


def test_a_picture_of_one_instant_and_one_of_nobody() -> None:
    assert "▶" in row(LockTimeline((one(),), (), 0, 0), "w")
    assert plain(LockTimeline((), (), 0, 1000)).split("\n")[1].strip().startswith("├")


def test_of_two_in_one_column_the_second_moves_and_of_many_the_gravest_stands() -> None:
    both = one(Marked(100, Mark.FINISH_REFUSED), Marked(100, Mark.REFUSED))
    assert "✕!" in row(LockTimeline((both,), (), 0, 10_000), "w")
    crowd = one(*(Marked(100, mark) for mark in (Mark.REFUSED, Mark.LAPSED, Mark.FINISH_REFUSED)))
    assert "▼" in row(LockTimeline((crowd,), (), 0, 10_000), "w")


def test_the_band_changes_at_half_the_time_and_ends_with_it() -> None:
    cells = row(LockTimeline((one(Marked(200, Mark.REFUSED)),), (), 0, 200), "w").removeprefix("w" + " " * 9)
    assert cells == "▶" + "━" * 16 + "─" * 18 + "·" * 33 + "✕"
    assert draw(LockTimeline((one(),), (), 0, 200)).spans


def test_where_nothing_is_known_nothing_is_drawn() -> None:
    proofs, marks = (Proof(0, 30000), Proof(10000, 40000)), (Marked(30000, Mark.REFUSED), Marked(35000, Mark.REFUSED))
    holding = Holding("w", proofs, marks, doubts=(Stretch(10000, 30000),))
    row = plain(LockTimeline((holding,), (), 0, 40000), 60).splitlines()[2]
    assert re.fullmatch(r"w +▶━+● +✕·+✕", row), row


def test_what_hands_and_wipes_do_stands_in_the_queue_s_row_and_the_legend() -> None:
    marks = (Mark.HAND_TAKES, Mark.HAND_PUTS, Mark.HAND_DELETES, Mark.WIPED)
    queue = tuple(Marked(20 * place, mark) for place, mark in enumerate(marks, 1))
    picture = plain(LockTimeline((one(),), queue, 0, 100), 80)
    assert re.search(r"the queue +t +p +d +W$", picture, re.MULTILINE), picture
    words = " ".join(picture.split())
    for said in (
        "t taken out by hand", "p put in by hand", "d its data deleted by hand", "W queue or database emptied",
    ):  # fmt: skip
        assert said in words


def test_no_two_marks_have_one_sign() -> None:
    for ascii_only in (False, True):
        signs = []
        for mark in Mark:
            picture = plain(LockTimeline((), (Marked(50, mark),), 0, 100), 80, ascii_only=ascii_only)
            signs.append(picture.split("\n")[2].split()[-1])
        assert len(set(signs)) == len(Mark), signs


def test_of_two_in_the_last_column_the_first_gives_way() -> None:
    both = one(Marked(10_000, Mark.REFUSED), Marked(10_000, Mark.FINISH_REFUSED))
    assert row(LockTimeline((both,), (), 0, 10_000), "w").endswith("✕!")


def test_what_came_before_stands_in_the_head() -> None:
    head = plain(STALLED._replace(before="added 5.0 s before"), 40).splitlines()
    assert head[0] == "(added 5.0 s before)"
    assert head[1:] == plain(STALLED, 40).splitlines()
