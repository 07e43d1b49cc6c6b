"""Runs pending requests in the thread of a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from rowlease.clock import now
from rowlease.context import Context, running
from rowlease.counts import counted
from rowlease.errors import DeadLetter, Retry, RowleaseError, Snooze, UnknownTask
from rowlease.events import Events
from rowlease.lifespans import Shared
from rowlease.middleware import around_run
from rowlease.model import Failure, LeasedRequest, Outcome
from rowlease.tasks.chains import successor_of
from rowlease.tasks.loading import Tasks, registry_of
from rowlease.tasks.task import Task, runner
from rowlease.testing.where import Where, store_of
from rowlease.worker.attempt import NOT_COMMITTED, SnoozeAsked, failed
from rowlease.worker.calls import ascii_only, is_caused_by_data
from rowlease.worker.claims.before_start import has_expired, with_results
from rowlease.worker.claims.queues import queues_of
from rowlease.worker.housekeeping import Schedules

WORKER = "rowlease.testing"
#: The duration of a lease, which is longer than any test.
LEASE_DURATION = timedelta(days=1)


class Ran(NamedTuple):
    """A request that was run.

    Attributes:
        request: the leased request.
        result: the result of the request, converted to the task's return annotation: what the task
            returned, or what it gave to `current().complete`. None if the task failed.
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

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

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
    draining = _Draining(where, tasks, queues, reraise, schedules, limit)
    with draining.shared.entered(lambda: runner().get_loop()):
        for task, leased in draining.leases():
            with draining.attempt(task, leased) as results:
                results.append(task.run(leased.payload))
    return draining.done


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
    draining = _Draining(where, tasks, queues, reraise, schedules, limit)
    async with draining.shared.entered_here():
        for task, leased in draining.leases():
            with draining.attempt(task, leased) as results:
                results.append(await task.run_coroutine(leased.payload))
    return draining.done


class _Draining:
    """What `drain` and `drain_async` have in common: all but the run of a task."""

    def __init__(
        self,
        where: Where,
        tasks: Tasks,
        queues: Sequence[str] | None,
        reraise: bool,
        schedules: bool,
        limit: int,
    ) -> None:
        self.done: list[Ran] = []
        self._store = store_of(where)
        self.shared = Shared(self._store.dsn)
        self._tasks = registry_of(tasks)
        self._queues = queues
        self._reraise = reraise
        self._limit = limit
        served = queues_of(self._tasks) if queues is None else queues
        self._store.set_dead_letter_tasks(list(served), self._tasks.dead_letter_tasks())
        if schedules:
            Schedules(self._store, WORKER, self._tasks, Events()).step()

    def leases(self) -> Iterator[tuple[Task[..., Any], LeasedRequest]]:
        """Lease the requests whose task is known. Those of unknown kinds fail."""
        while leased := self._next():
            if len(self.done) >= self._limit:
                self._store.abandon([leased])
                raise RowleaseError(
                    f"the limit of {counted(self._limit, 'request')} is reached, and more are "
                    "pending; check that no task enqueues itself for ever, or raise `limit`"
                )
            if has_expired(leased):
                self._store.expire([leased])
                continue
            task = self._tasks.get(leased.kind)
            if task is None:
                unknown = UnknownTask(self._tasks.unknown(leased.kind))
                self._fail(leased, unknown, Failure(str(unknown)))
                continue
            try:
                filled = with_results(self._store, leased)
            except DeadLetter as error:
                self._fail(leased, error, failed(task, error))
            else:
                yield task, filled

    @contextmanager
    def attempt(self, task: Task[..., Any], leased: LeasedRequest) -> Iterator[list[str | None]]:
        """Record an attempt, whose result the block appends to the list."""
        context = Context(leased, 1, now() + LEASE_DURATION.total_seconds(), _Inline(self.shared))
        token = running.set(context)
        results: list[str | None] = []
        try:
            with around_run(task, context):
                yield results
        except BaseException as error:
            self._fail(leased, error, failed(task, error))
            return
        finally:
            running.reset(token)
        if context.has_reported:
            self._confirm(task, leased)
        else:
            self._return(task, leased, results[0])

    def _confirm(self, task: Task[..., Any], leased: LeasedRequest) -> None:
        """Record an attempt whose task has called `complete` or `snooze` itself."""
        (outcome,) = self._store.fail([leased], [NOT_COMMITTED])
        if outcome is Outcome.REPEAT:
            found = self._store.get_request(leased.request_id)
            result = task.parameters.result(found.result if found else None)
            self.done.append(Ran(leased, result, None, outcome))
        else:
            self._note_failed(leased, RowleaseError(NOT_COMMITTED.error), outcome)

    def _return(self, task: Task[..., Any], leased: LeasedRequest, result: str | None) -> None:
        try:
            outcome = self._complete(leased, result)
        except Exception as error:
            if not is_caused_by_data(error):
                raise
            self._fail(leased, error, Failure(ascii_only(str(error))))
        else:
            self.done.append(Ran(leased, task.parameters.result(result), None, outcome))

    def _complete(self, leased: LeasedRequest, result: str | None) -> Outcome:
        successor = successor_of(leased.payload, leased.headers, result)
        if successor is not None:
            return self._store.complete_and_enqueue(leased, result, *successor)
        (outcome,) = self._store.complete([leased], [result])
        return outcome

    def _next(self) -> LeasedRequest | None:
        while True:
            names = self._queues
            if names is None:
                names = sorted({row.queue_name for row in self._store.depth()})
            if not names:
                return None
            claim = self._store.dequeue(WORKER, names, 1, lease=LEASE_DURATION)
            if claim.requests:
                return claim.requests[0]
            if not claim.more and all(
                step.what != "batches finished" for step in self._store.maintain()
            ):
                return None

    def _fail(
        self, leased: LeasedRequest, error: BaseException, failure: Failure | SnoozeAsked
    ) -> None:
        if isinstance(failure, SnoozeAsked):
            (outcome,) = self._store.snooze([leased], [failure.after], [failure.reason])
        else:
            (outcome,) = self._store.fail([leased], [failure])
        self._note_failed(leased, error, outcome)

    def _note_failed(self, leased: LeasedRequest, error: BaseException, outcome: Outcome) -> None:
        self.done.append(Ran(leased, None, error, outcome))
        is_signal = isinstance(error, Retry | Snooze | DeadLetter)
        if not is_signal and (self._reraise or not isinstance(error, Exception)):
            raise error
