"""Operations on the requests that match a filter."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rowlease.model.outcomes import Outcome


class Touched(NamedTuple):
    """The effect of a step on a request. In a dry run, the effect that the step would have.

    Attributes:
        outcome: `ok`; `cancel_requested` if the request runs and its task is asked to stop;
            `duplicate` if a live request has the same dedup key; `not_found` if the payload was not
            kept for a requeue, or the queue was deleted.
        new_request_id: the id of the new request, if a finished request was requeued.
    """

    request_id: int
    outcome: Outcome
    new_request_id: int | None


class Step(NamedTuple):
    """A step of an operation.

    Attributes:
        operation_id: the operation, in the view `operations`; None in a dry run.
        after: the place at which the next step begins; None if nothing is left.
        num_requests: the number of requests that the operation has changed, in all its steps so
            far; None in a dry run.
    """

    touched: list[Touched]
    operation_id: int | None
    after: int | None
    num_requests: int | None


class OperationState(NamedTuple):
    """An operation in the log, in the column order of the routine `list_operations`.

    Attributes:
        filter: the requests, the queue, the schedule or the load, as JSON text.
        actor: the operator's name that the caller passed; None if the caller passed none.
        login: the database user of the session.
        status: `Open` if it can be resumed, else `Finished`.
    """

    operation_id: int
    verb: str
    filter: str
    arguments: str
    actor: str | None
    login: str
    client_address: str | None
    application: str
    started_time: datetime
    last_time: datetime
    num_requests: int
    status: str
