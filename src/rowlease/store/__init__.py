"""The only package that knows a database.

`open_store` returns a `Store`. Its methods take and return the values of `rowlease.model`. Their
files have the names of the folders in sql/. What differs between the engines is in
`engine_of(dsn)`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta

from rowlease.errors import StoreConflict
from rowlease.store import deadlines
from rowlease.store.bulk import BulkStore
from rowlease.store.calls import Notifications
from rowlease.store.differences import Difference
from rowlease.store.dsn import mask_passwords, place_of, redact
from rowlease.store.engine import JdbcDriver, engine_of
from rowlease.store.observing import LockObserver, Observer
from rowlease.store.revisions import Migrated
from rowlease.store.store import Store

__all__ = [
    "BulkStore",
    "Difference",
    "JdbcDriver",
    "LockObserver",
    "Migrated",
    "Notifications",
    "Observer",
    "Store",
    "engine_of",
    "mask_passwords",
    "migrate",
    "open_store",
    "place_of",
    "redact",
]

#: The shortest and the longest pause, in seconds, before the next try of a migration that did not
#: get a lock.
MIGRATION_PAUSE = 1.0, 3.0


def open_store(
    dsn: str, *, application_name: str = "rowlease", call_timeout: timedelta = deadlines.CALL
) -> Store:
    """Open the store of a DSN. The store connects on first use.

    Args:
        dsn: `postgresql://user:password@host:port/database`, or the same with `mssql://`.
        application_name: the name that pg_stat_activity or sys.dm_exec_sessions shows.
        call_timeout: how long a call may take before it raises StoreTimeout (more than 0). Some
            routines have a longer limit (`rowlease.store.deadlines`). `Store.within` sets another
            limit for all calls.

    Raises:
        ConfigError: the DSN does not name an engine that rowlease knows.
    """
    return engine_of(dsn).open_store(application_name, call_timeout)


def migrate(
    dsn: str,
    *,
    allow_blocking_reads: bool = False,
    on_retry: Callable[[StoreConflict], object] = lambda error: None,
) -> Migrated:
    """Bring the database to this version's schema and routines, in one transaction.

    Then create missing indexes again, without locking out writers (PostgreSQL).

    Safe to call again, and from several threads, processes and hosts at once. Workers may run
    meanwhile. If the migration does not get a lock soon, or in a deadlock, everything is rolled
    back and tried again for ten minutes. Between two tries, the migration blocks no other call.

    Args:
        allow_blocking_reads: on SQL Server, accept a database without READ_COMMITTED_SNAPSHOT.
        on_retry: a function that is called with the error before each further try.

    Raises:
        ConfigError: the DSN cannot be read, or the database has a setting that rowlease refuses.
        SchemaMismatch: the database is newer than this version.
        StoreUnavailable: the database cannot be reached.
        AccessDenied: the user may not create the objects.
        StoreError: any other error of the database.
    """
    engine = engine_of(dsn)
    ends = time.monotonic() + deadlines.MIGRATION.total_seconds()
    while True:
        try:
            return engine.migrate(allow_blocking_reads=allow_blocking_reads)
        except StoreConflict as error:
            if time.monotonic() > ends or not engine.is_lock_conflict(error.__cause__):
                raise
            on_retry(error)
        time.sleep(random.uniform(*MIGRATION_PAUSE))
