"""The client: puts requests into queues."""

from __future__ import annotations

import random
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from types import NoneType, TracebackType
from typing import Any, Self, Unpack, cast, overload

from rowlease.database import connect
from rowlease.errors import EnqueueUnknown, InvalidRequest, RowleaseError, StoreError
from rowlease.handle import Handle
from rowlease.model import DURATION, Enqueued, NewRequest, Outcome, check_type, shown
from rowlease.queues import Queues
from rowlease.requests import (
    CALL_OPTIONS,
    DEFAULT_QUEUE,
    OPTIONS,
    CallOptions,
    Options,
    TaskRequest,
    known,
    plain,
    untyped_request,
)
from rowlease.store import Notifications, Producing, Store
from rowlease.tasks import P, R, Task

#: How long a call with a transient error is repeated: longer than most failovers take.
RETRY_FOR = timedelta(seconds=30)
#: The share of that time that one try may take, so that a session that never answers leaves time
#: for others; and the least share with which a try is begun.
SHARE_OF_A_TRY, SHORTEST_SHARE = 1 / 3, 1 / 30
#: Seconds before the second try, and at most: doubled each time, half of it random.
FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
#: Characters of a receipt.
LONGEST_RECEIPT = 100
#: Seconds after which a producer that waits for room tries again, notified or not. Its place in
#: line lasts two seconds, and a place ahead of it may expire without a notification.
PATIENCE = 1.0
#: The same where no notifications come.
PATIENCE_WITHOUT_NOTIFICATIONS = 0.1


class Producer(ABC):
    """Puts requests into queues: a `Client`, or one that is bound to a transaction."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store below, for everything that a producer has no method for."""

    @abstractmethod
    def _send(self, queue: str, batch: list[NewRequest], call: CallOptions) -> list[Enqueued]:
        """Enqueue all or none; the answers are in the order given."""

    def enqueue(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Put one request into a queue: to call the task with these arguments.

        Options are the task's, or given by `task.with_options(priority=9, delay=...)`.

        Args:
            task: a function with the decorator `task`.
            args, kwargs: what the task is called with. They are written as a JSON object that has
                them by name; arguments that are left out take the function's defaults when it runs.

        Raises:
            InvalidRequest: nothing was enqueued: the arguments do not fit the task's parameters,
                are not JSON or too large; or an option is wrong.
            ConfigError: nothing was enqueued: an annotation of the task cannot be read.
            QueueFull: nothing was enqueued: there was no room within `wait`.
            EnqueueUnknown: it may have been enqueued; repeat the call with the error's receipt.
            StoreError: nothing was enqueued; a transient error (StoreUnavailable, StoreConflict)
                was retried for `retry_for`. A bound producer tries once; the effects are rolled
                back with the transaction.
        """
        if not isinstance(task, Task):
            raise InvalidRequest(f"task is {shown(task)}; it must be a task; {_advice(task)}")
        request, call = task.for_call(args, kwargs)
        (handle,) = self._enqueue([request], call)
        return handle

    def enqueue_untyped(
        self, kind: str, payload: Any = None, /, **options: Unpack[Options]
    ) -> Handle[Any]:
        """Put one request into a queue, for a task whose code is not here.

        Args:
            as `untyped_request`; and the options of a call.

        Raises:
            as `enqueue`.
        """
        known(options, OPTIONS)
        given: dict[str, Any] = dict(options)
        call = {name: given.pop(name, None) for name in CALL_OPTIONS}
        request = untyped_request(kind, payload, **given)
        (handle,) = self._enqueue([request], cast("CallOptions", call))
        return handle

    def enqueue_many(
        self, requests: Iterable[TaskRequest[R]], /, **options: Unpack[CallOptions]
    ) -> list[Handle[R]]:
        """Put many requests into a queue, all or none.

        Args:
            requests: of one queue: `[resize.request(path, width=200) for path in paths]`.
            options: as in `CallOptions`.

        Returns:
            Handles in the order given.

        Raises:
            as `enqueue`; also InvalidRequest if the receipt belongs to another number of requests,
            or the requests are of several queues.
        """
        return self._enqueue(_batch(requests), known(options, CALL_OPTIONS))

    def _enqueue(self, requests: list[TaskRequest[R]], call: CallOptions) -> list[Handle[R]]:
        check_type("wait", call.get("wait"), DURATION)
        receipt = call.get("receipt")
        _check_receipt(receipt)
        queues = list(dict.fromkeys(each.queue for each in requests)) or [DEFAULT_QUEUE]
        if len(queues) > 1:
            raise InvalidRequest(
                f"the requests are of several queues ({', '.join(sorted(queues))}); give those of "
                "each queue to a call of its own, in one transaction if it must be all or none"
            )
        answers = self._send(queues[0], [each.new for each in requests], call)
        if len(answers) != len(requests):
            raise InvalidRequest(
                f"the receipt {receipt!r} was used for {len(answers)} requests, and this call has "
                f"{len(requests)}; give another receipt"
            )
        return [
            Handle(answer.request_id or 0, answer.outcome, self.store, request.decode)
            for answer, request in zip(answers, requests, strict=True)
        ]


class BoundProducer(Producer):
    """Puts requests into queues in a transaction of yours; `Client.bind` makes it."""

    def __init__(self, store: Store, connection: Any) -> None:
        self._store = store
        self._connection = connection

    @property
    def store(self) -> Store:
        return self._store

    def _send(self, queue: str, batch: list[NewRequest], call: CallOptions) -> list[Enqueued]:
        if call.get("wait") is not None:
            raise InvalidRequest(
                "a transaction must not wait for room: give `wait` to a call of the client itself"
            )
        return self._store.enqueue_many(
            queue, batch, receipt_key=call.get("receipt"), connection=self._connection
        )


class Client(Producer):
    """Puts requests into queues.

    Safe to use from several threads. An enqueue with a transient error (a lost connection, a
    database that is away or does not answer) is repeated with the same receipt, so that it
    enqueues once even if an earlier try did commit.

    Args:
        dsn: `postgresql://user:password@host:port/database`; None takes ROWLEASE_DSN, else the
            embedded server, which runs while the client is open.
        retry_for: how long it is repeated; one try may take a third of that. 0: a single try, of at
            most 30 s. A call lasts no longer than that, plus its `wait`.

    Raises:
        InvalidRequest: retry_for is not a timedelta, or below 0.
        ConfigError, StoreUnavailable, SchemaMismatch: when entered.
    """

    def __init__(self, dsn: str | None = None, *, retry_for: timedelta = RETRY_FOR) -> None:
        check_type("retry_for", retry_for, ((timedelta,), "it must be a timedelta of 0 or more"))
        if retry_for < timedelta(0):
            raise InvalidRequest(f"retry_for is {retry_for}; it must be 0 or more")
        self._dsn = dsn
        self._retry_for = retry_for
        self._exit = ExitStack()
        self._store: Store | None = None

    def __enter__(self) -> Self:
        self._store = self._exit.enter_context(connect(self._dsn))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._store = None
        self._exit.close()

    @property
    def store(self) -> Store:
        if self._store is None:
            raise InvalidRequest("the client is not open: use it in a `with` block")
        return self._store

    @property
    def queues(self) -> Queues:
        """The queues of the database: create, set, list, show, pause, resume, drain, delete."""
        return Queues(self.store)

    @overload
    def get(self, request_id: int) -> Handle[Any]: ...

    @overload
    def get(self, request_id: int, task: Task[..., R]) -> Handle[R]: ...

    def get(self, request_id: int, task: Task[..., Any] | None = None) -> Handle[Any]:
        """A request by its id. Nothing is read before the handle is asked.

        Args:
            task: whose annotation says what `result` returns; None: JSON values.
        """
        decode = plain if task is None else task.parameters.result
        return Handle(request_id, None, self.store, decode)

    def bind(self, connection: Any) -> BoundProducer:
        """A producer with the same methods, whose requests are part of your transaction.

        They exist if and only if it commits.

        Args:
            connection: a psycopg connection, or a SQLAlchemy Connection or Session.
        """
        return BoundProducer(self.store, connection)

    def _send(self, queue: str, batch: list[NewRequest], call: CallOptions) -> list[Enqueued]:
        wait = call.get("wait")
        receipt = call.get("receipt") or uuid.uuid4().hex
        attempts = _Call(self.store, queue, batch, receipt, self._retry_for)
        return attempts() if wait is None else self._wait_for_room(attempts, queue, wait)

    def _wait_for_room(self, call: _Call, queue: str, wait: timedelta) -> list[Enqueued]:
        deadline = time.monotonic() + wait.total_seconds()
        answers = call(wait=wait)
        if _is_full(answers):
            with _Room(self.store, queue, deadline) as room:
                # The first try is at once: there may have been room before it listened.
                while _is_full(answers):
                    left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
                    answers = call(wait=left, waiter_id=answers[0].request_id)
                    if _is_full(answers):
                        room.wait_until(deadline)
        return answers


class _Call:
    """An enqueue in a transaction of its own, repeated after a transient error."""

    def __init__(
        self,
        store: Producing,
        queue: str,
        batch: list[NewRequest],
        receipt: str,
        retry_for: timedelta,
    ) -> None:
        self._store = store
        self._queue = queue
        self._batch = batch
        self._receipt = receipt
        self._retry_for = retry_for.total_seconds()
        #: An earlier try may have enqueued them, although it failed.
        self._maybe_done = False

    def __call__(
        self, wait: timedelta | None = None, waiter_id: int | None = None
    ) -> list[Enqueued]:
        ends = time.monotonic() + self._retry_for
        pause = FIRST_PAUSE
        while True:
            try:
                return self._bounded(ends - time.monotonic()).enqueue_many(
                    self._queue,
                    self._batch,
                    receipt_key=self._receipt,
                    wait=wait,
                    waiter_id=waiter_id,
                )
            except RowleaseError as error:
                nap = pause * random.uniform(0.5, 1)
                left = ends - time.monotonic() - nap
                self._give_up_after(error, is_over=left < self._retry_for * SHORTEST_SHARE)
            time.sleep(nap)
            pause = min(LAST_PAUSE, 2 * pause)

    def _bounded(self, left: float) -> Producing:
        if not self._retry_for:
            return self._store
        return self._store.within(timedelta(seconds=min(left, self._retry_for * SHARE_OF_A_TRY)))

    def _give_up_after(self, error: RowleaseError, *, is_over: bool) -> None:
        """Raise unless there is a next try."""
        is_transient = isinstance(error, StoreError) and error.transient
        self._maybe_done |= isinstance(error, StoreError) and error.maybe_done
        if is_transient and not is_over:
            return
        if self._maybe_done:
            # The last try may have been refused, but an earlier one may still take effect.
            raise EnqueueUnknown(
                f"it is not known whether the requests were enqueued ({error}); enqueue them again "
                f"with receipt={self._receipt!r}: that enqueues them once",
                receipt=self._receipt,
            ) from error
        raise error


def _check_receipt(receipt: str | None) -> None:
    check_type("receipt", receipt, ((str, NoneType), "it must be text of 1 to 100 characters"))
    if receipt is not None and not 0 < len(receipt) <= LONGEST_RECEIPT:
        raise InvalidRequest(
            f"receipt is {shown(receipt)}; it must have 1 to {LONGEST_RECEIPT} characters"
        )


def _batch(requests: Iterable[TaskRequest[R]]) -> list[TaskRequest[R]]:
    advice = "give the results of task.request(...) or rowlease.untyped_request(...)"
    if isinstance(requests, str | bytes | Mapping) or not isinstance(requests, Iterable):
        raise InvalidRequest(f"requests is {shown(requests)}; it must be a list; {advice}")
    batch = list(requests)
    for place, one in enumerate(batch):
        if not isinstance(one, TaskRequest):
            raise InvalidRequest(f"requests[{place}] is {shown(one)}; {advice}")
    return batch


def _advice(task: object) -> str:
    if isinstance(task, str):
        return "enqueue_untyped takes the name of one"
    return "decorate it with @rowlease.task" if callable(task) else "@rowlease.task makes one"


def _is_full(answers: list[Enqueued]) -> bool:
    return bool(answers) and answers[0].outcome is Outcome.FULL


class _Room:
    """Waits until a full queue may have room: for a notification, or else for a moment."""

    def __init__(self, store: Producing, queue: str, deadline: float) -> None:
        self._store = store
        self._queue = queue
        self._deadline = deadline
        self._notifications: Notifications | None = None

    def __enter__(self) -> Self:
        if self._store.can_notify:
            left = timedelta(seconds=max(0.1, self._deadline - time.monotonic()))
            with suppress(StoreError):
                self._notifications = self._store.within(left).listen([self._queue], room=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._notifications is not None:
            self._notifications.close()

    def wait_until(self, deadline: float) -> None:
        """Return when there may be room, but not after the deadline (of `time.monotonic`)."""
        patience = PATIENCE if self._notifications else PATIENCE_WITHOUT_NOTIFICATIONS
        deadline = min(deadline, time.monotonic() + patience * random.uniform(0.5, 1))
        while (left := deadline - time.monotonic()) > 0:
            if self._notifications is None:
                time.sleep(left)
            elif self._is_notified(self._notifications, left):
                return

    def _is_notified(self, notifications: Notifications, seconds: float) -> bool:
        try:
            return notifications.wait(timedelta(seconds=seconds))
        except Exception:
            # Without notifications it asks again after a moment.
            notifications.close()
            self._notifications = None
            return True
