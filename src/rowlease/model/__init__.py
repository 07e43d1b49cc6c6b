"""The arguments and results of a store's methods. They are immutable and do no I/O."""

from __future__ import annotations

from rowlease.model.findings import (
    Advanced,
    Explanation,
    Finding,
    Maintained,
    Metric,
    WorkerState,
)
from rowlease.model.leases import Claim, Exchanged, Failure, Held, Lease, LeasedRequest, Renewal
from rowlease.model.loads import BatchState, Begun, LoadState, Promoted
from rowlease.model.operations import OperationState, Step, Touched
from rowlease.model.outcomes import Outcome
from rowlease.model.queues import Corrected, DeadLetterGroup, Depth, NextRequest, QueueState, Waits
from rowlease.model.requests import (
    DUE_RANGE,
    DUE_TIMES,
    DURATION,
    FIELDS,
    MAX_HEADERS_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_PRIORITY,
    TEXT,
    Attempt,
    Enqueued,
    Found,
    NewRequest,
    Request,
    TypeRule,
    check_type,
    short_repr,
)
from rowlease.model.schedules import DueSchedule, Fired, Schedule, ScheduleClaim

__all__ = [
    "DUE_RANGE",
    "DUE_TIMES",
    "DURATION",
    "FIELDS",
    "MAX_HEADERS_BYTES",
    "MAX_PAYLOAD_BYTES",
    "MAX_PRIORITY",
    "TEXT",
    "Advanced",
    "Attempt",
    "BatchState",
    "Begun",
    "Claim",
    "Corrected",
    "DeadLetterGroup",
    "Depth",
    "DueSchedule",
    "Enqueued",
    "Exchanged",
    "Explanation",
    "Failure",
    "Finding",
    "Fired",
    "Found",
    "Held",
    "Lease",
    "LeasedRequest",
    "LoadState",
    "Maintained",
    "Metric",
    "NewRequest",
    "NextRequest",
    "OperationState",
    "Outcome",
    "Promoted",
    "QueueState",
    "Renewal",
    "Request",
    "Schedule",
    "ScheduleClaim",
    "Step",
    "Touched",
    "TypeRule",
    "Waits",
    "WorkerState",
    "check_type",
    "short_repr",
]
