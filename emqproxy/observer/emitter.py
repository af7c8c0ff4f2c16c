"""Which spans are made at all, and by which pens.

What is kept is decided here, before a span is made, because children are made before their attempt's span: the
configured sampler looks at the trace id alone, and violations and errors are always kept. While records come faster
than they can be told, healthy spans are shed: the journal's lines come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, Decision, Sampler
from opentelemetry.trace import SpanKind

from emqproxy.observer.draft import Draft, Pen

_DECIDED_MAX: Final = 16_384


class Emitter:
    """The door to the pens. Ask `wants` before a draft is written, then give it to `make`."""

    def __init__(self, pens: Sequence[Pen], sampler: Sampler) -> None:
        self._pens = pens
        self._sampler = sampler
        self._ids = RandomIdGenerator()
        self._all = sampler in (ALWAYS_ON, DEFAULT_ON)
        self._decided = lru_cache(_DECIDED_MAX)(self._ask)
        self.shedding = False
        """Records come faster than they can be told: only what must be kept is made."""
        self.made = 0
        self.shed = 0
        """Spans that would have been made."""

    def random_trace(self) -> int:
        """For what belongs to no job."""
        return self._ids.generate_trace_id()

    def random_span(self) -> int:
        """For a span whose id nobody computes."""
        return self._ids.generate_span_id()

    def samples(self, trace_id: int) -> bool:
        """The same answer for one trace id, whoever asks and whenever."""
        return self._all or self._decided(trace_id)

    def wants(self, trace_id: int, *, keep: bool) -> bool:
        """Whether a span of this trace is to be made. `keep`: whatever the sampler says."""
        if keep:
            return True
        if not self.samples(trace_id):
            return False
        if self.shedding:
            self.shed += 1
            return False
        return True

    def make(self, draft: Draft) -> None:
        """Makes a span that is wanted."""
        for pen in self._pens:
            pen.draw(draft)
        self.made += 1

    def _ask(self, trace_id: int) -> bool:
        decided = self._sampler.should_sample(Context(), trace_id, "process", SpanKind.CONSUMER)
        return decided.decision is Decision.RECORD_AND_SAMPLE
