"""One enqueue call: checks its requests and options, and makes handles from the answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import NoneType
from typing import Any, Generic, TypedDict, cast

from rowlease import middleware
from rowlease.client.handle import Handle
from rowlease.errors import InvalidRequest
from rowlease.middleware import NewRequestHeaders
from rowlease.model import DURATION, Enqueued, NewRequest, check_type, short_repr
from rowlease.store import Store
from rowlease.tasks import headers
from rowlease.tasks.requests import (
    CALL_OPTIONS,
    DEFAULT_QUEUE,
    REQUEST_OPTIONS,
    CallOptions,
    Options,
    TaskRequest,
    check_names,
    untyped_request,
)
from rowlease.tasks.task import R, Task

#: The maximum number of characters in a receipt, and in the id of a batch.
LONGEST_ID = 100


class Batches(TypedDict):
    """The options of a call that name batches."""

    batch_id: str | None
    after: str | None


class EnqueueCall(Generic[R]):
    """One call that enqueues all of its requests or none.

    Attributes:
        queue: the name of the queue.
        batch: the requests.
        options: the options of the call.

    Raises:
        InvalidRequest: the requests are for several queues, or an option is wrong.
    """

    def __init__(self, requests: list[TaskRequest[R]], options: CallOptions) -> None:
        check_type("wait", options.get("wait"), DURATION)
        for name in ("receipt", "batch_id", "after"):
            _check_id(name, options.get(name))
        queues = list(dict.fromkeys(each.queue for each in requests)) or [DEFAULT_QUEUE]
        if len(queues) > 1:
            raise InvalidRequest(
                f"the requests are for several queues ({', '.join(sorted(queues))}); make one call "
                "for each queue, and use one transaction (client.bind) if all of them must be "
                "enqueued or none"
            )
        self.queue = queues[0]
        self.batch: list[NewRequest] = [each.new for each in requests]
        self.options = options
        self._requests = requests

    @classmethod
    def of_task(
        cls, task: Task[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> EnqueueCall[R]:
        """The call for one request with this task and these arguments."""
        if not isinstance(task, Task):
            raise InvalidRequest(
                f"the first argument is {short_repr(task)}, which is not a task; {_advice(task)}"
            )
        request, options = task.for_call(args, kwargs)
        return cls([request], options)

    @classmethod
    def of_kind(cls, kind: str, payload: Any, options: Options) -> EnqueueCall[R]:
        """The call for one request with the task's name and a payload."""
        given: dict[str, Any] = dict(check_names(options, REQUEST_OPTIONS))
        call = {name: given.pop(name, None) for name in CALL_OPTIONS}
        return cls([untyped_request(kind, payload, **given)], cast("CallOptions", call))

    @classmethod
    def of_batch(cls, requests: Iterable[TaskRequest[R]], options: CallOptions) -> EnqueueCall[R]:
        """The call for these requests."""
        return cls(_batch(requests), check_names(options, CALL_OPTIONS))

    @contextmanager
    def within_middleware(self) -> Iterator[None]:
        """The context of all middleware, which may change the headers of the requests."""
        if not middleware.has_middleware():
            yield
            return
        outgoing = [
            NewRequestHeaders(self.queue, new.kind, headers.decode_headers(new.headers))
            for new in self.batch
        ]
        with middleware.around_enqueue(outgoing):
            self.batch = [
                replace(new, headers=headers.encode_headers(changed.headers))
                for new, changed in zip(self.batch, outgoing, strict=True)
            ]
            yield

    def receipt_in_transaction(self) -> str | None:
        """The receipt, for a call in the caller's transaction.

        Raises:
            InvalidRequest: the call has the option `wait`.
        """
        if self.options.get("wait") is not None:
            raise InvalidRequest(
                "a transaction must not wait for room: use `wait` only with the client itself"
            )
        return self.options.get("receipt")

    def batches(self) -> Batches:
        """The batch of the requests, and the batch that they wait for."""
        return {"batch_id": self.options.get("batch_id"), "after": self.options.get("after")}

    def handles(self, answers: list[Enqueued], store: Store) -> list[Handle[R]]:
        """The handles, in the order of the requests.

        Raises:
            InvalidRequest: the receipt was used for a different number of requests.
        """
        if len(answers) != len(self._requests):
            raise InvalidRequest(
                f"the receipt {self.options.get('receipt')!r} was used for {len(answers)} "
                f"requests, but this call has {len(self._requests)}; use another receipt"
            )
        return [
            Handle(
                answer.request_id or 0, answer.outcome, answer.requested_time, store, request.decode
            )
            for answer, request in zip(answers, self._requests, strict=True)
        ]


def _check_id(name: str, given: Any) -> None:
    check_type(name, given, ((str, NoneType), "it must be a string of 1 to 100 characters"))
    if given is not None and not 0 < len(given) <= LONGEST_ID:
        raise InvalidRequest(
            f"{name} is {short_repr(given)}; it must have 1 to {LONGEST_ID} characters"
        )


def _batch(requests: Iterable[TaskRequest[R]]) -> list[TaskRequest[R]]:
    advice = "give the results of task.request(...) or rowlease.untyped_request(...)"
    if isinstance(requests, str | bytes | Mapping) or not isinstance(requests, Iterable):
        raise InvalidRequest(f"requests is {short_repr(requests)}; it must be a list; {advice}")
    batch = list(requests)
    for place, one in enumerate(batch):
        if not isinstance(one, TaskRequest):
            raise InvalidRequest(f"requests[{place}] is {short_repr(one)}; {advice}")
    return batch


def _advice(task: object) -> str:
    if isinstance(task, str):
        return "to enqueue by a task's name, use enqueue_untyped"
    if callable(task):
        return "decorate it with @rowlease.task"
    return "give a function decorated with @rowlease.task"
