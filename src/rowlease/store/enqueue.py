"""The calls of sql/*/enqueue: one request, or many in one call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rowlease.errors import QueueFull
from rowlease.model import Enqueued, NewRequest, Outcome
from rowlease.store.calls import OUTCOMES, Calls, to_milliseconds, values_of

#: The columns that `enqueue` and `enqueue_many` return.
ENQUEUED_COLUMNS = ("request_id", "outcome", "requested_us")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EnqueueCalls(Calls):
    """Puts requests into a queue; see `rowlease.store.Store`."""

    def enqueue_many(
        self,
        queue: str,
        requests: Sequence[NewRequest],
        *,
        receipt_key: str | None = None,
        connection: Any = None,
        wait: timedelta | None = None,
        waiter_id: int | None = None,
        batch_id: str | None = None,
        after: str | None = None,
    ) -> list[Enqueued]:
        """Enqueue all requests or none. The results are in the order of the requests.

        If the queue is full and `wait` is given, the only result is `full`, with the id of a place
        in line. To keep this place, call again within two seconds with the id as `waiter_id`.

        Args:
            batch_id: the batch of the requests.
            after: the batch that the requests wait for.

        Raises:
            QueueFull: the queue is full, and there is no `wait`. A caller's transaction can go on.
        """
        wait_ms = to_milliseconds(wait) if connection is None else 0
        in_transaction = connection is not None
        routine, given = _call_of(
            queue, requests, receipt_key, in_transaction, wait_ms, waiter_id, batch_id, after
        )
        rows = self._rows(ENQUEUED_COLUMNS, routine, connection, **given)
        return _enqueued(rows, queue, len(requests))

    async def enqueue_many_async(
        self,
        connection: Any,
        queue: str,
        requests: Sequence[NewRequest],
        *,
        receipt_key: str | None = None,
        batch_id: str | None = None,
        after: str | None = None,
    ) -> list[Enqueued]:
        """The same as `enqueue_many`, in the transaction of the caller's asyncio connection."""
        routine, given = _call_of(queue, requests, receipt_key, True, 0, None, batch_id, after)
        rows = await self._call_async(routine, connection, ENQUEUED_COLUMNS, **given)
        return _enqueued(rows, queue, len(requests))


def _call_of(
    queue: str,
    requests: Sequence[NewRequest],
    receipt_key: str | None,
    in_transaction: bool,
    wait_ms: int | None,
    waiter_id: int | None,
    batch_id: str | None,
    after: str | None,
) -> tuple[str, dict[str, Any]]:
    """The routine that enqueues these requests, and its arguments without those that are null.

    The driver needs less time for a call with fewer arguments.
    """
    if len(requests) == 1 and (waiter_id, batch_id, after) == (None, None, None):
        routine, values = "enqueue", values_of(requests[0])
    else:
        routine, values = "enqueue_many", _columns(requests)
    values |= {
        "p_queue_name": queue,
        "p_receipt_key": receipt_key,
        "p_in_transaction": in_transaction,
        "p_wait_ms": wait_ms,
        "p_waiter_id": waiter_id,
        "p_batch_id": batch_id,
        "p_after": after,
    }
    return routine, {name: value for name, value in values.items() if value is not None}


def _columns(requests: Sequence[NewRequest]) -> dict[str, Any]:
    """The requests as arguments of `enqueue_many`."""

    def column(values: list[Any]) -> list[Any] | None:
        return values if any(value is not None for value in values) else None

    return {
        "p_kinds": [r.kind for r in requests],
        "p_payloads": [r.payload for r in requests],
        "p_priorities": [r.priority for r in requests],
        "p_delays_ms": column([to_milliseconds(r.delay) for r in requests]),
        "p_due_times": column([r.due_time for r in requests]),
        "p_dedup_keys": column([r.dedup_key for r in requests]),
        "p_group_keys": column([r.group_key for r in requests]),
        "p_max_attempts": column([r.max_attempts for r in requests]),
        "p_retry_bases_ms": column([to_milliseconds(r.retry_base) for r in requests]),
        "p_headers": column([r.headers for r in requests]),
    }


def _enqueued(rows: list[Any], queue: str, num_requests: int) -> list[Enqueued]:
    if rows and tuple(rows[0])[:2] == (None, Outcome.FULL):
        raise QueueFull(
            f'queue "{queue}" is full: {num_requests} more cannot fit; wait for workers, or raise '
            f"the capacity that `rowlease queue show {queue}` names"
        )
    return [
        Enqueued(
            request_id,
            OUTCOMES[outcome],
            None if requested is None else EPOCH + timedelta(microseconds=requested),
        )
        for request_id, outcome, requested in rows
    ]
