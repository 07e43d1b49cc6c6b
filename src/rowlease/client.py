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

#: How long a call is repeated after transient errors. Most failovers are shorter.
RETRY_FOR = timedelta(seconds=30)
#: The largest share of this time that one try may take. A session that never answers thus leaves
#: time for other tries.
SHARE_OF_A_TRY = 1 / 3
#: No try begins if a smaller share of this time is left.
SHORTEST_SHARE = 1 / 30
#: The pause in seconds before the second try. It doubles before each further try, and up to half
#: of each pause is taken off at random.
FIRST_PAUSE = 0.1
#: The longest pause in seconds between two tries.
LAST_PAUSE = 2.0
#: The most characters that a receipt may have.
LONGEST_RECEIPT = 100
#: The longest time in seconds that a producer waits for a notification of room before it tries
#: again: its place in line lasts two seconds, and no notification is sent when an earlier place
#: expires.
PATIENCE = 1.0
#: The longest time in seconds between two tries if the database sends no notifications.
PATIENCE_WITHOUT_NOTIFICATIONS = 0.1


class Producer(ABC):
    """Puts requests into queues: a `Client`, or a producer bound to a transaction."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store that this producer uses. Call it for what a producer has no method for."""

    @abstractmethod
    def _send(self, queue: str, batch: list[NewRequest], call: CallOptions) -> list[Enqueued]:
        """Enqueue all requests or none. The answers are in the order of the requests."""

    def enqueue(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Enqueue one request to call the task with these arguments.

        `task.with_options(priority=9, delay=...)` sets options of the request.

        Args:
            task: a function with the decorator `task`.
            args, kwargs: the arguments for the task, stored by name as a JSON object. For arguments
                that you leave out, the task uses its defaults when it runs.

        Raises:
            InvalidRequest: the arguments do not fit the task's parameters, cannot be written as
                JSON, or are too large; or an option is wrong. Nothing was enqueued.
            ConfigError: an annotation of the task cannot be read. Nothing was enqueued.
            QueueFull: there was no room within `wait`. Nothing was enqueued.
            EnqueueUnknown: the request may have been enqueued. Repeat the call with the error's
                receipt.
            StoreError: the database refused or failed the call. Nothing was enqueued. Transient
                errors (StoreUnavailable, StoreConflict) are raised only after retries for
                `retry_for`. A bound producer tries only once; roll your transaction back if it
                fails.
        """
        if not isinstance(task, Task):
            raise InvalidRequest(
                f"the first argument is {shown(task)}, which is not a task; {_advice(task)}"
            )
        request, call = task.for_call(args, kwargs)
        (handle,) = self._enqueue([request], call)
        return handle

    def enqueue_untyped(
        self, kind: str, payload: Any = None, /, **options: Unpack[Options]
    ) -> Handle[Any]:
        """Enqueue one request for a task that this program cannot import.

        Args:
            kind, payload: the same as for `untyped_request`.
            options: the keys of `RequestOptions` and `CallOptions`.

        Raises:
            The same errors as `enqueue`.
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
        """Enqueue all of these requests or none.

        Args:
            requests: the requests, all for the same queue, for example
                `[resize.request(path, width=200) for path in paths]`.
            options: the keys of `CallOptions`.

        Returns:
            A handle for each request, in the same order.

        Raises:
            The same errors as `enqueue`. Also InvalidRequest, if the receipt was used for a
            different number of requests, or the requests are for different queues.
        """
        return self._enqueue(_batch(requests), known(options, CALL_OPTIONS))

    def _enqueue(self, requests: list[TaskRequest[R]], call: CallOptions) -> list[Handle[R]]:
        check_type("wait", call.get("wait"), DURATION)
        receipt = call.get("receipt")
        _check_receipt(receipt)
        queues = list(dict.fromkeys(each.queue for each in requests)) or [DEFAULT_QUEUE]
        if len(queues) > 1:
            raise InvalidRequest(
                f"the requests are for several queues ({', '.join(sorted(queues))}); make one call "
                "for each queue, and use one transaction (client.bind) if all of them must be "
                "enqueued or none"
            )
        answers = self._send(queues[0], [each.new for each in requests], call)
        if len(answers) != len(requests):
            raise InvalidRequest(
                f"the receipt {receipt!r} was used for {len(answers)} requests, but this call has "
                f"{len(requests)}; use another receipt"
            )
        return [
            Handle(answer.request_id or 0, answer.outcome, self.store, request.decode)
            for answer, request in zip(answers, requests, strict=True)
        ]


class BoundProducer(Producer):
    """Puts requests into queues as part of your transaction; made by `Client.bind`."""

    def __init__(self, store: Store, connection: Any) -> None:
        self._store = store
        self._connection = connection

    @property
    def store(self) -> Store:
        return self._store

    def _send(self, queue: str, batch: list[NewRequest], call: CallOptions) -> list[Enqueued]:
        if call.get("wait") is not None:
            raise InvalidRequest(
                "a transaction must not wait for room: use `wait` only with the client itself"
            )
        return self._store.enqueue_many(
            queue, batch, receipt_key=call.get("receipt"), connection=self._connection
        )


class Client(Producer):
    """Puts requests into queues.

    Several threads may use one client. After a transient error (a lost connection, or a database
    that cannot be reached or does not answer) an enqueue is repeated with the same receipt. So it
    enqueues once, even if an earlier try was committed.

    Args:
        dsn: the database, for example `postgresql://user:password@host:port/database`. None means
            the environment variable ROWLEASE_DSN; if that is not set, either, the embedded server,
            which runs while the client is open.
        retry_for: how long an enqueue is repeated after transient errors; one try may take a third
            of this time. With 0 there is a single try, of at most 30 s. A call takes at most this
            time (30 s with 0); with `wait`, at most twice this time plus `wait`.

    Raises:
        InvalidRequest: retry_for is not a timedelta, or it is below 0.
        ConfigError, StoreUnavailable, SchemaMismatch: raised when the client is opened (`with`).
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
        """The queues of the database: create, change, list, show, pause, resume, drain, delete."""
        return Queues(self.store)

    @overload
    def get(self, request_id: int) -> Handle[Any]: ...

    @overload
    def get(self, request_id: int, task: Task[..., R]) -> Handle[R]: ...

    def get(self, request_id: int, task: Task[..., Any] | None = None) -> Handle[Any]:
        """A handle of the request with this id. Only the handle's methods read the database.

        Args:
            task: the task of the request. Its return annotation decides what `result` returns;
                without a task, `result` returns plain JSON values.
        """
        decode = plain if task is None else task.parameters.result
        return Handle(request_id, None, self.store, decode)

    def bind(self, connection: Any) -> BoundProducer:
        """A producer with the same enqueue methods, which enqueues as part of your transaction.

        The requests exist if and only if the transaction commits.

        Args:
            connection: your psycopg connection, or SQLAlchemy Connection or Session.
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
                # Try again at once: there may have been room before this client listened.
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
        #: True if a try failed but may still have enqueued the requests.
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
        """Raise the error unless the call is tried again."""
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
        return "to enqueue by a task's name, use enqueue_untyped"
    if callable(task):
        return "decorate it with @rowlease.task"
    return "give a function decorated with @rowlease.task"


def _is_full(answers: list[Enqueued]) -> bool:
    return bool(answers) and answers[0].outcome is Outcome.FULL


class _Room:
    """Waits until a full queue may have room: until a notification, or for a short time at most."""

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
        """Return when there may be room, at the latest at the deadline (of `time.monotonic`)."""
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
            # The listening connection failed. Try again now; later tries do not listen.
            notifications.close()
            self._notifications = None
            return True
