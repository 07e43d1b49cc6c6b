"""OpenTelemetry: a span for each enqueue call and for each run of a task, in one trace.

The names and attributes follow OpenTelemetry's semantic conventions for messaging, version 1.44,
which are not stable yet. This module needs the package opentelemetry-api (`rowlease[otel]`). Spans
are recorded if your program sets up an SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from opentelemetry import context as otel
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_current_span,
    get_tracer,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rowlease.context import Context
from rowlease.errors import Snooze
from rowlease.middleware import Middleware, NewRequestHeaders
from rowlease.tasks.task import Task

SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
#: Writes and reads the headers `traceparent` and `tracestate`. Baggage is not stored: it may have
#: data that must not be in a database.
PROPAGATOR = TraceContextTextMapPropagator()


class Tracing(Middleware):
    """Makes spans: `send QUEUE` for an enqueue call, and `process QUEUE` for a run of a task.

    Add it in the module that defines the tasks, so that child processes have it, too:

        add_middleware(Tracing())

    Payloads are not recorded. An exception of a task is recorded, with message and traceback.

    Args:
        provider: the provider of the tracer; None means the global one.
        links_only: whether a run begins a trace of its own, with a link to the enqueue call.
            Otherwise the span of the enqueue call is also its parent.
    """

    def __init__(self, provider: TracerProvider | None = None, *, links_only: bool = False) -> None:
        self._provider = provider
        self._links_only = links_only

    @contextmanager
    def around_enqueue(self, requests: Sequence[NewRequestHeaders]) -> Iterator[None]:
        """A producer span around an enqueue call, whose context the requests carry."""
        queues = {request.queue for request in requests}
        kinds = {request.kind for request in requests}
        with self._send(queues, kinds, len(requests)) as carrier:
            for request in requests:
                if "traceparent" not in request.headers:
                    request.headers.update(carrier)
            yield

    @contextmanager
    def around_load(self, queue: str, kind: str) -> Iterator[dict[str, str]]:
        """A producer span around a Spark load. Yields the headers for the requests of the load."""
        with self._send({queue}, {kind}, 0) as carrier:
            yield carrier

    @contextmanager
    def around_run(self, task: Task[..., Any], context: Context) -> Iterator[None]:
        """A consumer span around a run, which is a child of the enqueue call's span."""
        created_in = PROPAGATOR.extract(context.headers, otel.Context())
        creation = get_current_span(created_in).get_span_context()
        attributes = {
            "messaging.system": "rowlease",
            "messaging.operation.type": "process",
            "messaging.operation.name": "run",
            "messaging.destination.name": context.queue_name,
            "messaging.message.id": str(context.request_id),
            "rowlease.kind": task.name,
            "rowlease.attempt": context.attempt,
        }
        tracer = self._tracer()
        with tracer.start_as_current_span(
            f"process {context.queue_name}",
            otel.Context() if self._links_only else created_in,
            SpanKind.CONSUMER,
            attributes,
            [Link(creation)] if creation.is_valid else [],
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except Snooze:
                span.set_attribute("rowlease.outcome", "snoozed")
                raise
            except BaseException as error:
                failed(span, error)
                raise

    @contextmanager
    def _send(self, queues: set[str], kinds: set[str], count: int) -> Iterator[dict[str, str]]:
        attributes: dict[str, str | int] = {
            "messaging.system": "rowlease",
            "messaging.operation.type": "send",
            "messaging.operation.name": "enqueue",
        }
        name = "send"
        if len(queues) == 1:
            (attributes["messaging.destination.name"],) = queues
            name = f"send {attributes['messaging.destination.name']}"
        if len(kinds) == 1:
            (attributes["rowlease.kind"],) = kinds
        if count > 1:
            attributes["messaging.batch.message_count"] = count
        with self._tracer().start_as_current_span(
            name,
            kind=SpanKind.PRODUCER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            carrier: dict[str, str] = {}
            PROPAGATOR.inject(carrier)
            try:
                yield carrier
            except BaseException as error:
                failed(span, error)
                raise

    def _tracer(self) -> Any:
        return get_tracer("rowlease", version("rowlease"), self._provider, SCHEMA)


def failed(span: Span, error: BaseException) -> None:
    """Record an error in a span."""
    name = type(error).__qualname__
    span.set_attribute("error.type", name)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, f"{name}: {error}"))
