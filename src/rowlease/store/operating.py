"""The calls of operators, for the role `rowlease_operator`: requests, queues and their settings."""

from __future__ import annotations

import json
from typing import Any, Unpack, cast

from rowlease.filters.filter import Filter, to_json
from rowlease.model import Corrected, Enqueued, Forgotten, NewRequest, Outcome, Step, Touched
from rowlease.store.calls import OUTCOME, Calls, to_milliseconds


class Operating(Calls):
    """Changes queues and waiting requests; see `rowlease.store.Store`."""

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
            arguments: `priority` for reprioritise; `delay_ms` or `due_time` for reschedule.
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
            OUTCOME,
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
