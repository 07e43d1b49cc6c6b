"""The calls of sql/*/operate: what operators read, and what they change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack, cast

from rowlease.filters.filter import Filter, to_json
from rowlease.model import (
    Attempt,
    BatchState,
    Corrected,
    DayTotals,
    DeadLetterGroup,
    Depth,
    Enqueued,
    Explanation,
    Finding,
    Forgotten,
    Found,
    KindTotals,
    ListedLease,
    LoadState,
    Metric,
    NewRequest,
    NextRequest,
    OperationState,
    Outcome,
    QueueState,
    Request,
    Step,
    StreamState,
    Touched,
    Waits,
    WorkerState,
)
from rowlease.store.calls import OUTCOME_COLUMNS, Calls, to_milliseconds, to_timedelta

#: The columns for QueueState.
QUEUE_COLUMNS = (*QueueState._fields[:-1], "oldest_ms")
FOUND_COLUMNS = (*Request._fields, "after")
#: The columns for WorkerState.
WORKER_COLUMNS = (*WorkerState._fields[:-1], "silent_ms")


class OperateCalls(Calls):
    """Reads queues and requests, and changes them; see `rowlease.store.Store`."""

    def depth(self, queue: str | None = None) -> list[Depth]:
        """The counts of each queue and priority, the highest priority first."""
        return self._values(Depth, "depth", p_queue_name=queue)

    def explain(self, request_id: int) -> Explanation:
        """The reason why a request is not claimed."""
        (found,) = self._values(Explanation, "explain", p_request_id=request_id)
        return found

    def diagnose(self) -> list[Finding]:
        """The problems of the queues; empty if there is none."""
        return self._values(Finding, "diagnose")

    def diagnose_sessions(self, long: timedelta | None = None) -> list[Finding]:
        """Sessions that block others or keep dead rows, of those that the user may see.

        Args:
            long: the shortest transaction or wait to report. None means a minute for a
                transaction, and 5 s for a wait.
        """
        return self._values(Finding, "diagnose_sessions", p_long_ms=to_milliseconds(long))

    def diagnose_server(self, client_time: datetime | None = None) -> list[Finding]:
        """Settings and limits of the server that harm the queues.

        Args:
            client_time: the caller's time, to compare with the database's, or None.
        """
        return self._values(Finding, "diagnose_server", p_client_time=client_time)

    def demand(self, queue: str) -> int:
        """The number of slots that a queue could use now: its running, pending and due requests."""
        ((found,),) = self._call("demand", p_queue_name=queue)
        return int(found)

    def metrics(self) -> list[Metric]:
        """Demand and overdue leases of each queue, lateness of schedules, and loads in staging."""
        return self._values(Metric, "metrics")

    def metrics_server(self) -> list[Metric]:
        """Connections, dead rows and the age of the horizon, of those that the user may see."""
        return self._values(Metric, "metrics_server")

    def list_queues(self) -> list[QueueState]:
        """Every queue, with its totals and the waiting time of its oldest request."""
        return [
            QueueState(
                *(name, bool(paused), finished, failures),
                None if ms is None else to_timedelta(ms),
            )
            for name, paused, finished, failures, ms in self._rows(QUEUE_COLUMNS, "list_queues")
        ]

    def show_queue(self, queue: str) -> dict[str, Any]:
        """All settings of a queue, as `configure_queue` returns them."""
        ((found,),) = self._call("show_queue", p_queue_name=queue)
        return cast("dict[str, Any]", found)

    def list_workers(self) -> list[WorkerState]:
        """Every registered worker, sorted by host and process id."""
        return [
            WorkerState._make(
                (*row[:4], tuple(json.loads(row[4])), *row[5:9], to_timedelta(row[9]))
            )
            for row in self._rows(WORKER_COLUMNS, "list_workers")
        ]

    def list_ready(self, queue: str, *, limit: int = 20) -> list[NextRequest]:
        """The requests of a queue that claims take next, at most 1,000."""
        return self._values(NextRequest, "list_ready", p_queue_name=queue, p_limit=limit)

    def list_leases(self, *, limit: int = 100) -> list[ListedLease]:
        """The leases of running requests, in the order in which they end."""
        return self._values(ListedLease, "list_leases", p_limit=limit)

    def list_dead_letters(self, *, limit: int = 100) -> list[DeadLetterGroup]:
        """The dead letters, grouped by their error without digits, the largest group first."""
        return self._values(DeadLetterGroup, "list_dead_letters", p_limit=limit)

    def list_loads(self, *, limit: int = 100) -> list[LoadState]:
        """The loads, the newest first."""
        return self._values(LoadState, "list_loads", p_limit=limit)

    def list_streams(self, *, limit: int = 100) -> list[StreamState]:
        """The streams that have enqueued a batch, the latest first."""
        return self._values(StreamState, "list_streams", p_limit=limit)

    def list_operations(self, *, limit: int = 100) -> list[OperationState]:
        """The operations of operators, the latest first."""
        return self._values(OperationState, "list_operations", p_limit=limit)

    def list_batches(self, *batch_ids: str, limit: int = 100) -> list[BatchState]:
        """The batches, the newest first, or those with these ids."""
        if batch_ids:
            limit = len(batch_ids)
        return self._values(
            BatchState, "list_batches", p_batch_ids=list(batch_ids) or None, p_limit=limit
        )

    def measure_waits(
        self, *, within: timedelta = timedelta(minutes=1), look: int = 2000
    ) -> list[Waits]:
        """The waits and runs of requests: all queues together, then each queue.

        Args:
            within: only requests that were completed within this time.
            look: the maximum number of requests to read. If there are more, those that were
                completed first are read.
        """
        return self._values(
            Waits, "measure_waits", p_within_ms=to_milliseconds(within), p_look=look
        )

    def list_days(self, queue: str | None = None, *, days: int = 30) -> list[DayTotals]:
        """What was finished in each of the last days of a queue or of all, the latest first."""
        return self._values(DayTotals, "list_days", p_queue_name=queue, p_days=days)

    def list_kinds(self, *, look: int = 10_000, limit: int = 100) -> list[KindTotals]:
        """What became of the newest requests of each kind, the most frequent kind first.

        Args:
            look: the maximum number of finished requests to read.
        """
        return self._values(KindTotals, "list_kinds", p_look=look, p_limit=limit)

    def get_request(self, request_id: int, connection: Any = None) -> Request | None:
        """One request, read on the caller's connection or one of the pool; None: there is none."""
        rows = self._rows(Request._fields, "get_request", connection, p_request_id=request_id)
        return _request(rows[0]) if rows else None

    def find_requests(
        self,
        *,
        limit: int = 100,
        after: int | None = None,
        look: int = 10_000,
        **filters: Unpack[Filter],
    ) -> Found:
        """The newest requests that match, after those that an earlier call has found.

        Args:
            limit: the maximum number of requests to return (1 or more).
            after: the value `after` that the earlier call returned.
            look: the maximum number of requests to read from each table (1 or more).
        """
        *rows, last = self._rows(
            FOUND_COLUMNS,
            "find_requests",
            p_filter=to_json(filters),
            p_after=after,
            p_limit=limit,
            p_look=look,
        )
        return Found([_request(row[:-1]) for row in rows], last[-1])

    def operate(
        self,
        verb: str,
        *,
        arguments: dict[str, Any] | None = None,
        actor: str | None = None,
        dry_run: bool = False,
        after: int | None = None,
        operation_id: int | None = None,
        limit: int = 1000,
        **filters: Unpack[Filter],
    ) -> Step:
        """A step of an operation on the requests that match; see `rowlease.client.operations`.

        Args:
            verb: cancel, requeue, reprioritise, reschedule, break or purge.
            arguments: `kill` for cancel; `priority` for reprioritise; `delay_ms` or `due_time` for
                reschedule.
            actor: the operator's name, for the audit.
            dry_run: whether to change nothing.
            after: in a dry run, the `after` of the previous step.
            operation_id: the operation to continue. Its filter and arguments apply.
            limit: the maximum number of requests of the step.
        """
        *rows, last = self._rows(
            (*Touched._fields, "operation_id", "after", "num_requests"),
            "operate",
            p_verb=verb,
            p_filter=to_json(filters),
            p_arguments=json.dumps(arguments or {}),
            p_actor=actor,
            p_dry_run=dry_run,
            p_after=after,
            p_operation_id=operation_id,
            p_limit=limit,
        )
        return Step([Touched(row[0], Outcome(row[1]), row[2]) for row in rows], *last[3:])

    def pause(self, queue: str, *, actor: str | None = None) -> None:
        """Stop claims from a queue. Claims that are under way may still get requests.

        Args:
            actor: the operator's name, for the audit.
        """
        self._call("pause", p_queue_name=queue, p_actor=actor)

    def resume(self, queue: str, *, actor: str | None = None) -> None:
        """Allow claims from a paused queue again.

        Args:
            actor: the operator's name, for the audit.
        """
        self._call("resume", p_queue_name=queue, p_actor=actor)

    def configure_queue(
        self, queue: str, *, actor: str | None = None, **settings: Any
    ) -> dict[str, Any]:
        """Create a queue or change its settings. Return all its settings.

        Args:
            actor: the operator's name, for the audit.
        """
        ((found,),) = self._call(
            "configure_queue", p_queue_name=queue, p_settings=json.dumps(settings), p_actor=actor
        )
        return cast("dict[str, Any]", found)

    def delete_queue(
        self,
        queue: str,
        *,
        purge: bool = False,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> int:
        """Delete a queue that has no requests, live workers, schedules or loads. Keep its history.

        Args:
            purge: whether to purge its waiting and failed requests first, at most 10,000.
            dry_run: whether to change nothing.
            actor: the operator's name, for the audit.

        Returns:
            The number of requests that were purged. In a dry run, the number that would be purged.

        Raises:
            InvalidRequest: there is no such queue, or the queue cannot be deleted.
            StoreConflict: another transaction was still using queues after 100 ms.
        """
        ((count,),) = self._call(
            "delete_queue",
            p_queue_name=queue,
            p_purge=purge,
            p_dry_run=dry_run,
            p_actor=actor,
        )
        return int(count)

    def enqueue_by_operator(
        self, queue: str, request: NewRequest, *, actor: str | None = None
    ) -> Enqueued:
        """Enqueue a request that has no keys, and record who did.

        Args:
            actor: the operator's name, for the audit.

        Raises:
            InvalidRequest: there is no such queue, or a value is wrong.
            QueueFull: the queue is full.
        """
        (row,) = self._rows(
            OUTCOME_COLUMNS,
            "enqueue_by_operator",
            p_queue_name=queue,
            p_kind=request.kind,
            p_payload=request.payload,
            p_priority=request.priority,
            p_delay_ms=to_milliseconds(request.delay),
            p_due_time=request.due_time,
            p_actor=actor,
        )
        return Enqueued(row[0], Outcome(row[1]))

    def discard_load(self, load_id: str, *, dry_run: bool = False, actor: str | None = None) -> int:
        """End the run of a load that will not be promoted. `maintain` then deletes its staged rows.

        Args:
            dry_run: whether to change nothing.
            actor: the operator's name, for the audit.

        Returns:
            The number of rows that the run has reported as staged.

        Raises:
            LoadLost: the load is promoted, its run is over, or there is no such load.
        """
        ((count,),) = self._call(
            "discard_load", p_load_id=load_id, p_dry_run=dry_run, p_actor=actor
        )
        return int(count)

    def forget_stream(
        self, stream: str, *, dry_run: bool = False, actor: str | None = None
    ) -> Forgotten:
        """Forget which batches a stream has enqueued, so that another query may have its name.

        What that query enqueues again runs again.

        Args:
            dry_run: whether to change nothing.
            actor: the operator's name, for the audit.

        Raises:
            InvalidRequest: a batch is being written, or has requests that wait, run or are dead
                letters.
        """
        rows = self._rows(
            Forgotten._fields,
            "forget_stream",
            p_stream_name=stream,
            p_dry_run=dry_run,
            p_actor=actor,
        )
        outcome, *rest = rows[0]
        return Forgotten(Outcome(outcome), *rest)

    def recount(self, queue: str | None = None, *, actor: str | None = None) -> list[Corrected]:
        """Correct the counts of a queue (None: all, and batches) whose rows were changed by hand.

        A request that waits for an earlier request of its group is unblocked if the earlier request
        no longer exists. This call reads the whole queue and blocks no other call.

        Args:
            actor: the operator's name, for the audit.

        Returns:
            The counts that were wrong.

        Raises:
            StoreConflict: `maintain` or another recount was still running after two seconds.
        """
        return self._values(Corrected, "recount", p_queue_name=queue, p_actor=actor)


def _request(row: Sequence[Any]) -> Request:
    attempts = json.loads(row[Request._fields.index("attempts")] or "[]")
    return Request._make(row)._replace(attempts=tuple(map(_attempt, attempts)))


def _attempt(fields: dict[str, Any]) -> Attempt:
    # SQL Server writes neither nulls nor time zones.
    for name in ("started_time", "ended_time"):
        time = datetime.fromisoformat(fields[name])
        fields[name] = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return Attempt._make(map(fields.get, Attempt._fields))
