"""The tasks of the fault runner, and a worker that writes down what it was answered."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psycopg

from rowlease import current, task
from rowlease.errors import StoreConflict, StoreUnavailable
from rowlease.events import Abandoned, Claimed, Event, Events, Failed, Finished, LeaseLostEvent
from rowlease.worker import Worker
from tests.stress.history import Report, Told
from tests.stress.witness import EFFECT

#: The database, for tasks; their processes inherit it.
DSN = "ROWLEASE_FAULTS_DSN"
LEASE = timedelta(seconds=1)
#: What a task of the user may lock before it completes its request.
LOCK = "select pg_advisory_xact_lock(1, %s)"
SLOTS = 3
#: Seconds that tasks take, for their numbers in turn: most faults meet some that run.
TIMES = (0.0, 0.02, 0.05, 0.1, 0.3)
VERBS: dict[type[Event], str] = {Finished: "complete", Abandoned: "abandon"}


def take_time(n: int) -> None:
    time.sleep(TIMES[n % len(TIMES)])


@task
def pay(n: int) -> None:
    """An effect, and the outcome in its transaction."""
    attempt = current()
    with psycopg.connect(
        os.environ[DSN], connect_timeout=5, application_name="rowlease task"
    ) as own:
        own.execute(LOCK, [attempt.request_id])
        own.execute(EFFECT, (attempt.request_id, attempt.lock_token))
        take_time(n)
        attempt.complete(own, {"n": n})


@task
def answer(n: int) -> dict[str, int]:
    take_time(n)
    return {"n": n}


@task
def stumble(n: int) -> dict[str, int]:
    if current().attempt == 1:
        raise RuntimeError("the first attempt fails")
    return {"n": n}


TOLD = (Claimed, Finished, Failed, Abandoned, LeaseLostEvent)


def told(event: Event, worker: str, server: int = 0) -> list[Told | Report]:
    """What a worker was answered."""
    match event:
        case Claimed(requests=requests):
            return [Told(one.request_id, one.lock_token, worker) for one in requests]
        case LeaseLostEvent(request=request, outcome=outcome):
            # Whether to a renewal or to an outcome.
            lease = request.request_id, request.lock_token
            return [Report(*lease, "renew", outcome.value, worker, server)]
        case Finished(request=request) | Failed(request=request) | Abandoned(request=request):
            dead = isinstance(event, Failed) and event.dead
            verb = VERBS.get(type(event), "give up" if dead else "fail")
            lease = request.request_id, request.lock_token
            return [Report(*lease, verb, "accepted", worker, server)]
    return []


def work(dsn: str, ledger: Path, executor: str) -> None:
    """Be a worker until a signal comes; each answer is a line of the ledger."""
    # Until it takes signals itself; one may come before.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.environ[DSN] = dsn
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    events = Events()
    worker = Worker(dsn, __name__, concurrency=SLOTS, executor=executor, lease=LEASE, events=events)

    def note(event: Event) -> None:
        noted = told(event, worker.worker_id)
        lines = "".join(f"{json.dumps([type(one).__name__, *one])}\n" for one in noted)
        os.write(file, lines.encode())

    events.subscribe(note, *TOLD)
    while True:  # as a supervisor does if its worker cannot start: no database, or a cancel
        with suppress(StoreUnavailable, StoreConflict):
            worker.run()
            return
