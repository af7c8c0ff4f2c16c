"""Stated causes against true ones, the short form; the long one is `python -m tests.long.true_causes`."""

from __future__ import annotations

from tests.causes.account import Figures, Stated, complaints, near
from tests.causes.playing import play
from tests.causes.table import drawn
from tests.causes.truth import Ending, Expected, Truth
from tests.processes import RedisServer


def test_what_is_stated_is_what_was_true():
    with RedisServer() as server:
        figures, _ = play(server, 300)
    assert figures.good, "\n".join((*figures.said[:10], drawn(figures)))
    assert len(figures.table) >= 20, "each kind of mishap is among them"


def test_a_wrong_cause_and_a_wrong_figure_are_seen():
    line = Stated(("c:1", "1", "w:1", "finish"), "expired_worker_silent", "", 3000.0, 2900.0)
    said = "The worker said nothing for 2.9 s under a lock of 2.0 s, as one whose event loop is blocked; it held q:1."
    true = Expected("expired_worker_silent", age_ms=3001.0, ttl_ms=2000, silence_ms=2898.0, held=("q:1",))
    assert list(complaints(line._replace(because=said), true)) == []
    for other in (said.replace("2.9 s", "3.9 s"), said.replace("2.0 s", "3.0 s"), said.replace("q:1", "q:2")):
        assert len(list(complaints(line._replace(because=other), true))) == 1
    assert len(list(complaints(line._replace(age_ms=4000.0, because=said), true))) == 1
    figures = Figures()
    figures._judge(line, Expected("retaken"), "")
    assert (figures.wrong, figures.good) == (1, False)
    assert near("4.5 s", 4470)


def test_what_emqproxy_stood_still_is_no_age():
    late, true = Stated(("c:1", "1", "w:1", "renew"), None, "", None, None), Expected("renewal_late", True, 700.0, 1000)
    for still_ms, wrong in ((0.0, 1), (50.0, 1), (98.0, 0)):
        figures = Figures()
        figures._judge(late._replace(still_ms=still_ms), true, "")
        assert figures.decidable - figures.right == wrong, still_ms


def test_figures_are_read_as_they_are_told():
    assert near("4.5 s", 4470)
    assert not near("480 ms", 490)


def test_the_first_end_of_a_holding_is_why_it_is_over():
    truth = Truth()
    truth.grant("1", "a:1", 0)
    truth.plight["1", "a:1"] = "renew_stopped"
    truth.end("1", "a:1", Ending(10, "expired"))
    assert truth.why("1", "a:1", "finish", -2, 20, 10) == ("renew_stopped", True)
    truth.swept["1"] = 15
    assert truth.why("1", "a:1", "finish", -2, 20, 10) == ("recovered_not_retaken", True)
    truth.grant("1", "b:1", 30)
    assert truth.why("1", "a:1", "finish", -6, 40, 10) == ("retaken", True)
    assert truth.why("1", "a:2", "finish", -6, 40, 10) == ("stale_suffix", True)
    assert truth.why("1", "c:1", "finish", -6, 40, 10) == ("never_owner", True)
    truth.remove("1", "b:1", "job_removed", 50)
    assert truth.why("1", "a:1", "finish", -1, 60, 10) == ("job_removed", True)
