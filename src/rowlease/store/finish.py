"""The calls of sql/*/finish: end leases, renew them, and report progress."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rowlease.model import Failure, Held, LeasedRequest, NewRequest, Outcome, Renewal
from rowlease.store.calls import (
    OUTCOME_COLUMNS,
    OUTCOMES,
    Calls,
    details_of,
    leases,
    outcomes_of,
    replace_unstorable,
    to_milliseconds,
    values_of,
)
from rowlease.store.transaction import refuse_autocommit, refuse_unless_ok


class FinishCalls(Calls):
    """Ends and renews leases; see `rowlease.store.Store`."""

    def complete(
        self,
        held: Sequence[Held | LeasedRequest],
        results: Sequence[str | None] | None = None,
        *,
        connection: Any = None,
    ) -> list[Outcome]:
        """Finish requests. `results` has JSON text or None for each request.

        Args:
            connection: the caller's connection. The requests are finished if and only if its
                transaction commits, so each effect of this transaction happens exactly once.

        Raises:
            LeaseLost: a `connection` is given and an outcome is not `ok`. Roll back: another worker
                may have leased the request, or the request was completed before.
            ConfigError: the `connection` is in autocommit mode.
        """
        if connection is not None:
            refuse_autocommit(connection)
        outcomes = outcomes_of(
            self._rows(
                OUTCOME_COLUMNS,
                "complete",
                connection,
                **leases(held),
                p_results=None if results is None else list(results),
            )
        )
        if connection is not None:
            refuse_unless_ok(held, outcomes)
        return outcomes

    def complete_and_enqueue(
        self, held: Held | LeasedRequest, result: str | None, queue: str, successor: NewRequest
    ) -> Outcome:
        """Finish a request and enqueue its successor, both or neither.

        The successor belongs to the batch of the request. If the outcome is not `ok`, nothing is
        enqueued.
        """
        arguments = completing(held, result, queue, successor)
        (outcome,) = outcomes_of(self._rows(OUTCOME_COLUMNS, "complete_and_enqueue", **arguments))
        return outcome

    def fail(
        self, held: Sequence[Held | LeasedRequest], failures: Sequence[Failure]
    ) -> list[Outcome]:
        """Report failed attempts. Each request is retried later or becomes a dead letter."""
        rows = self._rows(
            (*OUTCOME_COLUMNS, "dead"),
            "fail",
            **leases(held),
            p_errors=[replace_unstorable(f.error) for f in failures],
            p_retries_ms=[to_milliseconds(f.after) for f in failures],
            p_dead=[f.dead for f in failures],
            **details_of(failures),
        )
        return [OUTCOMES[outcome] for _, outcome, _ in rows]

    def abandon(self, held: Sequence[Held | LeasedRequest]) -> list[Outcome]:
        """Give leases up, so that the requests wait again. No attempt is counted."""
        return outcomes_of(self._rows(OUTCOME_COLUMNS, "abandon", **leases(held)))

    def expire(self, held: Sequence[Held | LeasedRequest]) -> list[Outcome]:
        """Cancel requests that were not to start any more. No attempt is counted."""
        return outcomes_of(self._rows(OUTCOME_COLUMNS, "expire", **leases(held)))

    def snooze(
        self,
        held: Sequence[Held | LeasedRequest],
        delays: Sequence[timedelta],
        reasons: Sequence[str] | None = None,
    ) -> list[Outcome]:
        """Make requests wait until later, at least a second each. No attempt is counted."""
        return outcomes_of(
            self._rows(
                OUTCOME_COLUMNS,
                "snooze",
                **leases(held),
                p_delays_ms=[to_milliseconds(delay) for delay in delays],
                p_reasons=None
                if reasons is None
                else [replace_unstorable(reason) for reason in reasons],
            )
        )

    def decline(
        self, held: Sequence[Held | LeasedRequest], errors: Sequence[str]
    ) -> tuple[list[Outcome], list[bool]]:
        """Give up the leases of requests of unknown kinds. No attempt is counted.

        Args:
            errors: the reason for each request, which becomes its last error.

        Returns:
            The outcomes, and whether each request is a dead letter now. A request becomes a dead
            letter if for the queue's `unknown_kind_seconds` no live worker of its queue has known
            its kind.
        """
        rows = self._rows(
            (*OUTCOME_COLUMNS, "dead"),
            "decline",
            **leases(held),
            p_errors=[replace_unstorable(error) for error in errors],
        )
        return [OUTCOMES[outcome] for _, outcome, _ in rows], [bool(dead) for *_, dead in rows]

    def disown(
        self, worker_id: str, queues: Sequence[str], held: Sequence[Held | LeasedRequest]
    ) -> list[tuple[int, Outcome]]:
        """Give up a worker's leases in these queues, except those in `held`.

        Returns:
            The requests whose leases were given up, each with an outcome of `abandon`.
        """
        rows = self._rows(
            OUTCOME_COLUMNS,
            "disown",
            p_worker_id=worker_id,
            p_queue_names=list(queues),
            **leases(held),
        )
        return [(request_id, OUTCOMES[outcome]) for request_id, outcome in rows]

    def renew(
        self,
        held: Sequence[Held | LeasedRequest],
        *,
        lease: timedelta | None = None,
        started: Sequence[bool] | None = None,
    ) -> list[Renewal]:
        """Extend leases. `started` says for each request whether its task has begun."""
        rows = self._rows(
            Renewal._fields,
            "renew",
            **leases(held),
            p_lease_ms=to_milliseconds(lease),
            p_started=None if started is None else list(started),
        )
        return [
            Renewal(request_id, Outcome(outcome), until, bool(kills))
            for request_id, outcome, until, kills in rows
        ]

    def report_progress(self, reports: Sequence[tuple[Held | LeasedRequest, float, str]]) -> int:
        """Store the progress of running requests: a fraction from 0 to 1 and a note.

        Returns:
            The number of requests with a valid lease. Only their progress was stored.
        """
        ((kept,),) = self._call(
            "report_progress",
            p_request_ids=[held.request_id for held, _, _ in reports],
            p_lock_tokens=[held.lock_token for held, _, _ in reports],
            p_fractions=[fraction for _, fraction, _ in reports],
            p_notes=[replace_unstorable(note) for _, _, note in reports],
        )
        return int(kept)


def completing(
    held: Held | LeasedRequest, result: str | None, queue: str, successor: NewRequest
) -> dict[str, Any]:
    """The arguments of `complete_and_enqueue` that are not null."""
    arguments = {
        "p_request_id": held.request_id,
        "p_lock_token": held.lock_token,
        "p_result": result,
        "p_queue_name": queue,
        **values_of(successor),
    }
    return {name: value for name, value in arguments.items() if value is not None}
