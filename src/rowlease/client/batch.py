"""A batch: requests that were enqueued under one id."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Any

from rowlease.client.batch_reads import BatchReads
from rowlease.client.call_threads import CallThreads
from rowlease.client.handle import Handle
from rowlease.counts import counted
from rowlease.errors import InvalidRequest
from rowlease.model import DURATION, BatchState, check_type
from rowlease.tasks.task import R, Task

#: The maximum number of requests in a page of results. Each has its payload, of up to 1 MiB.
RESULTS_PER_PAGE = 200


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, or one load. `Client.batch` and `Client.enqueue_batch` return it.

    The methods need the rights of rowlease_reader.

    Attributes:
        batch_id: the id of the batch; of a load, its load id.
    """

    batch_id: str
    _reads: BatchReads = field(compare=False, repr=False)
    _then: Handle[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def then(self) -> Handle[Any]:
        """The request that follows the batch.

        Raises:
            InvalidRequest: `enqueue_batch` did not return this batch, or had no `then`.
        """
        if self._then is None:
            raise InvalidRequest("only what `enqueue_batch(…, then=…)` returns knows what follows")
        return self._then

    def read(self) -> BatchState | None:
        """The counts of the batch; None if there is no such batch."""
        found = self._reads.store.list_batches(self.batch_id)
        return found[0] if found else None

    def results(self, task: Task[..., R]) -> Iterator[R]:
        """The results of the complete requests of this task, the newest request first.

        They are read in pages while you iterate. A call reads the history down to the oldest
        request of the batch. It needs no finished batch: requests that are complete are read.

        Raises:
            WrongArguments: a result does not fit the task's return annotation.
            StoreError: the database cannot be reached, or refuses access (AccessDenied).
        """
        for page in self.pages(task):
            yield from page

    def pages(self, task: Task[..., R]) -> Iterator[list[R]]:
        """The same as `results`, in pages."""
        found = self.read()
        left = found.num_complete if found else 0
        after: int | None = None
        while left > 0:
            page = self._reads.store.find_requests(
                limit=RESULTS_PER_PAGE, after=after, load_id=self.batch_id, status="Complete"
            )
            left -= len(page.requests)
            mine = [one for one in page.requests if one.kind == task.name]
            yield [task.parameters.result(one.result) for one in mine]
            if (after := page.after) is None:
                return

    def wait(self, timeout: timedelta | None = None) -> BatchState:
        """Wait until the batch is finished: none of its requests waits or runs.

        All waiting calls of a client together read their batches twice a second. If no worker is
        left that finishes the batch, the call does.

        Args:
            timeout: the longest time to wait; None means no limit.

        Raises:
            InvalidRequest: there is no such batch.
            TimeoutError: the batch was not finished within `timeout`.
            StoreError: the database cannot be reached, or refuses access (AccessDenied).
        """
        ends = _end_of(timeout)
        found = self._reads.read([self.batch_id])[self.batch_id]
        while left := self._left(found, ends, timeout):
            found = self._reads.next(self.batch_id, found, left)
        assert found is not None
        return found

    async def wait_in(self, threads: CallThreads, timeout: timedelta | None) -> BatchState:  # noqa: ASYNC109
        """The same as `wait`: calls are made in `threads`, pauses in the event loop."""
        ends = _end_of(timeout)
        found = (await threads.call(self._reads.read, [self.batch_id]))[self.batch_id]
        while left := self._left(found, ends, timeout):
            found = await self._reads.next_in(threads, self.batch_id, found, left)
        assert found is not None
        return found

    def _left(self, found: BatchState | None, ends: float, timeout: timedelta | None) -> float:
        """The seconds that are left to wait; 0 if the batch is finished."""
        if found is None:
            raise InvalidRequest(f'there is no batch "{self.batch_id}"; it may have been dropped')
        if found.finished_time is not None:
            return 0
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError(
                f'the batch "{self.batch_id}" is not finished after {timeout}: '
                f"{found.num_live:,} of {counted(found.num_requests, 'request')} left"
            )
        return left


def _end_of(timeout: timedelta | None) -> float:
    check_type("timeout", timeout, DURATION)
    return inf if timeout is None else time.monotonic() + timeout.total_seconds()
