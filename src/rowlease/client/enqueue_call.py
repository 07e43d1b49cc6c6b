"""One enqueue call: checks its requests and options, sends it, and makes handles."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from types import NoneType
from typing import Any, Generic, TypedDict

from rowlease import middleware
from rowlease.client.handle import Handle
from rowlease.errors import (
    InvalidRequest,
)
from rowlease.middleware import NewRequestHeaders
from rowlease.model import DURATION, Enqueued, NewRequest, check_type, short_repr
from rowlease.store import Store
from rowlease.tasks import headers
from rowlease.tasks.chains import after_batch, request_of
from rowlease.tasks.requests import (
    CALL_OPTIONS,
    DEFAULT_QUEUE,
    CallOptions,
    Options,
    TaskRequest,
    check_names,
    untyped_request,
)
from rowlease.tasks.task import Link, R, Task

#: The maximum number of characters in a receipt, and in the id of a batch.
MAX_ID_CHARACTERS = 100


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
        batches: the batch of the requests, and the batch that they wait for.

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
        self.batches: Batches = {"batch_id": options.get("batch_id"), "after": options.get("after")}
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
        return cls([task.for_call(args, kwargs)], task.options)

    @classmethod
    def of_kind(cls, kind: str, payload: Any, options: Options) -> EnqueueCall[R]:
        """The call for one request with the task's name and a payload."""
        given: Any = {name: v for name, v in options.items() if name not in CALL_OPTIONS}
        return cls([untyped_request(kind, payload, **given)], options)

    @classmethod
    def of_batch(
        cls, requests: Iterable[TaskRequest[R] | Link[R]], options: CallOptions
    ) -> EnqueueCall[R]:
        """The call for these requests."""
        return cls(_batch(requests), check_names(options, CALL_OPTIONS))

    @contextmanager
    def within_middleware(self) -> Iterator[None]:
        """The context of all middleware, which may change the headers of the requests."""
        if not middleware.added:
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

    def send(
        self,
        store: Store,
        receipt: str | None,
        *,
        connection: Any = None,
        wait: timedelta | None = None,
        waiter_id: int | None = None,
    ) -> list[Enqueued]:
        """Enqueue the requests with one call of the store."""
        return store.enqueue_many(
            self.queue,
            self.batch,
            receipt_key=receipt,
            connection=connection,
            wait=wait,
            waiter_id=waiter_id,
            **self.batches,
        )

    async def send_async(
        self, store: Store, receipt: str | None, connection: Any
    ) -> list[Enqueued]:
        """The same as `send`, in the transaction of an asyncio connection."""
        return await store.enqueue_many_async(
            connection, self.queue, self.batch, receipt_key=receipt, **self.batches
        )

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


class BatchCall:
    """The calls that enqueue a batch: one for each queue, and one for the request that follows.

    Attributes:
        batch_id: the id of the batch.
        calls: the calls. All of them take effect, or none.
        queue, options: of the first call.

    Raises:
        InvalidRequest: a request is not a request, or an id is wrong.
    """

    def __init__(
        self,
        requests: Iterable[TaskRequest[Any] | Link[Any]],
        then: TaskRequest[Any] | Link[Any] | None,
        even_if_dead: bool,
        batch_id: str | None,
        receipt: str | None,
    ) -> None:
        self.batch_id = batch_id or uuid.uuid4().hex
        by_queue: dict[str, list[TaskRequest[Any]]] = {}
        for each in _batch(requests):
            by_queue.setdefault(each.queue, []).append(each)
        # All batches take the locks of full queues in one order.
        members = [requests for _, requests in sorted(by_queue.items())] or [[]]
        self.options: CallOptions = {"receipt": receipt, "batch_id": self.batch_id}
        self.calls = [EnqueueCall(each, self.options) for each in members]
        self.queue = self.calls[0].queue
        self._then: EnqueueCall[Any] | None = None
        if then is not None:
            request = after_batch(then, self.batch_id, even_if_dead=even_if_dead)
            self._then = EnqueueCall([request], {"after": self.batch_id})
            self.calls.append(self._then)

    @contextmanager
    def within_middleware(self) -> Iterator[None]:
        """The context of all middleware, for each call."""
        with ExitStack() as stack:
            for call in self.calls:
                stack.enter_context(call.within_middleware())
            yield

    def with_receipts(self, receipt: str | None) -> list[tuple[EnqueueCall[Any], str | None]]:
        """The calls, each with its own receipt."""
        return [
            (call, receipt and uuid.uuid5(uuid.NAMESPACE_OID, f"{receipt} {place}").hex)
            for place, call in enumerate(self.calls)
        ]

    def then(self, answers: list[Enqueued], store: Store) -> Handle[Any] | None:
        """The handle of the request that follows, whose answer is the last one."""
        return None if self._then is None else self._then.handles(answers[-1:], store)[0]

    def send(self, store: Store, receipt: str | None) -> list[Enqueued]:
        """Make the calls in one transaction."""

        def work(connection: Any) -> list[Enqueued]:
            return [
                answer
                for call, own in self.with_receipts(receipt)
                for answer in call.send(store, own, connection=connection)
            ]

        return store.in_transaction(work)


def _check_id(name: str, given: Any) -> None:
    check_type(name, given, ((str, NoneType), "it must be a string of 1 to 100 characters"))
    if given is not None and not 0 < len(given) <= MAX_ID_CHARACTERS:
        raise InvalidRequest(
            f"{name} is {short_repr(given)}; it must have 1 to {MAX_ID_CHARACTERS} characters"
        )


def _batch(requests: Iterable[TaskRequest[R] | Link[R]]) -> list[TaskRequest[R]]:
    advice = "give the results of task.request(...) or rowlease.untyped_request(...)"
    if isinstance(requests, str | bytes | Mapping) or not isinstance(requests, Iterable):
        raise InvalidRequest(f"requests is {short_repr(requests)}; it must be a list; {advice}")
    batch = list(requests)
    for place, one in enumerate(batch):
        if not isinstance(one, TaskRequest | Link):
            raise InvalidRequest(f"requests[{place}] is {short_repr(one)}; {advice}")
    return [request_of(one) for one in batch]


def _advice(task: object) -> str:
    if isinstance(task, str):
        return "to enqueue by a task's name, use enqueue_untyped"
    if isinstance(task, TaskRequest | Link):
        return "to enqueue a request or a chain, use enqueue_many([...]) or enqueue_batch([...])"
    if callable(task):
        return "decorate it with @rowlease.task"
    return "give a function decorated with @rowlease.task"
