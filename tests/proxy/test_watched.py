"""A connection as the witness sees it: when it was silent, and how much it said at once."""

from __future__ import annotations

from emqproxy.proxy.consulting import BURST_NS
from emqproxy.proxy.watched import Watched
from emqproxy.session.gated import GatedSession

S_NS = 1_000_000_000


def watched() -> Watched:
    return Watched(1, "127.0.0.1:1", GatedSession(), heard_at=S_NS, made_at=S_NS)


def test_silence_is_measured_before_what_comes_at_once():
    one = watched()
    one.heard(3 * S_NS)
    assert one.silent_from == S_NS, "it was made then"
    one.heard(3 * S_NS + BURST_NS)
    assert one.silent_from == S_NS, "a part of the same burst"
    one.heard(8 * S_NS)
    assert one.silent_from == 3 * S_NS + BURST_NS


def test_calls_near_an_instant_are_counted():
    one = watched()
    one.calls.extend([S_NS, S_NS + 1, S_NS + 2 * BURST_NS])
    assert one.calls_near(S_NS, BURST_NS) == 2
    assert one.calls_near(9 * S_NS, BURST_NS) == 0


def test_a_new_name_is_another_peer():
    one = watched()
    assert one.peer is one.peer
    assert one.peer.client_name is None
