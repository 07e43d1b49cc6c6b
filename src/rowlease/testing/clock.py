"""Freezes and moves the clock of a test's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from rowlease.errors import ConfigError
from rowlease.store import Store
from rowlease.store.postgresql.scratch import set_clock
from rowlease.testing.where import Where, store_of


class Clock:
    """The clock of a database. Its time changes only when the test moves it.

    Attributes:
        now: the time of the clock, in UTC.
    """

    def __init__(self, store: Store, now: datetime) -> None:
        self._store = store
        self.now = now
        self.move_to(now)

    def move_to(self, time: datetime) -> None:
        """Set the clock to a later or an earlier time.

        Raises:
            ConfigError, AccessDenied: for the same reasons as in `frozen`.
        """
        if time.tzinfo is None:
            raise ConfigError(f"{time} has no time zone; write datetime(2026, 1, 1, tzinfo=UTC)")
        self.now = time.astimezone(UTC)
        set_clock(self._store, self.now)

    def advance(self, by: timedelta | None = None, **parts: float) -> None:
        """Move the clock forward by a timedelta, or by parts: `advance(hours=1, minutes=30)`."""
        self.move_to(self.now + (by or timedelta()) + timedelta(**parts))


@contextmanager
def frozen(where: Where, time: datetime | None = None) -> Iterator[Clock]:
    """Freeze the clock of a test's database, for all its sessions, until the end of the block.

    Scheduled requests become due, and leases run out, only when the test moves the clock. This does
    not affect a worker's pauses, which use the clock of its host.

    Args:
        where: an open Client, AsyncClient or Store.
        time: the time at which the clock is frozen; None means now.

    Raises:
        ConfigError: the database's name does not contain "test", the engine is not PostgreSQL, or
            the time has no time zone.
        AccessDenied: the user does not own the schema.
    """
    store = store_of(where)
    clock = Clock(store, datetime.now(UTC) if time is None else time)
    try:
        yield clock
    finally:
        set_clock(store, None)
