"""The calls of sql/*/dequeue: lease requests, and report outcomes with the same call."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rowlease.model import Claim, Exchanged, Failure, Held, LeasedRequest
from rowlease.store.calls import (
    OUTCOME_COLUMNS,
    OUTCOMES,
    Calls,
    details_of,
    leases,
    outcomes_of,
    replace_unstorable,
    to_milliseconds,
)

#: The columns that `dequeue` returns.
CLAIM_COLUMNS = (*LeasedRequest._fields, "more", "wait_ms", "floor")
#: The columns that `exchange` returns.
EXCHANGE_COLUMNS = (*CLAIM_COLUMNS, "dead", "outcome")


class DequeueCalls(Calls):
    """Leases requests; see `rowlease.store.Store`."""

    def dequeue(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        *,
        slots: int | None = None,
        lease: timedelta | None = None,
        floor: str | None = None,
        asynchronous_commit: bool = False,
    ) -> Claim:
        """Claim up to `limit` requests (1 to 10,000). Requests beyond `slots` are prefetched.

        Args:
            asynchronous_commit: whether PostgreSQL answers before the claim is on disk. If the
                server crashes at once, the claim may be undone: the requests wait as before, and
                the token of the undone claim fits none of them.
        """
        store = copy.copy(self)
        store._is_commit_asynchronous = asynchronous_commit
        rows = store._rows(
            CLAIM_COLUMNS,
            "dequeue",
            p_worker_id=worker_id,
            p_queue_names=list(queues),
            p_limit=limit,
            p_slots=slots,
            p_lease_ms=to_milliseconds(lease),
            p_floor=floor,
        )
        return _claim(rows)

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
        """Report outcomes and claim up to `limit` requests in one transaction. 0 means no claim."""
        results = [result for _, result in completed]
        # Most tasks return nothing, and psycopg would convert each string of a list in Python.
        given = results if any(result is not None for result in results) else None
        if not (limit or failed):  # its answer has 2 columns in place of 21
            held = leases([held for held, _ in completed])
            rows = self._rows(OUTCOME_COLUMNS, "complete", **held, p_results=given)
            return Exchanged(outcomes_of(rows), [], [], Claim([], False, None, floor))
        rows = self._rows(
            EXCHANGE_COLUMNS,
            "exchange",
            p_worker_id=worker_id,
            p_queue_names=list(queues),
            p_limit=limit,
            p_slots=slots,
            p_lease_ms=to_milliseconds(lease),
            p_floor=floor,
            p_complete_ids=[held.request_id for held, _ in completed],
            p_complete_tokens=[held.lock_token for held, _ in completed],
            p_results=given,
            p_fail_ids=[held.request_id for held, _ in failed],
            p_fail_tokens=[held.lock_token for held, _ in failed],
            p_errors=[replace_unstorable(failure.error) for _, failure in failed],
            p_retries_ms=[to_milliseconds(failure.after) for _, failure in failed],
            p_dead=[failure.dead for _, failure in failed],
            **details_of([failure for _, failure in failed]),
        )
        reported = len(completed) + len(failed)
        outcomes = [OUTCOMES[row[-1]] for row in rows[:reported]]
        return Exchanged(
            outcomes[: len(completed)],
            outcomes[len(completed) :],
            [bool(row[-2]) for row in rows[len(completed) : reported]],
            _claim(rows[reported:]) if limit else Claim([], False, None, floor),
        )


def _claim(rows: list[Any]) -> Claim:
    """The claim in the rows of `dequeue`: the leased requests, then a row about the call."""
    width = len(LeasedRequest._fields)
    more, wait_ms, floor = rows.pop()[width : len(CLAIM_COLUMNS)]
    wait = None if wait_ms is None else timedelta(milliseconds=wait_ms)
    return Claim([LeasedRequest._make(row[:width]) for row in rows], more, wait, floor)
