"""The checks of locks, waits and plans that `rowlease engines verify` makes on SQL Server."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from rowlease.errors import RowleaseError
from rowlease.model import LeasedRequest, NewRequest
from rowlease.store import LockObserver, Store
from rowlease.store.observing import Plans, WaitCounts
from rowlease.verify.checks import Broken, Trial, expect, staged

#: Rows of the load whose locks are counted.
NUM_ROWS = 5_000
#: The longest time of a call that does not wait for another transaction.
NO_WAIT_TIMEOUT = timedelta(seconds=5)
#: The locks that a session may hold on a whole table, and on a page.
INTENTS = {"OBJECT": {"IS", "IX", "Sch-S"}, "PAGE": {"IS", "IX", "IU"}}
#: Kinds of locks that are on more than a row, or on a row of a table without a key.
WIDE = {"HOBT", "RID", "EXTENT"}
#: Seconds of a statement that takes longer than it takes to connect, and of a short limit.
LONG, SHORT = 12, 2
#: Requests that have passed through the queue when it is old, and how much longer a claim may take.
AGED, SLOWER = 3_000, 5


class LockTrial(Trial):
    """A trial on a server whose locks can be seen.

    Attributes:
        began: the waits that the server had counted when the trial began.
    """

    observer: LockObserver

    def __init__(self, store: Store, observer: LockObserver, num_requests: int) -> None:
        super().__init__(store, observer, num_requests)
        self.began: WaitCounts | None = None
        with suppress(Exception):  # `waits` reports that the server does not tell
            self.began = observer.waits()


def locks_of_a_claim(trial: LockTrial) -> str:
    """A claim locks rows only, and a second claim does not wait for it."""
    trial.put(400)
    with trial.observer.transaction() as connection:
        ids = _claimed(trial, connection, 100)
        held = _row_locks_only(trial, connection)
        other, took = _claim_meanwhile(trial, 100)
    others = {each.request_id for each in other}
    expect(not others & set(ids) and len(others) == len(ids) == 100, "two claims met")
    return f"a claim of 100 holds {held}; another claim of 100 took {1000 * took:.0f} ms meanwhile"


def locks_of_outcomes(trial: LockTrial) -> str:
    """An enqueue, and reports of each kind, lock rows only."""
    trial.put(5, group_key="g")
    trial.put(4)
    claimed = trial.claim(5)
    with trial.observer.transaction() as connection:
        for each, routine, given in (
            (claimed[0], "complete", {}),
            (claimed[1], "fail", {"p_errors": ["x"], "p_dead": [False]}),
            (claimed[2], "snooze", {"p_delays_ms": [1000]}),
            (claimed[3], "abandon", {}),
            (claimed[4], "renew", {}),
        ):
            trial.observer.call(
                connection, routine, p_request_ids=[each.request_id],
                p_lock_tokens=[each.lock_token], **given,
            )  # fmt: skip
        trial.observer.call(
            connection, "enqueue_many", p_queue_name=trial.queue, p_kinds=["a", "a"],
            p_dedup_keys=["k", "l"], p_group_keys=["g", None],
        )  # fmt: skip
        held = _row_locks_only(trial, connection)
    return f"five reports and an enqueue hold {held}"


def locks_of_a_promote(trial: LockTrial) -> str:
    load_id, run = staged(trial, NUM_ROWS)
    try:
        with trial.observer.transaction() as connection:
            trial.observer.call(
                connection, "promote",
                p_load_id=load_id, p_run_number=run, p_expected_rows=NUM_ROWS, p_num_clamped=0,
            )  # fmt: skip
            held = _row_locks_only(trial, connection)
            took = _claim_meanwhile(trial, 10)[1]
    finally:  # the queue of a staged load cannot be deleted
        trial.store.promote(load_id, run, NUM_ROWS)
    return f"a load of {NUM_ROWS} rows holds {held}; a claim took {1000 * took:.0f} ms meanwhile"


def open_producer(trial: LockTrial) -> str:
    """A producer's open transaction stops no claim and no completion, also not of its group."""
    trial.put(1, group_key="g")
    (running,) = trial.claim(1)
    with trial.observer.transaction() as connection:
        trial.store.enqueue_many(
            trial.queue, [NewRequest(kind="verify", group_key="g")], connection=connection
        )
        later = trial.put(1, group_key="g") + trial.put(10)
        found, blocked = _claim_meanwhile(trial, 20)
        began = time.perf_counter()
        try:
            trial.store.within(NO_WAIT_TIMEOUT).complete([running])
        except RowleaseError as error:
            raise Broken(f"a completion waited for an open producer: {error}") from error
        completed = time.perf_counter() - began
        rest, freed = _claim_meanwhile(trial, 20)
    claimed = {each.request_id for each in [*found, *rest]}
    expect(claimed == set(later), f"of {len(later)} requests {len(claimed)} were claimed")
    times = ", ".join(f"{1000 * took:.0f} ms" for took in (blocked, completed, freed))
    return f"beside an open producer of a group: claim, completion, claim took {times}"


def long_call(trial: LockTrial) -> str:
    """The driver waits as long as the limit of a call, and no longer."""
    try:
        trial.observer.wait(LONG, limit=3 * LONG)
    except TimeoutError as error:
        raise Broken(f"a statement of {LONG} s was cancelled: {error}") from error
    began = time.perf_counter()
    with suppress(TimeoutError):
        trial.observer.wait(LONG, limit=SHORT)
        raise Broken(f"a statement of {LONG} s was not cancelled after {SHORT} s")
    took = time.perf_counter() - began
    expect(took < LONG, f"a statement with a limit of {SHORT} s took {took:.0f} s")
    return f"a statement of {LONG} s ended; one with a limit of {SHORT} s was cancelled"


def aged_queue(trial: LockTrial) -> str:
    """A claim from a queue through which many requests have passed takes as long as from a new one.

    An open snapshot keeps the server from removing what they left in the indexes.
    """
    trial.put(200)
    before = _time_of_claims(trial)
    trial.empty()
    with trial.observer.transaction() as connection:
        are_kept = trial.observer.keep_versions(connection)
        for _ in range(0, AGED, 500):
            trial.put(500)
            while claimed := trial.claim(500):
                trial.store.complete(claimed)
                trial.held.clear()
        trial.put(200)
        after = _time_of_claims(trial)
    expect(
        after < SLOWER * before + 0.02,
        f"a claim of 10 took {1000 * before:.1f} ms, and {1000 * after:.1f} ms after {AGED}",
    )
    beside = "beside" if are_kept else "without"
    return (
        f"a claim took {1000 * before:.1f} ms, and {1000 * after:.1f} ms after {AGED} requests "
        f"{beside} an open snapshot"
    )


def compilation(trial: LockTrial) -> str:
    """The server makes a plan for each public routine; error 8622 says that it cannot."""
    found = trial.observer.compiled()
    expect(not found.refused, "; ".join(found.refused))
    return _no_scans(found)


def plans(trial: LockTrial) -> str:
    """Check the plan cache. Call this after the other checks, which fill the cache."""
    return _no_scans(trial.observer.plans())


def _no_scans(found: Plans) -> str:
    scans = ", ".join(
        f"{each.routine} scans {each.table}.{each.index_name}" for each in found.scans
    )
    expect(not scans, scans)
    expect(found.num_statements > 0, "the server shows no plan of our routines")
    return f"{found.num_statements} statements of {found.num_routines} routines scan no large table"


def escalation(trial: LockTrial) -> str:
    count = trial.observer.num_escalations()
    expect(count == 0, f"{count} times, locks became a lock on a whole table")
    return "no lock became a lock on a whole table"


def waits(trial: LockTrial) -> str:
    """Nobody else uses a test database's server, so what it has counted is from these checks."""
    now, began = trial.observer.waits(), trial.began
    if began is None:
        raise Broken("the server did not tell at the start how many deadlocks it had counted")
    deadlocks = now.deadlocks - began.deadlocks
    timeouts = now.lock_timeouts - began.lock_timeouts
    expect(
        deadlocks == timeouts == 0,
        f"{deadlocks} deadlocks (1205) and {timeouts} locks that were waited for in vain (1222)",
    )
    return "no deadlock, and no lock was waited for in vain"


#: The checks of locks, waits and plans. They need the permission VIEW SERVER STATE, and
#: `compilation` needs SHOWPLAN.
LOCK_CHECKS = (
    locks_of_a_claim, locks_of_outcomes, locks_of_a_promote, open_producer, long_call, aged_queue,
    compilation, plans, escalation, waits,
)  # fmt: skip


def _claimed(trial: LockTrial, connection: Any, limit: int) -> list[int]:
    rows = trial.observer.call(
        connection, "dequeue", p_worker_id="first", p_queue_names=[trial.queue], p_limit=limit
    )
    return [row[0] for row in rows if row[0] is not None]


def _claim_meanwhile(trial: LockTrial, limit: int) -> tuple[list[LeasedRequest], float]:
    """Claim while another transaction is open; returns the requests, and the seconds."""
    began = time.perf_counter()
    try:
        found = trial.store.within(NO_WAIT_TIMEOUT).dequeue("second", [trial.queue], limit).requests
    except RowleaseError as error:
        raise Broken(f"a claim waited for another transaction: {error}") from error
    trial.held += found
    return found, time.perf_counter() - began


def _time_of_claims(trial: LockTrial) -> float:
    times = []
    for _ in range(20):
        began = time.perf_counter()
        trial.claim(10)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _row_locks_only(trial: LockTrial, connection: Any) -> str:
    held = trial.observer.locks(connection)
    wide = [
        each for each in held
        if each.kind in WIDE or each.mode.startswith("Range")
        or each.mode not in INTENTS.get(each.kind, {each.mode})
    ]  # fmt: skip
    expect(not wide, f"it holds {wide}")
    expect(any(each.kind == "KEY" for each in held), "the server shows no lock of a row")
    return ", ".join(f"{e.num_locks} {e.mode} on {e.kind} {e.table}".strip() for e in held)
