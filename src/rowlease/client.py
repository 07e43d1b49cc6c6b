"""The producer's side."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from rowlease.errors import InvalidRequest, StoreError
from rowlease.model import MAX_PAYLOAD_BYTES, MAX_PRIORITY, Enqueued, NewRequest
from rowlease.store import Store, connect
from rowlease.tasks import Task

#: How often a call whose fate is unknown is made again. The receipt makes that safe.
TRIES = 5
#: Seconds before the second try; doubles, half of it random.
FIRST_PAUSE = 0.1


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
    ) -> Enqueued:
        """Put one request into a queue.

        Args:
            task: the task, or its name where its code is not at hand.
            payload: anything `json.dumps` takes; a mapping becomes the task's keyword arguments.
            queue: None takes the task's, else "default".
            priority: None takes the task's, else 0; see `NewRequest` for this and the rest.
            connection: a psycopg connection, or a SQLAlchemy Connection or Session: the request is
                part of its transaction, and exists if and only if that commits.

        Returns:
            The request's id and `ok`; `duplicate` and the live request's id where the dedup key
            is taken.

        Raises:
            InvalidRequest, QueueFull, StoreError: nothing was enqueued.
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
        (answer,) = self.enqueue_many([request], queue=queue, connection=connection)
        return answer

    def enqueue_many(
        self, requests: Iterable[NewRequest], *, queue: str = "default", connection: Any = None
    ) -> list[Enqueued]:
        """Put many requests into a queue, all or none; answers in the order given.

        Raises:
            as `enqueue`.
        """
        batch = list(requests)
        if connection is not None:
            return self.store.enqueue_many(queue, batch, connection=connection)
        receipt = uuid.uuid4().hex
        pause = FIRST_PAUSE
        for tries_left in reversed(range(TRIES)):
            try:
                return self.store.enqueue_many(queue, batch, receipt_key=receipt)
            except StoreError as error:
                if not error.transient or not tries_left:
                    raise
                time.sleep(pause * random.uniform(0.5, 1))
                pause *= 2
        raise AssertionError("unreachable")


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
