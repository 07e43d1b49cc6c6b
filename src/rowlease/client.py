"""The producer's side."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from rowlease.errors import InvalidRequest, StoreError
from rowlease.model import MAX_PAYLOAD_BYTES, MAX_PRIORITY, Enqueued, NewRequest, Outcome
from rowlease.store import Doorbell, Store, connect
from rowlease.tasks import Task

#: How often a call whose fate is unknown is made again. The receipt makes that safe.
TRIES = 5
#: Seconds before the second try; doubles, half of it random.
FIRST_PAUSE = 0.1
#: Seconds after which a producer that waits for a full queue asks again, whether the bell rang or
#: not. Its place lasts two seconds, and a place ahead of it may have become free without a bell.
PATIENCE = 1.0
#: The same where there is no bell.
PATIENCE_WITHOUT_BELL = 0.1


class Client:
    """Puts requests into queues.

    Safe to use from several threads. An enqueue that loses its connection is made again with the
    same receipt, so that it happens once even if the first try did commit.

    Args:
        dsn: `postgresql://user:password@host:port/database`; None takes ROWLEASE_DSN, else the
            embedded server, which runs while the client is open.

    Raises:
        ConfigError, StoreUnavailable, SchemaMismatch: when entered.
    """

    def __init__(self, dsn: str | None = None) -> None:
        self._dsn = dsn
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
        """The store below, for everything that a client has no word for."""
        if self._store is None:
            raise InvalidRequest("the client is not open: use it in a `with` block")
        return self._store

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
    ) -> Enqueued:
        """Put one request into a queue.

        Args:
            task: the task, or its name where its code is not at hand.
            payload: anything `json.dumps` takes; a mapping becomes the task's keyword arguments.
            queue: None takes the task's, else "default".
            priority: None takes the task's, else 0; see `NewRequest` for this and the rest.
            connection: a psycopg connection, or a SQLAlchemy Connection or Session: the request is
                part of its transaction, and exists if and only if that commits.
            wait: how long to wait for room if the queue is full. The highest priority goes first,
                and who came first among equals. No transaction is open meanwhile, so it cannot be
                had together with `connection`.

        Returns:
            The request's id and `ok`; `duplicate` and the live request's id where the dedup key
            is taken.

        Raises:
            InvalidRequest, StoreError: nothing was enqueued.
            QueueFull: nothing was enqueued, because there was no room, or none in time.
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
            queue = (task.queue if isinstance(task, Task) else None) or "default"
        (answer,) = self.enqueue_many([request], queue=queue, connection=connection, wait=wait)
        return answer

    def enqueue_many(
        self,
        requests: Iterable[NewRequest],
        *,
        queue: str = "default",
        connection: Any = None,
        wait: timedelta | None = None,
    ) -> list[Enqueued]:
        """Put many requests into a queue, all or none; answers in the order given.

        Raises:
            as `enqueue`.
        """
        batch = list(requests)
        if connection is not None:
            if wait is not None:
                raise InvalidRequest(
                    "a transaction must not wait for room: give `wait` or `connection`, not both"
                )
            return self.store.enqueue_many(queue, batch, connection=connection)
        receipt = uuid.uuid4().hex
        if wait is None:
            return self._call(queue, batch, receipt)
        deadline = time.monotonic() + wait.total_seconds()
        answers = self._call(queue, batch, receipt, wait=wait)
        if _is_full(answers):
            with _Room(self.store, queue) as room:
                # At once, because there may have been room before the bell was there.
                while _is_full(answers):
                    left = timedelta(seconds=max(0.0, deadline - time.monotonic()))
                    answers = self._call(
                        queue, batch, receipt, wait=left, waiter_id=answers[0].request_id
                    )
                    if _is_full(answers):
                        room.wait_until(deadline)
        return answers

    def _call(
        self, queue: str, batch: list[NewRequest], receipt: str, **waiting: Any
    ) -> list[Enqueued]:
        """Enqueue in a transaction of its own, again where its fate is unknown."""
        pause = FIRST_PAUSE
        for tries_left in reversed(range(TRIES)):
            try:
                return self.store.enqueue_many(queue, batch, receipt_key=receipt, **waiting)
            except StoreError as error:
                if not error.transient or not tries_left:
                    raise
                time.sleep(pause * random.uniform(0.5, 1))
                pause *= 2
        raise AssertionError("unreachable")


def _is_full(answers: list[Enqueued]) -> bool:
    return bool(answers) and answers[0].outcome is Outcome.FULL


class _Room:
    """Waits until a full queue may have room: for its bell, or where there is none, a moment."""

    def __init__(self, store: Store, queue: str) -> None:
        self._store = store
        self._queue = queue
        self._bell: Doorbell | None = None

    def __enter__(self) -> Self:
        if self._store.can_notify:
            with suppress(StoreError):
                self._bell = self._store.doorbell([self._queue], room=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bell is not None:
            self._bell.close()

    def wait_until(self, deadline: float) -> None:
        """Return when there may be room, but not after the deadline (of `time.monotonic`)."""
        patience = PATIENCE if self._bell is not None else PATIENCE_WITHOUT_BELL
        deadline = min(deadline, time.monotonic() + patience * random.uniform(0.5, 1))
        while (left := deadline - time.monotonic()) > 0:
            if self._bell is None:
                time.sleep(left)
            elif self._rang(self._bell, left):
                return

    def _rang(self, bell: Doorbell, seconds: float) -> bool:
        try:
            return bell.wait(timedelta(seconds=seconds))
        except Exception:
            # Whatever went wrong with it: one can do without.
            bell.close()
            self._bell = None
            return True


def new_request(task: Task | str, payload: Any = None, **options: Any) -> NewRequest:
    """A request for a task, its payload encoded; options are the fields of `NewRequest`.

    Raises:
        InvalidRequest: the payload is not JSON or too large, or an option is out of range.
    """
    priority = options.pop("priority", None)
    if isinstance(task, Task):
        priority = task.priority if priority is None else priority
        if options.get("max_attempts") is None:
            options["max_attempts"] = task.max_attempts
        if options.get("retry_base") is None:
            options["retry_base"] = task.retry_base
    if priority is not None and (not isinstance(priority, int) or isinstance(priority, bool)):
        raise InvalidRequest(f"priority is {priority!r}; it must be an integer of 0 or more")
    if priority is not None and priority < 0:
        raise InvalidRequest(
            f"priority is {priority}; it must be 0 or more, and bigger is more urgent"
        )
    if (due_time := options.get("due_time")) is not None and due_time.tzinfo is None:
        raise InvalidRequest("due_time has no time zone; write datetime.now(timezone.utc) or so")
    return NewRequest(
        kind=task.name if isinstance(task, Task) else task,
        payload=encode(payload),
        # No queue's maximum is larger, and larger numbers would not fit the column.
        priority=min(priority or 0, MAX_PRIORITY),
        **options,
    )


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
        raise InvalidRequest(f"the payload is not JSON: {error}") from error
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidRequest(
            f"payload has {size} bytes; at most {MAX_PAYLOAD_BYTES} fit, store the rest elsewhere "
            "and enqueue where it is"
        )
    return text
