"""Leases: the result of a claim, and the reports of a worker about its requests."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from rowlease.model.outcomes import Outcome


class LeasedRequest(NamedTuple):
    """A leased request, in the column order of the routine `dequeue`."""

    request_id: int
    queue_name: str
    kind: str
    priority: int
    requested_time: datetime
    due_time: datetime
    locked_time: datetime
    lock_expires_time: datetime
    #: The fencing token. Each claim raises it by a random number, and it is never reset. After a
    #: million claims of a request it is still below 2^53, so JSON numbers hold it exactly.
    lock_token: int
    #: The number of this attempt; the first is 1.
    num_attempts: int
    max_attempts: int
    num_crashes: int
    group_key: str | None
    load_id: str | None
    #: The JSON text, byte for byte as it was enqueued.
    payload: str
    #: A JSON object of strings, or None.
    headers: str | None = None

    @property
    def is_suspect(self) -> bool:
        """Whether the next crash may make the request a dead letter.

        By default the third crash does, or the one at the last attempt. A queue's own `max_crashes`
        is not in the row.
        """
        return self.num_crashes >= 2 or (
            self.num_crashes > 0 and self.num_attempts >= self.max_attempts
        )


class Claim(NamedTuple):
    """The result of one claim.

    Attributes:
        requests: the leased requests in claim order: at most as many as the limit, or none.
        more: true if the worker should claim again at once. A claim may return few requests from a
            queue that has many.
        wait: the time until a scheduled request is due or a lease runs out; None if there is
            neither. Zero if another transaction has locked such a request, or a queue's gate.
        floor: an opaque value for the next `dequeue`; None if no floor is in force.
    """

    requests: list[LeasedRequest]
    more: bool
    wait: timedelta | None
    floor: str | None


class Held(NamedTuple):
    """A lease, identified by its request and its token."""

    request_id: int
    lock_token: int


class Failure(NamedTuple):
    """A worker's report of a failed attempt.

    Attributes:
        error: the text of the error, for example `ValueError: no`. 8,000 characters are kept as
            `last_error`, and 2,000 characters in the table `attempt`.
        after: the time until the next attempt; None means the usual back-off.
        dead: true to make the request a dead letter even if attempts are left.
        error_type: the name of the exception's class, with its module unless that is `builtins`.
            200 characters are kept. None if there was no exception.
        traceback: the traceback, of which the last 6,000 characters are kept.
    """

    error: str
    after: timedelta | None = None
    dead: bool = False
    error_type: str | None = None
    traceback: str | None = None


class Renewal(NamedTuple):
    """The answer for one lease.

    After `ok`, `cancel_requested` or `busy`, the worker still holds the lease.

    Attributes:
        kills: after `cancel_requested`, whether to end the task at once.
    """

    request_id: int
    outcome: Outcome
    lock_expires_time: datetime | None
    kills: bool = False


class Exchanged(NamedTuple):
    """The result of one exchange: the outcomes, in the order of the arguments, and the claim.

    Attributes:
        dead: for each request in `failed`, true if it became a dead letter.
    """

    completed: list[Outcome]
    failed: list[Outcome]
    dead: list[bool]
    claim: Claim


class ListedLease(NamedTuple):
    """The lease of a running request, in the column order of the routine `list_leases`.

    Attributes:
        started_time: when its task began; None if it waits for a slot.
        left_seconds: the time until the lease ends; below 0 if it has run out.
    """

    queue_name: str
    request_id: int
    kind: str
    priority: int
    locked_by: str
    locked_time: datetime
    started_time: datetime | None
    lock_expires_time: datetime
    left_seconds: int
    num_attempts: int
    max_attempts: int
    cancel_requested: bool
