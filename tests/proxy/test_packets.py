"""The line of packets knows how much waits in it, whatever the array's length takes."""

import pytest

from emqproxy.locks.events import Blinded, Place, Window
from emqproxy.locks.verdicts import Verdict
from emqproxy.proxy.packets import Packets, is_backlog, messages_in, pack, records_in
from emqproxy.records import Anchor, Backlog, Line, Record


def record(seq: int) -> Record:
    verdict = Verdict(Blinded(Place(seq, 0), Window(0, 0)), None, at=0)
    return Record(seq, Line("blind", "told"), verdict, None, None)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 64, 65_535, 65_536])
def test_messages_are_counted_without_being_read(count: int):
    packet = pack([Anchor(0, 0, 0, n) for n in range(count)])
    assert (messages_in(packet), records_in(packet)) == (count, 0)


def test_a_line_of_packets():
    first, second, urgent = pack([record(1), record(2)]), pack([record(3)]), pack([Backlog(9)])
    line = Packets()
    assert not line
    line.append(first)
    line.append(second)
    line.prepend(urgent)
    assert list(line) == [urgent, first, second]
    assert (line.messages, line.size_bytes, line.first) == (4, len(first + second + urgent), urgent)
    line.pop()
    line.pop()
    assert (list(line), line.messages, line.size_bytes) == ([second], 1, len(second))
    line.replace([first, urgent])
    assert (line.messages, line.size_bytes) == (3, len(first + urgent))
    assert [is_backlog(packet) for packet in line] == [False, True]
    assert [records_in(packet) for packet in line] == [2, 0]
