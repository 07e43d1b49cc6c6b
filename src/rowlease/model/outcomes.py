"""The outcome of a call for one request."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a call for one request. Outcomes are expected, so they are not exceptions."""

    OK = "ok"
    #: An earlier call had the same token, receipt or load id. This call did nothing.
    REPEAT = "repeat"
    #: The lease was broken, so another worker may own the request.
    LEASE_LOST = "lease_lost"
    NOT_FOUND = "not_found"
    #: A live request already has the dedup key. Its id is returned, and nothing was enqueued.
    DUPLICATE = "duplicate"
    #: The queue is full. The id is the producer's place in line.
    FULL = "full"
    #: The request is running, and its task is asked to stop.
    CANCEL_REQUESTED = "cancel_requested"
    #: The request waits for a batch. `reschedule` takes such a request only by its id.
    WAITS = "waits"
    #: Another transaction is finishing the request at this moment.
    BUSY = "busy"
