"""The routines as Python calls: one method each, values in and values out.

An engine's store adds how a routine is called, how errors are named, and the doorbell.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol, cast

from rowlease.errors import SchemaMismatch
from rowlease.model import (
    Claim,
    Depth,
    Enqueued,
    Exchanged,
    Explanation,
    Failure,
    Held,
    LeasedRequest,
    Maintained,
    NewRequest,
    Outcome,
    Promoted,
    Renewal,
)
from rowlease.store.schedules import ScheduleCalls

#: By the word that a routine says; making an Enum of it takes fifteen times as long.
OUTCOMES = {each.value: each for each in Outcome}


class Doorbell(Protocol):
    """Tells an idle worker that something may have been enqueued."""

    def announce_idle(self, idle: bool) -> None:
        """Say that this worker sleeps (producers then ring) or no longer does."""

    def wait(self, timeout: timedelta) -> bool:
        """Block until the bell rings (True) or the time is over (False)."""

    def close(self) -> None: ...


class Store(ScheduleCalls):
    """The routines of rowlease, on either engine.

    Synchronous; safe to call from several threads, each call on its own connection out of a small
    pool. Every call is one transaction of its own, but for those that are given the caller's
    `connection`.

    Raises:
        StoreUnavailable, StoreConflict, SchemaMismatch, AccessDenied, InvalidRequest, QueueFull,
        RoutineError: see `rowlease.errors`; the driver's exception is the cause.
    """

    #: The database's name for people: its DSN without the password.
    where: str

    @property
    @abstractmethod
    def can_notify(self) -> bool:
        """Can producers wake an idle worker, or must it poll? Sure after the first call."""

    @abstractmethod
    def _call(self, name: str, connection: Any = None, /, **arguments: Any) -> list[Any]:
        """All rows of a routine; on the caller's connection, if one is given."""

    @abstractmethod
    def doorbell(self, queues: Sequence[str], *, room: bool = False) -> Doorbell:
        """A bell for these queues, on a connection of its own.

        It rings when there may be work, or with `room` when a full queue may have room.
        """

    @abstractmethod
    def close(self) -> None:
        """Close every connection; the store cannot be used afterwards."""

    def check_schema(self) -> None:
        """Raise SchemaMismatch unless the database holds the schema this version works with."""
        from rowlease.store.migrate import check_revision

        try:
            ((revision,),) = self._call("schema_version")
        except SchemaMismatch as error:
            raise SchemaMismatch(
                f"the database at {self.where} has no rowlease schema; run `rowlease migrate`"
            ) from error
        check_revision(revision, self.where)

    def enqueue_many(
        self,
        queue: str,
        requests: Sequence[NewRequest],
        *,
        receipt_key: str | None = None,
        connection: Any = None,
        wait: timedelta | None = None,
        waiter_id: int | None = None,
    ) -> list[Enqueued]:
        """Enqueue all or none; answers in the order given.

        With `wait`, a full queue answers with one `full` and the id of a place among the waiters,
        which is kept by calling again with it within two seconds.
        """

        def column(values: list[Any]) -> list[Any] | None:
            return values if any(value is not None for value in values) else None

        rows = self._call(
            "enqueue_many",
            connection,
            p_queue_name=queue,
            p_kinds=[r.kind for r in requests],
            p_payloads=[r.payload for r in requests],
            p_priorities=[r.priority for r in requests],
            p_delays_ms=column([milliseconds(r.delay) for r in requests]),
            p_due_times=column([r.due_time for r in requests]),
            p_dedup_keys=column([r.dedup_key for r in requests]),
            p_group_keys=column([r.group_key for r in requests]),
            p_max_attempts=column([r.max_attempts for r in requests]),
            p_retry_bases_ms=column([milliseconds(r.retry_base) for r in requests]),
            p_receipt_key=receipt_key,
            p_in_transaction=connection is not None,
            p_wait_ms=milliseconds(wait),
            p_waiter_id=waiter_id,
        )
        return [Enqueued(request_id, Outcome(outcome)) for request_id, outcome in rows]

    def dequeue(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        *,
        slots: int | None = None,
        lease: timedelta | None = None,
        floor: str | None = None,
    ) -> Claim:
        """Lease up to `limit` requests (1 to 10,000); those past `slots` count as fetched ahead."""
        rows = self._call(
            "dequeue",
            p_worker_id=worker_id,
            p_queue_names=list(queues),
            p_limit=limit,
            p_slots=slots,
            p_lease_ms=milliseconds(lease),
            p_floor=floor,
        )
        return _claim(rows)

    def complete(
        self,
        held: Sequence[Held | LeasedRequest],
        results: Sequence[str | None] | None = None,
        *,
        connection: Any = None,
    ) -> list[Outcome]:
        """Finish requests; `results` is JSON text or None for each of them."""
        return _outcomes(
            self._call(
                "complete",
                connection,
                p_request_ids=[h.request_id for h in held],
                p_lock_tokens=[h.lock_token for h in held],
                p_results=None if results is None else list(results),
            )
        )

    def fail(
        self, held: Sequence[Held | LeasedRequest], failures: Sequence[Failure]
    ) -> list[Outcome]:
        """Report failed attempts; each is retried later or becomes a dead letter."""
        return _outcomes(
            self._call(
                "fail",
                p_request_ids=[h.request_id for h in held],
                p_lock_tokens=[h.lock_token for h in held],
                p_errors=[_storable(f.error) for f in failures],
                p_retries_ms=[milliseconds(f.after) for f in failures],
                p_dead=[f.dead for f in failures],
            )
        )

    def abandon(self, held: Sequence[Held | LeasedRequest]) -> list[Outcome]:
        """Hand requests back at once; no attempt is counted."""
        return _outcomes(
            self._call(
                "abandon",
                p_request_ids=[h.request_id for h in held],
                p_lock_tokens=[h.lock_token for h in held],
            )
        )

    def renew(
        self,
        held: Sequence[Held | LeasedRequest],
        *,
        lease: timedelta | None = None,
        started: Sequence[bool] | None = None,
    ) -> list[Renewal]:
        """Prolong leases from now on."""
        rows = self._call(
            "renew",
            p_request_ids=[h.request_id for h in held],
            p_lock_tokens=[h.lock_token for h in held],
            p_lease_ms=milliseconds(lease),
            p_started=None if started is None else list(started),
        )
        return [Renewal(request_id, Outcome(outcome), until) for request_id, outcome, until in rows]

    def report_progress(self, said: Sequence[tuple[Held | LeasedRequest, float, str]]) -> int:
        """Keep what running requests say of themselves: a fraction of 0 to 1, and a note.

        Returns:
            Of how many it was kept: those whose lease is held.
        """
        ((kept,),) = self._call(
            "report_progress",
            p_request_ids=[held.request_id for held, _, _ in said],
            p_lock_tokens=[held.lock_token for held, _, _ in said],
            p_fractions=[fraction for _, fraction, _ in said],
            p_notes=[note for _, _, note in said],
        )
        return int(kept)

    def exchange(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        *,
        completed: Sequence[tuple[Held | LeasedRequest, str | None]] = (),
        failed: Sequence[tuple[Held | LeasedRequest, Failure]] = (),
        slots: int | None = None,
        lease: timedelta | None = None,
        floor: str | None = None,
    ) -> Exchanged:
        """Report outcomes and lease up to `limit` (0: none) more, in one round trip and commit."""
        results = [result for _, result in completed]
        rows = self._call(
            "exchange",
            p_worker_id=worker_id,
            p_queue_names=list(queues),
            p_limit=limit,
            p_slots=slots,
            p_lease_ms=milliseconds(lease),
            p_floor=floor,
            p_complete_ids=[held.request_id for held, _ in completed],
            p_complete_tokens=[held.lock_token for held, _ in completed],
            # psycopg dumps a list of texts in Python, one by one; most tasks return nothing.
            p_results=results if any(result is not None for result in results) else None,
            p_fail_ids=[held.request_id for held, _ in failed],
            p_fail_tokens=[held.lock_token for held, _ in failed],
            p_errors=[_storable(failure.error) for _, failure in failed],
            p_retries_ms=[milliseconds(failure.after) for _, failure in failed],
            p_dead=[failure.dead for _, failure in failed],
        )
        reported = len(completed) + len(failed)
        outcomes = [OUTCOMES[row[-1]] for row in rows[:reported]]
        return Exchanged(
            outcomes[: len(completed)],
            outcomes[len(completed) :],
            _claim(rows[reported:]) if limit else Claim([], False, None, floor),
        )

    def cancel(self, request_ids: Sequence[int]) -> list[Outcome]:
        """Cancel waiting requests, ask running ones to stop."""
        return _outcomes(self._call("cancel", p_request_ids=list(request_ids)))

    def requeue(
        self,
        request_ids: Sequence[int] | None = None,
        *,
        queue: str | None = None,
        kind: str | None = None,
        error_like: str | None = None,
        limit: int = 10_000,
        dry_run: bool = False,
    ) -> list[Enqueued]:
        """Give dead letters a new life: `ok`, `duplicate` or `not_found` for each."""
        rows = self._call(
            "requeue",
            p_request_ids=None if request_ids is None else list(request_ids),
            p_queue_name=queue,
            p_kind=kind,
            p_error_like=error_like,
            p_limit=limit,
            p_dry_run=dry_run,
        )
        return [Enqueued(request_id, Outcome(outcome)) for request_id, outcome in rows]

    def purge(
        self,
        queue: str,
        statuses: Sequence[str] = ("Failed",),
        *,
        kind: str | None = None,
        older_than: timedelta = timedelta(0),
        limit: int = 10_000,
        dry_run: bool = False,
    ) -> int:
        ((count,),) = self._call(
            "purge",
            p_queue_name=queue,
            p_statuses=list(statuses),
            p_kind=kind,
            p_older_than_ms=milliseconds(older_than),
            p_limit=limit,
            p_dry_run=dry_run,
        )
        return int(count)

    def pause(self, queue: str) -> None:
        """Stop a queue from being dequeued; takes effect within one claim."""
        self._call("pause", p_queue_name=queue)

    def resume(self, queue: str) -> None:
        """Let a paused queue be dequeued again."""
        self._call("resume", p_queue_name=queue)

    def explain(self, request_id: int) -> Explanation:
        """The one reason why a request is not being taken."""
        (row,) = self._call("explain", p_request_id=request_id)
        return Explanation._make(row)

    def promote(
        self, load_id: str, queue: str, expected_rows: int, *, kind: str | None = None
    ) -> Promoted:
        """Move a staged load into the queue, whole or not at all."""
        rows = self._call(
            "promote",
            p_load_id=load_id,
            p_queue_name=queue,
            p_expected_rows=expected_rows,
            p_kind=kind,
        )
        outcome, *counts = rows[0]
        return Promoted(Outcome(outcome), *counts)

    def begin_load(self, load_id: str, queue: str, columns: str | None = None) -> Promoted | None:
        """Open the ledger of a load before its rows are staged; drops what an earlier run staged.

        Args:
            columns: what the rows are made of, in words that are the same for every run.

        Returns:
            None, or if the load is promoted already: the counts of that. Nothing need be staged.
        """
        rows = self._call("begin_load", p_load_id=load_id, p_queue_name=queue, p_columns=columns)
        outcome, *counts = rows[0]
        return None if outcome == Outcome.OK else Promoted(Outcome(outcome), *counts)

    def report_load(self, load_id: str, num_rows: int) -> None:
        """Say that so many more rows of a load are on their way; for people to see."""
        self._call("report_load", p_load_id=load_id, p_num_rows=num_rows)

    def discard_staged(self, load_id: str, kept_parts: Sequence[int]) -> int:
        """Drop the staged rows of a load but for these parts; how many there were."""
        ((dropped,),) = self._call(
            "discard_staged", p_load_id=load_id, p_kept_parts=list(kept_parts)
        )
        return int(dropped)

    def maintain(self, limit: int = 1000) -> list[Maintained]:
        """Do one round of housekeeping; empty when another caller is at it."""
        return [Maintained._make(row) for row in self._call("maintain", p_limit=limit)]

    def depth(self, queue: str | None = None) -> list[Depth]:
        """Counts per queue and priority, highest priority first."""
        return [Depth._make(row) for row in self._call("depth", p_queue_name=queue)]

    def configure_queue(self, queue: str, **settings: Any) -> dict[str, Any]:
        """Make a queue or change its settings; answers with all of them."""
        (row,) = self._call("configure_queue", p_queue_name=queue, p_settings=json.dumps(settings))
        return cast("dict[str, Any]", row[0])

    def worker_heartbeat(
        self,
        worker_id: str,
        *,
        host: str,
        pid: int,
        version: str,
        queues: Sequence[str],
        slots: int,
        busy: int,
        consumer_priority: int = 0,
    ) -> None:
        """Say that a worker is alive, and what it does."""
        self._call(
            "worker_heartbeat",
            p_worker_id=worker_id,
            p_host=host,
            p_pid=pid,
            p_version=version,
            p_queue_names=list(queues),
            p_slots=slots,
            p_busy=busy,
            p_consumer_priority=consumer_priority,
        )

    def worker_bye(self, worker_id: str) -> None:
        """Say that a worker is leaving."""
        self._call("worker_bye", p_worker_id=worker_id)


def milliseconds(duration: timedelta | None) -> int | None:
    """A duration as SQL takes it."""
    return None if duration is None else round(duration / timedelta(milliseconds=1))


def _claim(rows: list[Any]) -> Claim:
    """The rows of dequeue: the leased requests, then one row about the call itself."""
    width = len(LeasedRequest._fields)
    more, wait_ms, floor = rows.pop()[width : width + 3]
    wait = None if wait_ms is None else timedelta(milliseconds=wait_ms)
    return Claim([LeasedRequest._make(row[:width]) for row in rows], more, wait, floor)


def _storable(error: str) -> str:
    """Text any database holds, without NUL or half characters: a failure must be recordable."""
    return error.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _outcomes(rows: list[Any]) -> list[Outcome]:
    return [OUTCOMES[outcome] for _, outcome in rows]
