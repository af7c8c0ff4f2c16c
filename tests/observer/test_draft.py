"""What is not known is not told."""

from __future__ import annotations

from emqproxy.observer.draft import Group, context_of


def test_a_group_leaves_out_what_is_not_known_and_keeps_what_is_false_or_nought() -> None:
    assert Group({"a": None, "b": 0, "c": False, "d": ""}).cells == {"b": 0, "c": False, "d": ""}


def test_a_context_is_of_elsewhere_and_sampled() -> None:
    found = context_of(5, 7)
    assert (found.trace_id, found.span_id, found.is_remote, found.trace_flags.sampled) == (5, 7, True, True)
