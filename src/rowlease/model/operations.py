"""Operations on the requests that match a filter."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rowlease.model.outcomes import Outcome


class Touched(NamedTuple):
    """What a step of an operation did to a request, or in a dry run would do.

    Attributes:
        outcome: `ok`; `cancel_requested` if it runs and is asked to stop; `duplicate` if a live
            request has its dedup key; `not_found` if its payload was not kept for a requeue, or its
            queue was deleted.
        new_request_id: the new request, if a finished one was requeued.
    """

    request_id: int
    outcome: Outcome
    new_request_id: int | None


class Step(NamedTuple):
    """A step of an operation.

    Attributes:
        operation_id: the operation, in the view `operations`; None in a dry run.
        after: where the next step goes on; None if nothing is left.
    """

    touched: list[Touched]
    operation_id: int | None
    after: int | None


class OperationState(NamedTuple):
    """What an operator has done, in the column order of the routine `list_operations`.

    Attributes:
        filter: the requests, or the queue, as JSON text.
        actor: who did it, as the caller says; None if the caller does not say.
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
