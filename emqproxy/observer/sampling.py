"""Which traces are kept, as `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` say."""

from __future__ import annotations

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Sampler


def sampler_from_environment() -> Sampler:
    """The SDK's own reading of the variables; it has no public function for it, a provider's default is the way."""
    return TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False).sampler
