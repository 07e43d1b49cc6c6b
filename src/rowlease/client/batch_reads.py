"""Reads the batches for which the callers of a client wait, all of them in one call."""

from __future__ import annotations

import time
from math import inf

from rowlease.client.call_threads import CallThreads
from rowlease.model import BatchState
from rowlease.store import Store
from rowlease.store.notice import Notices

#: The pause in seconds between two reads. `maintain` finishes batches about once a second.
READ_SECONDS = 0.5
#: The maximum number of looks per second by all waiting callers of a client. If many wait, each
#: looks less often, and those whose batch has ended are woken by the one who reads.
LOOKS_A_SECOND = 200


class BatchReads:
    """The reads of all waiting callers of a client: together about two a second.

    Each caller looks now and then whether a read is due. The first that finds so reads the batches
    of all, and wakes those whose batch has ended.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting = Notices()
        #: When the last read began, by `time.monotonic`.
        self._began = -inf
        #: When the last read that has ended began, and what it found.
        self._found: tuple[float, dict[str, BatchState | None]] = (-inf, {})

    def read(self, batch_ids: list[str]) -> dict[str, BatchState | None]:
        """The batches with these ids. Those whose last request has ended are finished first."""
        found = self._found_now(batch_ids)
        ended = [
            one.batch_id
            for one in found.values()
            if one and not one.num_live and one.finished_time is None
        ]
        finished = [batch_id for batch_id in ended if self.store.finish_batches(batch_id)]
        return {**found, **self._found_now(finished)} if finished else found

    def next(self, batch_id: str, known: BatchState | None, seconds: float) -> BatchState | None:
        """Wait until the batch may have been read again, at most `seconds`.

        Args:
            known: what the caller has read. It is returned if nobody has read the batch since.
        """
        since = time.monotonic()
        with self._waiting.expecting(batch_id) as is_over:
            is_over.wait(self._pause(seconds))
            if (began := self._due()) is not None:
                self._read_all(began)
        return self._found_since(since, batch_id, known)

    async def next_in(
        self, threads: CallThreads, batch_id: str, known: BatchState | None, seconds: float
    ) -> BatchState | None:
        """The same as `next`: calls are made in `threads`, pauses in the event loop."""
        since = time.monotonic()
        with self._waiting.expecting(batch_id) as is_over:
            await is_over.wait_in_loop(self._pause(seconds))
            if (began := self._due()) is not None:
                await threads.call(self._read_all, began)
        return self._found_since(since, batch_id, known)

    def _pause(self, seconds: float) -> float:
        return min(seconds, max(READ_SECONDS, len(self._waiting) / LOOKS_A_SECOND))

    def _due(self) -> float | None:
        """The time, if this caller is to read for all now; else None."""
        now = time.monotonic()
        if now - self._began < READ_SECONDS:
            return None
        self._began = now
        return now

    def _found_since(
        self, since: float, batch_id: str, known: BatchState | None
    ) -> BatchState | None:
        began, found = self._found
        return found.get(batch_id, known) if began >= since else known

    def _read_all(self, began: float) -> None:
        found = self.read(self._waiting.keys)
        self._found = began, found
        self._waiting.set(
            batch_id
            for batch_id, one in found.items()
            if one is None or one.finished_time is not None
        )

    def _found_now(self, batch_ids: list[str]) -> dict[str, BatchState | None]:
        found = {one.batch_id: one for one in self.store.list_batches(*batch_ids)}
        return {batch_id: found.get(batch_id) for batch_id in batch_ids}
