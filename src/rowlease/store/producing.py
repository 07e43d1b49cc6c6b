"""The calls of producers, for the role `rowlease_producer`: enqueueing and loads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rowlease.errors import QueueFull
from rowlease.model import Begun, Enqueued, NewRequest, Outcome, Promoted, StreamBatch
from rowlease.store.calls import OUTCOMES, Calls, to_milliseconds

#: The columns that `begin_load` returns.
BEGIN_LOAD_COLUMNS = (
    "outcome", "run_number", "num_rows", "num_enqueued", "num_duplicates", "num_clamped",
    "max_priority",
)  # fmt: skip


#: The columns that `enqueue` and `enqueue_many` return.
ENQUEUED_COLUMNS = ("request_id", "outcome", "requested_us")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Producing(Calls):
    """Enqueues requests, directly or as a staged load; see `rowlease.store.Store`."""

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

    def begin_load(
        self,
        load_id: str,
        queue: str,
        run_by: str,
        columns: str | None = None,
        *,
        batch: StreamBatch | None = None,
    ) -> Begun | Promoted:
        """Begin a run of a load, before its rows are staged. Drop the rows of an earlier run.

        A run may make this call again: then it gets the same run number, and no rows are dropped.

        Args:
            run_by: the unique name of the run, 1 to 200 characters.
            columns: a description of the rows, which must be the same in every run.
            batch: the batch of a stream that the load is.

        Returns:
            The values that the writers of the load's rows need; or, if the load is already
            promoted, the counts of the promotion.

        Raises:
            LoadLost: a later run has taken the load over from this one.
            InvalidRequest: the stream belongs to another streaming query.
        """
        stream, query_id, number = batch or (None, None, None)
        rows = self._rows(
            BEGIN_LOAD_COLUMNS,
            "begin_load",
            p_load_id=load_id,
            p_queue_name=queue,
            p_run_by=run_by,
            p_columns=columns,
            p_stream_name=stream,
            p_query_id=query_id,
            p_batch_number=number,
        )
        outcome, run_number, *counts, max_priority = rows[0]
        if outcome == Outcome.OK:
            return Begun(run_number, max_priority)
        return Promoted(Outcome(outcome), *counts)

    def report_load(self, load_id: str, run_number: int, num_rows: int) -> None:
        """Report the number of rows written since the last report.

        Raises:
            LoadLost: another run has taken the load over.
        """
        self._call("report_load", p_load_id=load_id, p_run_number=run_number, p_num_rows=num_rows)

    def discard_staged(
        self, load_id: str, run_number: int, kept_parts: Sequence[int] | None
    ) -> int:
        """Drop the rows that a run has staged, except these parts. Return how many were dropped.

        Args:
            kept_parts: the parts that count. None drops all rows and ends the run: whatever it
                writes later is refused, and another run may begin the load.

        Raises:
            LoadLost: another run has taken the load over.
        """
        ((dropped,),) = self._call(
            "discard_staged",
            p_load_id=load_id,
            p_run_number=run_number,
            p_kept_parts=None if kept_parts is None else list(kept_parts),
        )
        return int(dropped)

    def promote(
        self,
        load_id: str,
        run_number: int,
        expected_rows: int,
        *,
        kind: str | None = None,
        num_clamped: int = 0,
    ) -> Promoted:
        """Turn all rows of a load into requests of its queue, or none of them.

        Args:
            kind: the kind of rows that have none.
            num_clamped: the number of rows whose priority their writer has lowered.

        Raises:
            LoadLost: another run has taken the load over.
        """
        rows = self._rows(
            Promoted._fields,
            "promote",
            p_load_id=load_id,
            p_run_number=run_number,
            p_expected_rows=expected_rows,
            p_kind=kind,
            p_num_clamped=num_clamped,
        )
        outcome, *counts = rows[0]
        return Promoted(Outcome(outcome), *counts)


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
        routine, values = "enqueue", _values(requests[0])
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


def _values(request: NewRequest) -> dict[str, Any]:
    """A request as arguments of `enqueue`."""
    return {
        "p_kind": request.kind,
        "p_payload": request.payload,
        "p_priority": request.priority,
        "p_delay_ms": to_milliseconds(request.delay),
        "p_due_time": request.due_time,
        "p_dedup_key": request.dedup_key,
        "p_group_key": request.group_key,
        "p_max_attempts": request.max_attempts,
        "p_retry_base_ms": to_milliseconds(request.retry_base),
        "p_headers": request.headers,
    }


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
