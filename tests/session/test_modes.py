"""The small machines: what has been sent, and what has been proved."""

from __future__ import annotations

from emqproxy.session.commands import Rule
from emqproxy.session.modes import Proved, Sent, Slot, Subscriptions, Transaction


def test_a_database_selected_in_multi_holds_inside_and_after_exec_only() -> None:
    sent = Sent(db=1, multi=True, multi_db=3)
    assert sent.db_now == 3
    sent.left_multi(executed=False)
    assert (sent.db_now, sent.multi) == (1, False)
    sent = Sent(db=1, multi=True, multi_db=3)
    sent.left_multi(executed=True)
    assert sent.db_now == 3


def test_a_skip_is_used_up_and_an_off_is_not() -> None:
    sent = Sent(skip=True)
    assert [sent.silenced(), sent.silenced()] == [True, False]
    sent = Sent(off=True)
    assert [sent.silenced(), sent.silenced()] == [True, True]


def test_reset_forgets_all_that_was_sent() -> None:
    sent = Sent(db=2, multi=True, multi_db=3, off=True, skip=True, subscribed=True)
    sent.reset()
    assert sent == Sent()


def test_confirmations_give_the_sum_of_channels_and_patterns() -> None:
    subscriptions = Subscriptions()
    for command, total in ((b"SUBSCRIBE", 1), (b"SUBSCRIBE", 2), (b"PSUBSCRIBE", 3), (b"UNSUBSCRIBE", 2)):
        subscriptions.confirm(command, total)
    subscriptions.confirm(b"SSUBSCRIBE", 1)
    assert (subscriptions.channels, subscriptions.patterns, subscriptions.shards) == (1, 1, 1)
    assert subscriptions.of(b"PUNSUBSCRIBE") == 1
    assert subscriptions
    assert not Subscriptions()


def test_a_transaction_keeps_the_places_of_what_matters() -> None:
    transaction, slot = Transaction(), Slot(Rule.SCRIPT, 1)
    for queued in (None, slot, None):
        transaction.add(queued)
    assert (transaction.size, transaction.queued) == (3, [(1, slot)])


def test_messages_come_as_arrays_only_in_resp_2() -> None:
    proved = Proved(subscriptions=Subscriptions(channels=1))
    assert proved.listening
    proved.resp = 3
    assert not proved.listening
    proved.reset()
    assert proved == Proved()
