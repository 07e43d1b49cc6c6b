"""Changes the requests that match a filter, for `client.requests` and the command line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, Unpack, cast

from rowlease.backoff import Backoff
from rowlease.errors import InvalidRequest, RowleaseError, StoreError
from rowlease.filters.filter import Filter, in_utc
from rowlease.filters.language import combine_filters
from rowlease.model import Outcome, Step, Touched, check_type
from rowlease.store import Store

#: The maximum number of requests that a report lists.
MAX_LISTED_REQUESTS = 20
#: The maximum number of steps of a dry run. A step looks at up to 10,000 requests of each table.
MAX_DRY_STEPS = 1000
#: The number of times that a step is tried again after a transient error.
MAX_STEP_RETRIES = 4
#: The outcomes of requests that were changed.
CHANGED = (Outcome.OK, Outcome.CANCEL_REQUESTED)


class Operation(NamedTuple):
    """The result of an operation so far. In a dry run, the result that it would have.

    Attributes:
        operation_id: the operation in the view `operations`; None in a dry run.
        num_requests: the number of requests that were changed, also before a `resume`.
        outcomes: the number of requests by outcome, of this call.
        first: the first 20 requests of this call.
        more: true if more requests may follow: the operation continues, or the dry run ended early.
    """

    operation_id: int | None
    num_requests: int
    outcomes: dict[Outcome, int]
    first: list[Touched]
    more: bool


#: Called after each step.
Progress = Callable[[Operation], object]


class Operate(Filter, total=False):
    """The filters of `Filter`, and the options of an operation.

    Keys:
        dry_run: change nothing; only count, and list the first requests.
        actor: the operator's name, for the audit. The database adds its own user and the client's
            address.
        progress: a function that is called after each step with the operation so far.
    """

    dry_run: bool
    actor: str | None
    progress: Progress | None


class Requests:
    """Changes the requests that match a filter.

    Several threads may use one object. It needs the role `rowlease_operator`. The arguments are
    those of `Client.find`: a text, typed filters, or both. A filter must name more than statuses.

    An operation has steps. Each step is a transaction that changes up to 1,000 requests. A request
    that no longer matches when it is locked is left alone. The view `operations` shows who did
    what, when, from where, and to how many requests. A step is tried again for some seconds if the
    connection is lost. `resume` continues an interrupted operation.

    Raises:
        InvalidRequest: the filter or an argument is wrong.
        StoreError: the database refused or failed a step. The steps before it are done. Pass the
            error's `operation_id` to `resume`; it is None if no step is done.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def cancel(
        self, text: str | None = None, /, *, kill: bool = False, **given: Unpack[Operate]
    ) -> Operation:
        """Cancel waiting requests, and ask running ones to stop (see `Handle.cancel`).

        Dead letters are cancelled only if the filter names their status or their ids.

        Args:
            kill: whether to leave running tasks no time.
        """
        return self._operate("cancel", {"kill": True} if kill else {}, text, given)

    def requeue(self, text: str | None = None, /, **given: Unpack[Operate]) -> Operation:
        """Make dead letters wait again.

        If the filter names the status or the ids of finished requests, these are enqueued again as
        new requests. Each call enqueues them once more. The table `requeued` has both ids.
        """
        return self._operate("requeue", {}, text, given)

    def reprioritise(
        self, text: str | None = None, /, *, priority: int, **given: Unpack[Operate]
    ) -> Operation:
        """Change the priority of waiting and running requests.

        Dead letters are changed only if the filter names their status or their ids.

        Args:
            priority: 0 or more. Values above the maximum of a request's queue are lowered to it.
        """
        check_type("priority", priority, ((int,), "it must be a whole number of 0 or more"))
        return self._operate("reprioritise", {"priority": priority}, text, given)

    def reschedule(
        self,
        text: str | None = None,
        /,
        *,
        delay: timedelta | None = None,
        due_time: datetime | None = None,
        **given: Unpack[Operate],
    ) -> Operation:
        """Change the due time of waiting requests. Without an argument, they are due now.

        Requests that wait for a batch are changed only if the filter names their ids.

        Args:
            delay: the time from now.
            due_time: the time, with a time zone.
        """
        arguments: dict[str, Any] = {}
        if delay is not None and due_time is not None:
            raise InvalidRequest("give delay or due_time, not both")
        if delay is not None:
            arguments["delay_ms"] = max(0, round(delay / timedelta(milliseconds=1)))
        if due_time is not None:
            arguments["due_time"] = in_utc("due_time", due_time)
        return self._operate("reschedule", arguments, text, given)

    def break_leases(self, text: str | None = None, /, **given: Unpack[Operate]) -> Operation:
        """End the leases of running requests.

        A request then waits again. It becomes a dead letter if it has no attempts left, and it is
        cancelled if it was asked to stop.

        The filter `worker:ID` selects all requests of a worker. The worker loses the lease: its
        outcome is refused, and its task is asked to stop. The attempt counts if the task had
        started. It does not count as a crash.
        """
        return self._operate("break", {}, text, given)

    def purge(self, text: str | None = None, /, **given: Unpack[Operate]) -> Operation:
        """Delete dead letters.

        Waiting and finished requests are deleted, too, if the filter names their status or ids.
        """
        return self._operate("purge", {}, text, given)

    def resume(
        self, verb: str, operation_id: int, *, progress: Progress | None = None
    ) -> Operation:
        """Continue an operation that was interrupted.

        Args:
            verb: the verb of the operation, one of `rowlease.model.VERBS`.
        """
        return run_steps(steps(self._store, verb, {}, operation_id=operation_id), progress)

    def _operate(
        self, verb: str, arguments: dict[str, Any], text: str | None, given: Operate
    ) -> Operation:
        filters = cast("dict[str, Any]", dict(given))
        dry_run = filters.pop("dry_run", False)
        progress = filters.pop("progress", None)
        actor = filters.pop("actor", None)
        chosen = combine_filters(text, cast("Filter", filters))
        made = steps(self._store, verb, chosen, arguments, actor=actor, dry_run=dry_run)
        return run_steps(islice(made, MAX_DRY_STEPS) if dry_run else made, progress)


def steps(
    store: Store,
    verb: str,
    filters: Filter,
    arguments: dict[str, Any] | None = None,
    *,
    actor: str | None = None,
    operation_id: int | None = None,
    dry_run: bool = False,
) -> Iterator[Step]:
    """The steps of an operation, one by one, until nothing is left.

    A step is tried again after a transient error. The first step is not if it may have begun the
    operation, because another try would begin a second one.

    Args:
        operation_id: the operation to continue.
    """
    after = None
    pauses = islice(Backoff(0.2, 2.0), MAX_STEP_RETRIES)
    while True:
        try:
            step = store.operate(
                verb,
                arguments=arguments,
                actor=actor,
                dry_run=dry_run,
                after=after,
                operation_id=operation_id,
                **filters,
            )
        except RowleaseError as error:
            if isinstance(error, StoreError) and error.transient:
                is_safe = dry_run or operation_id is not None or not error.maybe_done
                seconds = next(pauses, None) if is_safe else None
                if seconds is not None:
                    time.sleep(seconds)
                    continue
            if operation_id is not None:
                error.operation_id = operation_id
                error.add_note(f"continue with client.requests.resume({verb!r}, {operation_id})")
            raise
        yield step
        if step.after is None:
            return
        pauses = islice(Backoff(0.2, 2.0), MAX_STEP_RETRIES)
        # The database keeps the place of an operation, but not that of a dry run.
        operation_id, after = step.operation_id, step.after if dry_run else None


def run_steps(
    steps: Iterator[Step],
    progress: Progress | None = None,
    is_over: Callable[[Operation], bool] = lambda _: False,
) -> Operation:
    """Run the steps, until `is_over` says true or none is left, and return what they did."""
    done = Operation(None, 0, {}, [], False)
    for step in steps:
        outcomes = dict(done.outcomes)
        for one in step.touched:
            outcomes[one.outcome] = outcomes.get(one.outcome, 0) + 1
        done = Operation(
            step.operation_id,
            sum(outcomes.get(outcome, 0) for outcome in CHANGED)
            if step.num_requests is None
            else step.num_requests,
            outcomes,
            [*done.first, *step.touched][:MAX_LISTED_REQUESTS],
            step.after is not None,
        )
        if progress:
            progress(done)
        if is_over(done):
            break
    return done
