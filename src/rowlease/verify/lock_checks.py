"""The checks of locks and plans that `rowlease engines verify` makes on SQL Server."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from rowlease.errors import RowleaseError
from rowlease.store import LockObserver
from rowlease.verify.checks import Broken, Trial, expect, staged

#: Rows of the load whose locks are counted.
LOADED = 5_000
#: The longest time of a claim that does not wait for another transaction.
PATIENCE = timedelta(seconds=5)
#: The locks that a session may hold on a whole table: intent locks, and schema stability.
INTENTS = {"IS", "IX", "Sch-S"}


class LockTrial(Trial):
    """A trial on a server whose locks can be seen."""

    observer: LockObserver


def locks_of_a_claim(trial: LockTrial) -> str:
    """A claim locks rows only, and a second claim does not wait for it."""
    trial.put(400)
    with trial.observer.transaction() as connection:
        ids = trial.observer.claim(connection, "first", trial.queue, 100)
        held = _row_locks_only(trial, connection)
        began = time.perf_counter()
        try:
            other = trial.store.within(PATIENCE).dequeue("second", [trial.queue], 100).requests
        except RowleaseError as error:
            raise Broken(f"a second claim waited for the first: {error}") from error
        took = time.perf_counter() - began
    trial.held += other
    others = {each.request_id for each in other}
    expect(not others & set(ids) and len(others) == len(ids) == 100, "two claims met")
    return f"a claim of 100 holds {held}; another claim of 100 took {1000 * took:.0f} ms meanwhile"


def locks_of_a_promote(trial: LockTrial) -> str:
    load_id, run = staged(trial, LOADED)
    try:
        with trial.observer.transaction() as connection:
            trial.observer.promote(connection, load_id, run, LOADED)
            held = _row_locks_only(trial, connection)
    finally:  # the queue of a staged load cannot be deleted
        trial.store.promote(load_id, run, LOADED)
    return f"a load of {LOADED} rows holds {held}"


def plans(trial: LockTrial) -> str:
    """Check the plan cache. Call this after the other checks, which fill the cache."""
    found = trial.observer.plans()
    scans = ", ".join(
        f"{each.routine} scans {each.table}.{each.index_name}" for each in found.scans
    )
    expect(not scans, scans)
    expect(found.num_statements > 0, "the plan cache shows no plan of our routines")
    return f"{found.num_statements} statements of {found.num_routines} routines scan no large table"


def escalation(trial: LockTrial) -> str:
    count = trial.observer.num_escalations()
    expect(count == 0, f"{count} times, locks became a lock on a whole table")
    return "no lock became a lock on a whole table"


#: The checks of locks and plans. They need the permission VIEW SERVER STATE.
LOCK_CHECKS = (locks_of_a_claim, locks_of_a_promote, plans, escalation)


def _row_locks_only(trial: LockTrial, connection: Any) -> str:
    held = trial.observer.locks(connection)
    wide = [
        each for each in held
        if each.kind == "PAGE" or (each.kind == "OBJECT" and each.mode not in INTENTS)
    ]  # fmt: skip
    expect(not any(each.mode == "X" for each in wide), f"it holds {wide}")
    return (
        ", ".join(f"{e.num_locks} {e.mode} on {e.kind} {e.table}".strip() for e in held)
        or "no locks"
    )
