"""The checks: each is a function that returns its observation, or raises Broken."""

from __future__ import annotations

import json
import random
import secrets
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

from rowlease.errors import QueueFull, RowleaseError
from rowlease.model import Begun, Failure, LeasedRequest, NewRequest, Outcome
from rowlease.store import Observer, Store

#: Sessions that claim at the same time.
NUM_SESSIONS = 8
#: The number of requests in a claim of the measured runs, and the bytes of a payload.
BATCH, PAYLOAD = 10, 100
#: The statuses of requests that a check may leave behind, besides leased requests.
LEFTOVER_STATUSES = ("Scheduled", "Pending", "Failed")


class Broken(Exception):
    """A promise does not hold. The message is a sentence of the report."""


class Trial:
    """The queue of the checks. Each check finds it empty."""

    def __init__(self, store: Store, observer: Observer, num_requests: int) -> None:
        self.store, self.observer, self.num_requests = store, observer, num_requests
        self.queue = f"rowlease-verify-{secrets.token_hex(4)}"
        self.held: list[LeasedRequest] = []

    def put(self, count: int, **columns: Any) -> list[int]:
        request = NewRequest(kind="verify", **columns)
        found = self.store.enqueue_many(self.queue, [request] * count)
        return [each.request_id for each in found if each.request_id is not None]

    def claim(self, limit: int, worker: str = "one", **options: Any) -> list[LeasedRequest]:
        claimed = self.store.dequeue(worker, [self.queue], limit, **options).requests
        self.held += claimed
        return claimed

    def num_waiting(self) -> int:
        return sum(each.scheduled + each.pending for each in self.store.depth(self.queue))

    def empty(self) -> None:
        self.store.complete(self.held)
        self.held.clear()
        step = self.store.operate("purge", queue=self.queue, status=LEFTOVER_STATUSES)
        while step.after is not None:
            step = self.store.operate("purge", operation_id=step.operation_id)


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def one_owner(trial: Trial) -> str:
    payload = json.dumps({"x": "x" * (PAYLOAD - 9)})
    for _ in range(0, trial.num_requests, 500):
        trial.put(min(500, trial.num_requests), payload=payload)
    total = trial.num_waiting()
    seen: list[int] = []
    times: list[float] = []

    def work(number: int) -> None:
        while True:
            began = time.perf_counter()
            claim = trial.store.dequeue(f"w{number}", [trial.queue], BATCH)
            times.append(time.perf_counter() - began)
            seen.extend(each.request_id for each in claim.requests)
            if claim.requests:
                outcomes = set(trial.store.complete(claim.requests))
                expect(outcomes == {Outcome.OK}, f"a completion answered {outcomes}")
            elif not claim.more:
                return

    began = time.perf_counter()
    with ThreadPoolExecutor(NUM_SESSIONS) as pool:
        for done in [pool.submit(work, number) for number in range(NUM_SESSIONS)]:
            done.result()
    took = time.perf_counter() - began
    expect(len(seen) == len(set(seen)), f"{len(seen) - len(set(seen))} requests had two owners")
    expect(len(seen) == total, f"{total - len(seen)} of {total} requests were not claimed")
    slow = statistics.quantiles(times, n=100)[98]
    return (
        f"{total} requests, {NUM_SESSIONS} sessions, claims of {BATCH}: "
        f"{total / took:.0f} requests/s; "
        f"a claim took {1000 * statistics.median(times):.1f} ms (median), "
        f"{1000 * slow:.1f} ms (99 %)"
    )


def order(trial: Trial) -> str:
    priorities = [random.randrange(10) for _ in range(60)]
    for priority in priorities:
        trial.put(1, priority=priority)
    claimed = [(-each.priority, each.request_id) for each in trial.claim(60)]
    expect(claimed == sorted(claimed) and len(claimed) == 60, f"claimed in the order {claimed}")
    return "60 requests of random priorities, highest first, then by age"


def fencing(trial: Trial) -> str:
    trial.put(1)
    (old,) = trial.claim(1, "late", lease=timedelta(milliseconds=100))
    time.sleep(0.3)
    (new,) = trial.claim(1, "next")
    expect(new.lock_token > old.lock_token, "the lock token did not grow")
    outcome = trial.store.complete([old])
    expect(outcome == [Outcome.LEASE_LOST], f"the late completion answered {outcome}")
    expect(trial.store.complete([new]) == [Outcome.OK], "the valid lease was refused")
    return "a lease that ran out was broken, and its worker changed nothing"


def dead_letters(trial: Trial) -> str:
    (request_id,) = trial.put(1)
    trial.store.fail(trial.claim(1), [Failure("verify", dead=True)])
    expect(trial.claim(1) == [], "a dead letter was claimed")
    trial.store.operate("requeue", ids=[request_id])
    expect(
        [each.request_id for each in trial.claim(1)] == [request_id], "requeue did not revive it"
    )
    return "a dead letter is not claimed until it is requeued"


def dedup(trial: Trial) -> str:
    with ThreadPoolExecutor(NUM_SESSIONS) as pool:
        found = list(pool.map(lambda _: trial.put(1, dedup_key="verify"), range(4 * NUM_SESSIONS)))
    expect(trial.num_waiting() == 1, f"{trial.num_waiting()} requests have one dedup key")
    expect(len({ids[0] for ids in found}) == 1, "the calls answered with different ids")
    return f"{4 * NUM_SESSIONS} calls at once with one dedup key made one request"


def groups(trial: Trial) -> str:
    for _ in range(20):
        for group in "abcd":
            trial.put(1, group_key=group)
    first = trial.claim(80)
    names = sorted(str(each.group_key) for each in first)
    expect(names == list("abcd"), f"two requests of a group ran at once: {names}")
    expect(trial.claim(80, "two") == [], "a second request of a group ran beside the first")
    trial.store.abandon(first)
    running, lock, seen = set[str](), threading.Lock(), list[tuple[str, int]]()
    ends = time.monotonic() + 60

    def work(number: int) -> None:
        while time.monotonic() < ends and len(seen) < 80:
            claimed = trial.claim(3, f"w{number}")
            with lock:
                names = {str(each.group_key) for each in claimed}
                expect(not names & running, "two requests of a group ran at once")
                running.update(names)
                seen.extend((str(each.group_key), each.request_id) for each in claimed)
            for each in claimed:
                with lock:
                    running.discard(str(each.group_key))
                trial.store.complete([each])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result()
    expect(len(seen) == 80, f"{80 - len(seen)} of 80 requests were not claimed within a minute")
    for group in "abcd":
        ids = [request_id for name, request_id in seen if name == group]
        expect(ids == sorted(ids), f"group {group} ran in the order {ids}")
    return "4 sessions claimed 4 groups of 20: one request at a time in a group, and in order"


def capacity(trial: Trial) -> str:
    trial.store.configure_queue(trial.queue, capacity=10)
    try:
        trial.put(10)
        with suppress(QueueFull):
            trial.put(1)
            raise Broken("an eleventh request fit into 10 places")
    finally:
        trial.store.configure_queue(trial.queue, capacity=None)
    return "the eleventh request of a queue with 10 places was refused"


def callers_transaction(trial: Trial) -> str:
    request = [NewRequest(kind="verify")]
    with trial.observer.transaction() as connection:
        trial.store.enqueue_many(trial.queue, request, connection=connection)
        connection.rollback()
    expect(trial.num_waiting() == 0, "a transaction that was rolled back left its request")
    with trial.observer.transaction() as connection:
        trial.store.enqueue_many(trial.queue, request, connection=connection)
        with suppress(RowleaseError):
            trial.store.enqueue_many(f"{trial.queue} unknown", request, connection=connection)
        with suppress(Exception):  # the driver's: the connection is closed
            connection.commit()
    expect(trial.num_waiting() == 0, "half of a transaction was committed after an error")
    with trial.observer.transaction() as connection:
        trial.store.enqueue_many(trial.queue, request, connection=connection)
        connection.commit()
    expect(trial.num_waiting() == 1, "the request of a committed transaction is missing")
    return "of three transactions (rolled back, failed, committed) only the last left a request"


def loads(trial: Trial) -> str:
    load_id, run = staged(trial, 500)
    counts = trial.store.promote(load_id, run, 500)
    expect(counts.num_enqueued == trial.num_waiting() == 500, f"promote answered {counts}")
    again = trial.store.promote(load_id, run, 500)
    expect(again.outcome == Outcome.REPEAT, f"the second promote answered {again}")
    return "a load of 500 rows became 500 requests, once"


def cleaned_up(trial: Trial) -> str:
    trial.store.delete_queue(trial.queue)  # each check leaves it empty
    return "the queue of these checks is deleted"


CHECKS = (
    one_owner, order, fencing, dead_letters, dedup, groups, capacity, callers_transaction, loads,
)  # fmt: skip


def staged(trial: Trial, num_rows: int) -> tuple[str, int]:
    """Stage a load; returns its id and the number of its run."""
    load_id = f"verify-{secrets.token_hex(4)}"
    begun = trial.store.begin_load(load_id, trial.queue, "verify")
    assert isinstance(begun, Begun)
    trial.observer.stage(begun.run_number, num_rows)
    return load_id, begun.run_number
