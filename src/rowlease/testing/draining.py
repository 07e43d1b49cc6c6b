"""Runs pending requests in the thread of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from rowlease.client.steps import Steps, call, run, run_in
from rowlease.clock import now
from rowlease.context import Context, running
from rowlease.counts import counted
from rowlease.errors import DeadLetter, Retry, RowleaseError, Snooze, UnknownTask
from rowlease.events import Events
from rowlease.middleware import around_run
from rowlease.model import Failure, LeasedRequest, Outcome
from rowlease.store import Store
from rowlease.tasks.loading import Tasks, registry_of
from rowlease.tasks.task import Registry, Task
from rowlease.testing.where import Where, store_of
from rowlease.worker.attempt import SnoozeAsked, failed
from rowlease.worker.schedules import Schedules

WORKER = "rowlease.testing"
#: The duration of a lease, which is longer than any test.
LEASE_DURATION = timedelta(days=1)


class Ran(NamedTuple):
    """A request that was run.

    Attributes:
        request: the leased request.
        result: the task's result, converted to its return annotation; None if the task failed.
        error: the exception that the task raised, or None.
        outcome: `ok` if the result or the failure was recorded; `repeat` if the task itself has
            completed the request; or `lease_lost`.
    """

    request: LeasedRequest
    result: Any
    error: BaseException | None
    outcome: Outcome

    @property
    def kind(self) -> str:
        """The name of the task."""
        return self.request.kind


class _Inline:
    """The executor link of a task that a test runs. The task is never asked to stop."""

    def is_asked_to_stop(self, number: int) -> bool:
        return False

    def report_progress(self, number: int, fraction: float, note: str) -> None:
        """Ignore the report."""

    def lease_ends(self, number: int) -> float | None:
        return None


def drain(
    where: Where,
    tasks: Tasks,
    *,
    queues: Sequence[str] | None = None,
    reraise: bool = True,
    schedules: bool = False,
    limit: int = 1000,
) -> list[Ran]:
    """Run requests one after the other in this thread, until none is pending.

    The routines of the database lease, complete and fail the requests. Requests that a task
    enqueues are run, too. A failed request is due again after its back-off, so it is retried only
    if the test moves the clock. Time limits do not apply. While this call runs, no worker may use
    the same queues, because the worker would claim some of the requests.

    Args:
        where: an open Client, AsyncClient or Store.
        tasks: the tasks, in the same forms as for a Worker.
        queues: the names of the queues; None means all queues that are not empty.
        reraise: true to record a failed attempt and then raise the task's exception, unless it is
            Retry, Snooze or DeadLetter. If false, exceptions are only in the returned list.
        schedules: true to begin with the schedules: those that `tasks` declare are created or
            updated, and the due firings of all schedules for these tasks are enqueued.
        limit: the maximum number of requests to run.

    Returns:
        The requests that were run, in order.

    Raises:
        UnknownTask: no task has the kind of a request, and `reraise` is true.
        RowleaseError: more than `limit` requests were pending.
        Exception: any exception of a task, if `reraise` is true.
    """
    return run(_steps(where, tasks, Task.run, queues, reraise, schedules, limit))


async def drain_async(
    where: Where,
    tasks: Tasks,
    *,
    queues: Sequence[str] | None = None,
    reraise: bool = True,
    schedules: bool = False,
    limit: int = 1000,
) -> list[Ran]:
    """The same as `drain`, but coroutines run in the running event loop."""
    steps = _steps(where, tasks, Task.run_coroutine, queues, reraise, schedules, limit)
    return await run_in(None, steps)


def _steps(
    where: Where,
    tasks: Tasks,
    execute: Callable[[Task[..., Any], str], Any],
    queues: Sequence[str] | None,
    reraise: bool,
    schedules: bool,
    limit: int,
) -> Steps[list[Ran]]:
    store = store_of(where)
    known = registry_of(tasks)
    if schedules:
        Schedules(store, WORKER, known, Events()).step()
    done: list[Ran] = []
    while leased := _next(store, queues):
        if len(done) >= limit:
            store.abandon([leased])
            raise RowleaseError(
                f"the limit of {counted(limit, 'request')} is reached, and more are pending; check "
                "that no task enqueues itself for ever, or raise `limit`"
            )
        ran = yield from _run(store, known, leased, execute)
        done.append(ran)
        is_signal = isinstance(ran.error, Retry | Snooze | DeadLetter)
        if ran.error and not is_signal and (reraise or not isinstance(ran.error, Exception)):
            raise ran.error
    return done


def _next(store: Store, queues: Sequence[str] | None) -> LeasedRequest | None:
    while True:
        names = sorted({row.queue_name for row in store.depth()}) if queues is None else queues
        if not names:
            return None
        claim = store.dequeue(WORKER, names, 1, lease=LEASE_DURATION)
        if claim.requests:
            return claim.requests[0]
        if not claim.more and all(step.what != "batches finished" for step in store.maintain()):
            return None


def _run(
    store: Store,
    tasks: Registry,
    leased: LeasedRequest,
    execute: Callable[[Task[..., Any], str], Any],
) -> Steps[Ran]:
    task = tasks.get(leased.kind)
    if task is None:
        unknown = UnknownTask(tasks.unknown(leased.kind))
        return Ran(leased, None, unknown, _fail(store, leased, Failure(str(unknown))))
    context = Context.of(leased, 1, now() + LEASE_DURATION.total_seconds(), _Inline())
    token = running.set(context)
    try:
        with around_run(task, context):
            result = yield from call(partial(execute, task, leased.payload))
    except BaseException as error:
        return Ran(leased, None, error, _fail(store, leased, failed(task, error)))
    finally:
        running.reset(token)
    (outcome,) = store.complete([leased], [result])
    return Ran(leased, task.parameters.result(result), None, outcome)


def _fail(store: Store, leased: LeasedRequest, failure: Failure | SnoozeAsked) -> Outcome:
    if isinstance(failure, SnoozeAsked):
        (outcome,) = store.snooze([leased], [failure.after], [failure.reason])
    else:
        (outcome,) = store.fail([leased], [failure])
    return outcome
