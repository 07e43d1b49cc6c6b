"""The operations on queues, for `client.queues` and `rowlease queue`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, Unpack

from rowlease.backoff import Backoff
from rowlease.client.operations import Requests
from rowlease.declared_queues import Queue, QueueSettings, check_settings
from rowlease.errors import InvalidRequest
from rowlease.model import Depth, Outcome, QueueState
from rowlease.store import Store

#: The statuses of requests that may be purged before a queue is deleted.
PURGED = ("Scheduled", "Pending", "Failed")


class QueueInfo(NamedTuple):
    """A queue: the numbers of its requests, and its settings.

    Attributes:
        num_finished: the number of requests completed so far. It never decreases.
        num_failures: the number of failed attempts so far.
        oldest: the longest time that a waiting request has been due; None if no request waits.
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
    """A changed setting of a queue, or a created queue. In a dry run the change is not made.

    Attributes:
        setting: the name of the setting; None if the queue is created.
        was: the value before the change.
        now: the value after the change.
    """

    queue_name: str
    setting: str | None
    was: Any
    now: Any

    def __str__(self) -> str:
        if self.setting is None:
            return f"queue {self.queue_name}: created"
        was, now = format_setting(self.was), format_setting(self.now)
        return f"queue {self.queue_name}: {self.setting} {was} -> {now}"


#: In the class `Queues`, `list` is a method, so annotations there need other names for list types.
Changes: TypeAlias = list[Change]
Infos: TypeAlias = list[QueueInfo]


def format_setting(value: Any) -> str:
    """A value in the syntax of the command line."""
    words = {None: "none", True: "true", False: "false"}
    plain = value is None or isinstance(value, bool)
    return words[value] if plain else str(value).replace(" ", "")


def parse_setting(text: str) -> Any:
    """A value from the syntax of the command line: `none`, `20`, `true`, `[1,2]` or text."""
    if text == "none":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


class Queues:
    """The queues of a database.

    Several threads may use one object. `list` and `show` need the role `rowlease_reader`; all other
    methods need `rowlease_operator`. If two programs change the same setting at the same time, the
    later change wins. `actor` is the operator's name, for the audit.

    Raises:
        InvalidRequest: there is no such queue, or a setting is out of range.
        StoreError: the database refused or failed a call.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self, name: str, *, actor: str | None = None, **settings: Unpack[QueueSettings]
    ) -> Outcome:
        """Create a queue. Returns `ok`, or `repeat` if the queue exists with these settings.

        Raises:
            InvalidRequest: the queue exists with other settings.
        """
        wanted = check_settings(name, settings)
        if name not in self._names():
            self._store.configure_queue(name, actor=actor, **wanted)
            return Outcome.OK
        if changes := self._changes(name, wanted):
            first = changes[0]
            raise InvalidRequest(
                f"queue {name!r} exists, and its {first.setting} is {format_setting(first.was)}; "
                f"to change it, use `rowlease queue set {name}`"
            )
        return Outcome.REPEAT

    def set(
        self,
        name: str,
        *,
        dry_run: bool = False,
        actor: str | None = None,
        **settings: Unpack[QueueSettings],
    ) -> Changes:
        """Change settings of a queue. Returns only the settings whose values differ."""
        changes = self._changes(name, check_settings(name, settings))
        if changes and not dry_run:
            self._store.configure_queue(name, actor=actor, **settings)
        return changes

    def list(self) -> Infos:
        """All queues, sorted by name."""
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

    def pause(self, name: str, *, actor: str | None = None) -> None:
        """Stop claims from a queue. Its running requests and its producers continue."""
        self._store.pause(name, actor=actor)

    def resume(self, name: str, *, actor: str | None = None) -> None:
        """Allow claims from a paused queue again."""
        self._store.resume(name, actor=actor)

    def drain(
        self, name: str, timeout: timedelta | None = None, *, actor: str | None = None
    ) -> int:
        """Pause a queue, and wait until none of its requests runs.

        The queue stays paused, with its waiting requests, until `resume`.

        Args:
            timeout: the longest time to wait. None means until the last running request has ended
                or its lease has run out.

        Returns:
            The number of requests that still run: 0 unless the timeout was reached.
        """
        self._store.pause(name, actor=actor)
        ends = None if timeout is None else time.monotonic() + timeout.total_seconds()
        pauses = Backoff(0.05, 1.0)
        while running := sum(row.processing for row in self._store.depth(name)):
            left = math.inf if ends is None else ends - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(next(pauses), left))
        return running

    def delete(
        self,
        name: str,
        *,
        purge: bool = False,
        dry_run: bool = False,
        actor: str | None = None,
    ) -> int:
        """Delete a queue that has no requests, live workers, schedules or staged loads.

        The history of the queue stays until it expires.

        Args:
            purge: delete the waiting requests and dead letters of the queue, too.
            dry_run: delete nothing; only check and count.

        Returns:
            The number of requests that were deleted, or would be deleted without `dry_run`.

        Raises:
            InvalidRequest: the queue is still in use. The message gives the reason.
        """
        self._store.delete_queue(name, purge=purge, dry_run=True)
        if dry_run:
            counts = self.show(name)
            return counts.scheduled + counts.pending + counts.failed if purge else 0
        purged = 0
        if purge:
            done = Requests(self._store).purge(queue=name, status=PURGED, actor=actor)
            purged = done.num_requests
        # Requests may have arrived. `delete_queue` purges these, and blocks further enqueues.
        return purged + self._store.delete_queue(name, purge=purge, actor=actor)

    def apply(
        self, queues: Iterable[Queue], *, dry_run: bool = False, actor: str | None = None
    ) -> Changes:
        """Create missing queues, and change the settings of existing queues as declared.

        Returns:
            The changes; empty if the database already agrees with the declarations.
        """
        changes: Changes = []
        names = self._names()
        for queue in queues:
            if queue not in names:
                found = [Change(str(queue), None, None, None)]
            else:
                found = self._changes(str(queue), queue.settings)
            if found and not dry_run:
                self._store.configure_queue(queue, actor=actor, **queue.settings)
            changes += found
        return changes

    def create_missing(self, queues: Iterable[Queue], *, actor: str | None = None) -> Changes:
        """Create missing queues. Other queues are not changed.

        Returns:
            The created queues, and the settings of the other queues that differ from their
            declaration.
        """
        queues = list(queues)
        changes = self.apply(queues, dry_run=True)
        missing = {change.queue_name for change in changes if change.setting is None}
        self.apply((queue for queue in queues if queue in missing), actor=actor)
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
