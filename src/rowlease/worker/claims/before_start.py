"""Looks at a request before it starts: whether it has expired, and what it needs of its batch."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta

from rowlease.counts import counted
from rowlease.errors import DeadLetter
from rowlease.model import MAX_PAYLOAD_BYTES, Failure, LeasedRequest
from rowlease.store import Store
from rowlease.tasks.chains import AfterBatch, batch_before, has_successor
from rowlease.tasks.headers import EXPIRES_HEADER, decode_headers
from rowlease.worker.calls import ascii_only

#: The maximum number of requests in one read. Each has its payload.
RESULTS_PER_READ = 500


def has_expired(leased: LeasedRequest) -> bool:
    """Whether the request was claimed, for its first attempt, after the time for its start."""
    if not leased.headers or EXPIRES_HEADER not in leased.headers or leased.num_attempts > 1:
        return False
    with suppress(ValueError, OverflowError, KeyError):
        seconds = float(decode_headers(leased.headers)[EXPIRES_HEADER])
        return leased.locked_time - leased.requested_time > timedelta(seconds=seconds)
    return False


def request_or_failure(store: Store, leased: LeasedRequest) -> LeasedRequest | Failure:
    """The request with the results of its batch, or why it does not start."""
    try:
        return with_results(store, leased)
    except DeadLetter as error:
        return Failure(ascii_only(error.reason), dead=True)
    except Exception as error:
        return Failure(ascii_only(f"the results of its batch were not read: {error}"))


def with_results(store: Store, leased: LeasedRequest) -> LeasedRequest:
    """The request, with the results of its batch in its payload if it asks for them.

    Raises:
        DeadLetter: not all requests of the batch are complete, and the request does not run then;
            or the results are larger than a payload may be.
        InvalidRequest: the payload is wrong.
        StoreError: the database cannot be reached, or refuses access (AccessDenied).
    """
    asked = batch_before(leased.payload)
    if asked is None:
        return leased
    counts = decode_headers(leased.headers)
    num_complete = int(counts.get("batch_complete", 0))
    if (counts.get("batch_failed"), counts.get("batch_cancelled")) != ("0", "0"):
        num_complete = _num_complete(store, asked)
    if asked.result_as is None:
        return leased
    results = ",".join(_results(store, asked.batch_id, num_complete))
    payload = leased.payload.rstrip()[:-1] + f", {json.dumps(asked.result_as)}: [{results}]}}"
    if len(payload.encode()) > MAX_PAYLOAD_BYTES:
        raise DeadLetter(
            f'the results of the batch "{asked.batch_id}" are larger than a payload may be; read '
            "them in the task, with client.batch(id).results(task)"
        )
    return leased._replace(payload=payload)


def _num_complete(store: Store, asked: AfterBatch) -> int:
    """How many requests of the batch are complete now. Dead letters may have been requeued."""
    found = store.list_batches(asked.batch_id)
    if not found:
        raise DeadLetter(f'the batch "{asked.batch_id}" does not exist any more')
    (batch,) = found
    if batch.num_complete < batch.num_requests and not asked.even_if_dead:
        raise DeadLetter(
            f"{counted(batch.num_failed, 'dead letter')}, {batch.num_cancelled:,} cancelled and "
            f'{batch.num_live:,} unfinished in the batch "{asked.batch_id}"; when all are '
            "complete, requeue this request"
        )
    return batch.num_complete


def _results(store: Store, batch_id: str, num_complete: int) -> list[str]:
    """The results as JSON texts, in the order of the requests; of a chain, that of its last link.

    No more is read than a payload may have.
    """
    results: list[str] = []
    num_bytes, left = 0, num_complete
    after: int | None = None
    while left > 0 and num_bytes <= MAX_PAYLOAD_BYTES:
        page = store.find_requests(
            limit=RESULTS_PER_READ, after=after, load_id=batch_id, status="Complete"
        )
        left -= len(page.requests)
        for one in page.requests:
            if not has_successor(one.payload or ""):
                results.append(one.result or "null")
                num_bytes += len(results[-1])
        if (after := page.after) is None:
            break
    return results[::-1]
