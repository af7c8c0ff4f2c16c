"""What is made: by the sampler's word, whatever must be kept, and less while records come too fast."""

from __future__ import annotations

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, TraceIdRatioBased
from opentelemetry.trace import SpanKind

from emqproxy.observer.draft import Draft
from emqproxy.observer.emitter import Emitter
from tests.observer.drawing import memory


def test_what_must_be_kept_is_wanted_whatever_the_sampler_says() -> None:
    emitter = Emitter([], ALWAYS_OFF)
    assert emitter.wants(5, keep=True)
    assert not emitter.wants(5, keep=False)
    assert emitter.shed == 0, "what is not sampled is not shed"


def test_one_trace_gets_one_answer() -> None:
    emitter = Emitter([], TraceIdRatioBased(0.5))
    below, above = 1, (1 << 64) - 1
    assert [emitter.samples(trace) for trace in (below, above, below, above)] == [True, False, True, False]


def test_while_shedding_only_what_must_be_kept_is_wanted_and_the_rest_is_counted() -> None:
    emitter = Emitter([], ALWAYS_ON)
    assert emitter.wants(5, keep=False)
    emitter.shedding = True
    assert [emitter.wants(trace, keep=trace == 2) for trace in (1, 2, 3)] == [False, True, False]
    assert emitter.shed == 2
    emitter.shedding = False
    assert emitter.wants(5, keep=False)


def test_every_pen_draws() -> None:
    with memory() as (emitter, exporter), memory() as (other, second):
        both = Emitter([*emitter._pens, *other._pens], ALWAYS_ON)
        both.make(Draft("x", SpanKind.CLIENT, 5, 7, 10, 20, ()))
        assert [len(pen.get_finished_spans()) for pen in (exporter, second)] == [1, 1]
    assert both.made == 1


def test_random_ids_are_valid() -> None:
    emitter = Emitter([], ALWAYS_ON)
    assert 0 < emitter.random_span() < 1 << 64
    assert 0 < emitter.random_trace() < 1 << 128
