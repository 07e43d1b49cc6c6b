"""The client: puts requests into queues."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from types import NoneType, TracebackType
from typing import Any, Self

from rowlease.database import connect
from rowlease.errors import EnqueueUnknown, InvalidRequest, RowleaseError, StoreError
from rowlease.model import (
    DURATION,
    FIELDS,
    MAX_PAYLOAD_BYTES,
    MAX_PRIORITY,
    Enqueued,
    NewRequest,
    Outcome,
    check_type,
    shown,
)
from rowlease.queues import Queues
from rowlease.store import Notifications, Producing, Store
from rowlease.tasks import DEFAULT_QUEUE, Task

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


class Client:
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
        """The store below, for everything that a client has no method for."""
        if self._store is None:
            raise InvalidRequest("the client is not open: use it in a `with` block")
        return self._store

    @property
    def queues(self) -> Queues:
        """The queues of the database: create, set, list, show, pause, resume, drain, delete."""
        return Queues(self.store)

    def enqueue(
        self,
        task: Task | str,
        payload: Any = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
        due_time: datetime | None = None,
        dedup_key: str | None = None,
        group_key: str | None = None,
        max_attempts: int | None = None,
        retry_base: timedelta | None = None,
        connection: Any = None,
        wait: timedelta | None = None,
        receipt: str | None = None,
    ) -> Enqueued:
        """Put one request into a queue.

        Args:
            task: the task, or its name if its code cannot be imported here.
            payload: anything `json.dumps` takes; a mapping becomes the task's keyword arguments. It
                must fit the function's parameters. For a task given by name, only the worker
                checks that; a request that does not fit becomes a dead letter.
            queue: None takes the task's, else "default".
            priority: None takes the task's, else 0; see `NewRequest` for this and the rest.
            connection: a psycopg connection, or a SQLAlchemy Connection or Session. The request is
                part of its transaction, and exists if and only if that commits.
            wait: how long to wait for room if the queue is full. The highest priority is admitted
                first, FIFO among equals. No transaction is open meanwhile, so it cannot be
                combined with `connection`.
            receipt: of an EnqueueUnknown, or any text of 1 to 100 characters that names this call:
                calls with the same receipt within a day enqueue once, and return the same ids. None
                makes up a new one.

        Returns:
            The request's id and `ok`; `duplicate` and the id of the live request that has the dedup
            key; or `repeat` if a call with this receipt, or an earlier try of this one, has
            enqueued it.

        Raises:
            InvalidRequest: nothing was enqueued.
            QueueFull: nothing was enqueued: there was no room within `wait`.
            EnqueueUnknown: it may have been enqueued; repeat the call with the error's receipt.
            StoreError: nothing was enqueued; a transient error (StoreUnavailable, StoreConflict)
                was retried for `retry_for`. With `connection` there is a single try; its effects
                are rolled back with the transaction.
        """
        request = new_request(
            task,
            payload,
            priority=priority,
            delay=delay,
            due_time=due_time,
            dedup_key=dedup_key,
            group_key=group_key,
            max_attempts=max_attempts,
            retry_base=retry_base,
        )
        if queue is None:
            queue = (task.queue if isinstance(task, Task) else None) or DEFAULT_QUEUE
        (answer,) = self.enqueue_many(
            [request], queue=queue, connection=connection, wait=wait, receipt=receipt
        )
        return answer

    def enqueue_many(
        self,
        requests: Iterable[NewRequest],
        *,
        queue: str = DEFAULT_QUEUE,
        connection: Any = None,
        wait: timedelta | None = None,
        receipt: str | None = None,
    ) -> list[Enqueued]:
        """Put many requests into a queue, all or none; answers in the order given.

        Raises:
            as `enqueue`; also InvalidRequest if the receipt belongs to another number of requests.
        """
        batch = _batch(requests)
        check_type("queue", queue, ((str,), "it must be text: the name of a queue"))
        check_type("wait", wait, DURATION)
        _check_receipt(receipt)
        if connection is not None:
            if wait is not None:
                raise InvalidRequest(
                    "a transaction must not wait for room: give `wait` or `connection`, not both"
                )
            answers = self.store.enqueue_many(
                queue, batch, receipt_key=receipt, connection=connection
            )
        else:
            call = _Call(self.store, queue, batch, receipt or uuid.uuid4().hex, self._retry_for)
            answers = call() if wait is None else self._wait_for_room(call, queue, wait)
        if len(answers) != len(batch):
            raise InvalidRequest(
                f"the receipt {receipt!r} was used for {len(answers)} requests, and this call has "
                f"{len(batch)}; give another receipt"
            )
        return answers

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


def _batch(requests: Iterable[NewRequest]) -> list[NewRequest]:
    advice = "give NewRequest(kind=..., payload=...), or the result of rowlease.client.new_request"
    if isinstance(requests, str | bytes | Mapping) or not isinstance(requests, Iterable):
        raise InvalidRequest(f"requests is {shown(requests)}; it must be a list; {advice}")
    batch = list(requests)
    for place, one in enumerate(batch):
        if not isinstance(one, NewRequest):
            raise InvalidRequest(f"requests[{place}] is {shown(one)}; {advice}")
    return batch


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


def new_request(
    task: Task | str,
    payload: Any = None,
    *,
    priority: int | None = None,
    delay: timedelta | None = None,
    due_time: datetime | None = None,
    dedup_key: str | None = None,
    group_key: str | None = None,
    max_attempts: int | None = None,
    retry_base: timedelta | None = None,
) -> NewRequest:
    """A request for a task, its payload encoded; what is None here may be a setting of the task.

    Args:
        as `Client.enqueue`.

    Raises:
        InvalidRequest: the payload is not JSON or too large, or does not fit the task's parameters;
            or an argument is out of range.
    """
    if not isinstance(task, Task | str):
        raise InvalidRequest(
            f"task is {shown(task)}; it must be a task or the name of one"
            + ("; decorate it with @rowlease.task" if callable(task) else "")
        )
    text = encode(payload)
    if isinstance(task, Task):
        if misfit := task.misfit(json.loads(text)):
            raise InvalidRequest(misfit)
        priority = task.priority if priority is None else priority
        max_attempts = task.max_attempts if max_attempts is None else max_attempts
        retry_base = task.retry_base if retry_base is None else retry_base
    priority = 0 if priority is None else priority
    check_type("priority", priority, FIELDS["priority"])
    if priority < 0:
        raise InvalidRequest(
            f"priority is {priority}; it must be 0 or more, and bigger is more urgent"
        )
    made = NewRequest(
        kind=task.name if isinstance(task, Task) else task,
        payload=text,
        # Larger numbers would not fit the column.
        priority=min(priority, MAX_PRIORITY),
        delay=delay,
        due_time=due_time,
        dedup_key=dedup_key,
        group_key=group_key,
        max_attempts=max_attempts,
        retry_base=retry_base,
    )
    if made.due_time is not None and made.due_time.tzinfo is None:
        raise InvalidRequest("due_time has no time zone; write datetime.now(timezone.utc) or so")
    return made


def encode(payload: Any) -> str:
    """The payload as compact JSON text; None becomes an empty object.

    Raises:
        InvalidRequest: it is not JSON (NaN is not), or larger than `MAX_PAYLOAD_BYTES`.
    """
    if payload is None:
        return "{}"
    try:
        if isinstance(payload, Mapping):
            payload = dict(payload)
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"the payload is not JSON: {error}; give dicts, lists, text, numbers, booleans or None"
        ) from error
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidRequest(
            f"payload has {size} bytes; at most {MAX_PAYLOAD_BYTES} fit, store the rest elsewhere "
            "and enqueue a reference"
        )
    return text
