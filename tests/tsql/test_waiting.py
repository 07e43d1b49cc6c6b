"""Who waits for an open producer, by the model of locks: no call of a worker, for no time."""

from __future__ import annotations

from functools import cache

import pytest

from tests.tsql import scriptdom
from tests.tsql.locks import (
    FILES,
    OWN,
    Meeting,
    Open,
    Row,
    called_by,
    meetings,
    refused,
    without_hint,
    written_by,
)

pytestmark = pytest.mark.skipif(
    scriptdom.missing() is not None, reason=scriptdom.missing() or "it is there"
)

#: What a worker calls while it works.
CALLS = (
    "dequeue", "exchange", "complete", "fail", "abandon", "snooze", "decline", "disown", "renew",
    "report_progress",
)  # fmt: skip
NEW: Row = {"requestid": OWN}
LOADED: Row = {"runnumber": OWN}
#: Producers of the worker's queue and groups, and a load of the queue that is being promoted.
PRODUCER = Open(
    ("enqueue", "enqueue_many", "inbox", "begin_load", "load_inbox", "end_part", "report_load",
     "promote"),
    frozenset({"fold_depth"}),  # not in a transaction of the caller
    {
        "queue": [
            NEW | {"status": "Pending", "groupblocked": 0},
            NEW | {"status": "Pending", "groupblocked": 1},
            NEW | {"status": "Scheduled", "groupblocked": 0, "returned": 0},
        ],
        "load": [LOADED | {"loadid": OWN}],
        "lane": [LOADED], "lanepart": [LOADED],
        "queuedepth": [{}], "batch": [{}], "batchwait": [NEW], "enqueuereceipt": [{}],
        "stream": [{}], "queuewaiter": [{}],
    },
)  # fmt: skip
#: One step of housekeeping. A request whose lease it breaks is no worker's, and the requests whose
#: history and progress it removes have ended.
MAINTAIN = Open(
    ("maintain",),
    frozenset(),
    {
        "queue": [NEW], "queuehistory": [NEW], "progress": [NEW], "batchwait": [NEW],
        "lane": [{}], "lanepart": [{}], "load": [{}], "queuedepth": [{}],
        "attempt": [{}], "worker": [{}], "ratestart": [{}], "batch": [{}], "operation": [{}],
        "requeued": [{}], "cancellation": [{}], "enqueuereceipt": [{}], "queueday": [{}],
        "queuewaiter": [{}], "maintainfailure": [{}],
    },
)  # fmt: skip
#: For what a call waits while a step of maintain lasts, and when: docs/sqlserver.md says so.
FOR_A_STEP = {
    ("dequeue_queue_carefully", "worker"): "consumer priorities, while dead workers are removed",
    ("note_starts", "ratestart"): "a rate, while its old starts are removed",
    ("room_in_rate", "ratestart"): "a rate, while its old starts are removed",
    ("snooze", "attempt"): "while old attempts of the request are removed",
    ("trim_attempts", "attempt"): "while old attempts of the request are removed",
    ("bring_in", "load"): "while the last used-up part of the load leaves the lane",
    ("lease_from_lane", "load"): "while the last used-up part of the load leaves the lane",
}  # fmt: skip
#: The same for application locks: counts, of a queue with a limit in flight; groups.
LOCKS_FOR_A_STEP = {"depth", "g"}


@cache
def met(other: str) -> list[Meeting]:
    """What the calls of a worker meet of an open transaction."""
    transaction = {"producer": PRODUCER, "maintain": MAINTAIN}[other]
    return [
        one
        for name in sorted(called_by(*CALLS))
        for one in meetings(FILES[name], transaction, name)
    ]


@pytest.mark.parametrize("other", [PRODUCER, MAINTAIN], ids=("producer", "maintain"))
def test_the_transaction_has_rows_in_each_table_that_its_routines_write(other: Open) -> None:
    assert written_by(other) <= set(other.rows)


def test_a_worker_waits_for_no_open_producer() -> None:
    assert sum(one.waits_ms for one in met("producer")) == 0
    assert len(met("producer")) == 20, "docs/sqlserver.md says so"
    assert {one.table for one in met("producer")} == {"queue", "load", "queuedepth"}


@pytest.mark.parametrize("call", CALLS)
def test_a_worker_waits_for_no_lock_of_an_open_producer(call: str) -> None:
    assert refused(call, PRODUCER) == set()


def test_each_look_that_meets_a_producer_would_wait_without_its_hint() -> None:
    for one in met("producer"):
        text = without_hint(FILES[one.routine], one.reference)
        waits = [other.waits_ms for other in meetings(text, PRODUCER, one.routine)]
        assert sorted(waits)[-1] == 10_000, (one.routine, one.table, one.reference.line)


def test_a_worker_waits_for_a_step_of_maintain_where_it_is_said_alone() -> None:
    waits = {(one.routine, one.table) for one in met("maintain") if one.waits_ms}
    assert waits == set(FOR_A_STEP)
    assert {kind for call in CALLS for kind in refused(call, MAINTAIN)} == LOCKS_FOR_A_STEP


def test_a_producer_in_a_transaction_folds_no_counts() -> None:
    """Who folds them holds their lock, for which claims of a queue with a limit wait."""
    said = "if @p_in_transaction = 0 and rand() < 0.005\n  exec rowlease_internal.fold_depth"
    assert said in FILES["enqueue_many"]
    assert "@p_in_transaction bit = 1" in FILES["enqueue_many"]
