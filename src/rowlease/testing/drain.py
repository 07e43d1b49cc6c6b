"""Runs pending requests in this process and thread, so that a test sees the results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from rowlease.client import Client
from rowlease.clock import now
from rowlease.context import Context, running
from rowlease.errors import DeadLetter, Retry, RowleaseError, UnknownTask
from rowlease.events import Events
from rowlease.model import Failure, LeasedRequest, Outcome
from rowlease.store import Store
from rowlease.task_loading import Tasks, registry_of
from rowlease.tasks import Registry
from rowlease.worker.attempt import failed
from rowlease.worker.schedules import Schedules

WORKER = "rowlease.testing"
#: Longer than any test runs.
LEASE = timedelta(days=1)


class Ran(NamedTuple):
    """A request that was run.

    Attributes:
        request: the leased request.
        result: the task's result as its annotation says; None if it failed.
        error: the exception that it raised, if any.
        outcome: `ok`; `repeat` if the task has completed the request on a connection of its own;
            else the lease was lost.
    """

    request: LeasedRequest
    result: Any
    error: BaseException | None
    outcome: Outcome

    @property
    def kind(self) -> str:
        """The task's name."""
        return self.request.kind


class _Inline:
    """The executor link of a task that a test runs: it is never asked to stop."""

    def is_asked_to_stop(self, number: int) -> bool:
        return False

    def report_progress(self, number: int, fraction: float, note: str) -> None:
        """Progress is not stored."""

    def lease_ends(self, number: int) -> float | None:
        return None


def drain(
    where: Client | Store,
    tasks: Tasks,
    *,
    queues: Sequence[str] | None = None,
    reraise: bool = True,
    schedules: bool = False,
    limit: int = 1000,
) -> list[Ran]:
    """Run requests one after the other in this thread, until none is pending.

    The real routines lease, complete and fail them. Requests that a task enqueues are run, too. A
    failed one is retried when it is due, so only after the test has moved the clock. Time limits
    do not apply. A worker on the same queues would claim some of the requests.

    Args:
        tasks: as for a Worker.
        queues: None takes every queue that is not empty.
        reraise: raise a task's exception (other than Retry and DeadLetter) after the attempt is
            recorded; else it is in the returned value.
        schedules: first enqueue the due firings of schedules and of the tasks' own `cron`.
        limit: the largest number of requests to run.

    Returns:
        The requests that were run, in order.

    Raises:
        UnknownTask: a request is for none of the tasks, and `reraise` is true.
        RowleaseError: more than `limit` requests were pending.
        Whatever a task raises, if `reraise` is true.
    """
    store = where.store if isinstance(where, Client) else where
    known = registry_of(tasks)
    if schedules:
        Schedules(store, WORKER, known, Events()).step()
    done: list[Ran] = []
    while leased := _next(store, queues):
        if len(done) >= limit:
            store.abandon([leased])
            raise RowleaseError(
                f"{limit} requests were run, and more are pending; a task may enqueue itself for "
                "ever, else raise `limit`"
            )
        ran = _run(store, known, leased)
        done.append(ran)
        is_signal = isinstance(ran.error, Retry | DeadLetter)
        if ran.error and not is_signal and (reraise or not isinstance(ran.error, Exception)):
            raise ran.error
    return done


def _next(store: Store, queues: Sequence[str] | None) -> LeasedRequest | None:
    while True:
        names = sorted({row.queue_name for row in store.depth()}) if queues is None else queues
        if not names:
            return None
        claim = store.dequeue(WORKER, names, 1, lease=LEASE)
        if claim.requests:
            return claim.requests[0]
        if not claim.more:
            return None


def _run(store: Store, tasks: Registry, leased: LeasedRequest) -> Ran:
    task = tasks.get(leased.kind)
    if task is None:
        unknown = UnknownTask(tasks.unknown(leased.kind))
        return Ran(leased, None, unknown, _fail(store, leased, Failure(str(unknown))))
    context = Context.of(leased, 1, now() + LEASE.total_seconds(), _Inline())
    token = running.set(context)
    try:
        result = task.run(leased.payload)
    except BaseException as error:
        return Ran(leased, None, error, _fail(store, leased, failed(task, error)))
    finally:
        running.reset(token)
    (outcome,) = store.complete([leased], [result])
    return Ran(leased, task.parameters.result(result), None, outcome)


def _fail(store: Store, leased: LeasedRequest, failure: Failure) -> Outcome:
    (outcome,) = store.fail([leased], [failure])
    return outcome
