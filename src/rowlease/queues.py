"""The verbs for queues: `client.queues` and `rowlease queue`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, Unpack

from rowlease.errors import InvalidRequest
from rowlease.model import Depth, Outcome, QueueState
from rowlease.queue_settings import Queue, QueueSettings, checked
from rowlease.store import Store

#: What may be purged before a queue is deleted.
PURGED = ("Scheduled", "Pending", "Failed")
#: The first and the longest pause between two looks at what still runs, in seconds.
FIRST_LOOK, LAST_LOOK = 0.05, 1.0


class QueueInfo(NamedTuple):
    """A queue: what is in it, and its settings.

    Attributes:
        num_finished: requests completed so far; it never decreases.
        num_failures: attempts that failed so far.
        oldest: how long the request that was due first has waited; None if nothing waits.
    """

    queue_name: str
    paused: bool
    scheduled: int
    pending: int
    processing: int
    failed: int
    num_finished: int
    num_failures: int
    oldest: timedelta | None
    settings: QueueSettings


class Change(NamedTuple):
    """A setting of a queue that was changed, or, in a dry run, would be.

    Attributes:
        setting: None: the queue is new.
    """

    queue_name: str
    setting: str | None
    was: Any
    now: Any

    def __str__(self) -> str:
        if self.setting is None:
            return f"queue {self.queue_name}: created"
        return f"queue {self.queue_name}: {self.setting} {shown(self.was)} -> {shown(self.now)}"


#: `list` is a verb below.
Changes: TypeAlias = list[Change]
Infos: TypeAlias = list[QueueInfo]


def shown(value: Any) -> str:
    """A value as the command line takes it."""
    words = {None: "none", True: "true", False: "false"}
    plain = value is None or isinstance(value, bool)
    return words[value] if plain else str(value).replace(" ", "")


class Queues:
    """The queues of a database.

    Safe to use from several threads. Looking takes the role `rowlease_reader`, everything else
    `rowlease_operator`. A verb that compares and then changes makes two calls: of two programs
    that change the same setting at the same time, the later one wins.

    Raises:
        InvalidRequest: there is no such queue, or a setting is out of range.
        StoreError: as every call of a store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, name: str, **settings: Unpack[QueueSettings]) -> Outcome:
        """Create a queue: `ok`, or `repeat` if there is one with these settings.

        Raises:
            InvalidRequest: there is one with other settings.
        """
        wanted = checked(name, settings)
        if name not in self._names():
            self._store.configure_queue(name, **wanted)
            return Outcome.OK
        if changes := self._changes(name, wanted):
            raise InvalidRequest(
                f"queue {name!r} exists, and its {changes[0].setting} is {shown(changes[0].was)}; "
                f"`rowlease queue set {name}` changes it"
            )
        return Outcome.REPEAT

    def set(
        self, name: str, *, dry_run: bool = False, **settings: Unpack[QueueSettings]
    ) -> Changes:
        """Change the settings that are given; the changes that this makes."""
        changes = self._changes(name, checked(name, settings))
        if changes and not dry_run:
            self._store.configure_queue(name, **settings)
        return changes

    def list(self) -> Infos:
        """Every queue, by name."""
        depth = self._store.depth()
        return [self._info(state, depth) for state in self._store.list_queues()]

    def show(self, name: str) -> QueueInfo:
        """One queue."""
        state = next((s for s in self._store.list_queues() if s.queue_name == name), None)
        if state is None:
            raise InvalidRequest(
                f'queue "{name}" does not exist; create it with `rowlease queue create {name}`'
            )
        return self._info(state, self._store.depth(name))

    def pause(self, name: str) -> None:
        """Stop claims from a queue; running requests and producers continue."""
        self._store.pause(name)

    def resume(self, name: str) -> None:
        """Allow claims from a paused queue again."""
        self._store.resume(name)

    def drain(self, name: str, timeout: timedelta | None = None) -> int:
        """Pause a queue, and wait until nothing of it runs.

        Waiting requests stay, and the queue stays paused, until `resume`.

        Args:
            timeout: how long to wait; None: until the last request has ended, or its lease ran out.

        Returns:
            How many requests still run: 0, unless the time was over.
        """
        self._store.pause(name)
        ends = None if timeout is None else time.monotonic() + timeout.total_seconds()
        pause = FIRST_LOOK
        while running := sum(row.processing for row in self._store.depth(name)):
            left = LAST_LOOK if ends is None else ends - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(LAST_LOOK, 2 * pause)
        return running

    def delete(self, name: str, *, purge: bool = False, dry_run: bool = False) -> int:
        """Delete a queue without requests, live workers, schedules and staged loads.

        Its history stays until it expires.

        Args:
            purge: delete its waiting requests and dead letters, too, instead of refusing.

        Returns:
            How many requests were deleted with it, or would be.
        """
        self._store.delete_queue(name, purge=purge, dry_run=True)
        if dry_run:
            counts = self.show(name)
            return counts.scheduled + counts.pending + counts.failed if purge else 0
        purged = 0
        # A few remain for the call that deletes the queue, during which none can come.
        while purge and (count := self._store.purge(name, PURGED)):
            purged += count
        return purged + self._store.delete_queue(name, purge=purge)

    def apply(self, queues: Iterable[Queue], *, dry_run: bool = False) -> Changes:
        """Create queues that are missing, and set what their declarations say.

        Returns:
            The changes that this makes; none if the database is as declared.
        """
        changes: Changes = []
        names = self._names()
        for queue in queues:
            if queue not in names:
                found = [Change(str(queue), None, None, None)]
            else:
                found = self._changes(str(queue), queue.settings)
            if found and not dry_run:
                self._store.configure_queue(queue, **queue.settings)
            changes += found
        return changes

    def create_missing(self, queues: Iterable[Queue]) -> Changes:
        """Create queues that are missing; return those, and how the others differ."""
        queues = list(queues)
        changes = self.apply(queues, dry_run=True)
        missing = {change.queue_name for change in changes if change.setting is None}
        self.apply(queue for queue in queues if queue in missing)
        return changes

    def _names(self) -> frozenset[str]:
        return frozenset(state.queue_name for state in self._store.list_queues())

    def _changes(self, name: str, wanted: QueueSettings) -> Changes:
        found = self._store.show_queue(name)
        return [
            Change(name, setting, found[setting], value)
            for setting, value in wanted.items()
            if found[setting] != value
        ]

    def _info(self, state: QueueState, depth: Iterable[Depth]) -> QueueInfo:
        name, paused, *totals, oldest = state
        rows = [row[2:] for row in depth if row.queue_name == name]
        counts = [sum(column) for column in zip(*rows, strict=True)] or [0, 0, 0, 0]
        found = self._store.show_queue(name)
        settings = {setting: found[setting] for setting in QueueSettings.__annotations__}
        return QueueInfo._make((name, paused, *counts, *totals, oldest, settings))
