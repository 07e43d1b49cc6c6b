"""Tasks with tracing, which child processes import, too."""

from __future__ import annotations

import asyncio
import os
from contextlib import nullcontext
from datetime import timedelta

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rowlease import Snooze, add_middleware, task
from rowlease.tracing import Tracing

#: The environment variable that names the file for the spans of child processes.
SPAN_FILE = "ROWLEASE_TEST_SPAN_FILE"

memory = InMemorySpanExporter()
provider = TracerProvider()
if SPAN_FILE in os.environ:
    out = open(os.environ[SPAN_FILE], "a")  # noqa: SIM115
    file = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\n")
    provider.add_span_processor(SimpleSpanProcessor(file))
else:
    provider.add_span_processor(SimpleSpanProcessor(memory))
tracer = trace.get_tracer("tests", tracer_provider=provider)


def act(what: str) -> None:
    with tracer.start_as_current_span("inside") if what != "snooze" else nullcontext():
        if what == "fail":
            raise KeyError("no luck")
    if what == "snooze":
        raise Snooze(timedelta(hours=1))


@task
def plain(what: str = "ok") -> None:
    act(what)


@task
async def native(what: str = "ok") -> None:
    await asyncio.sleep(0)
    act(what)


MIDDLEWARE = Tracing(provider)
add_middleware(MIDDLEWARE)
