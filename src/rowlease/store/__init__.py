"""The only place that knows a database.

`open_store` gives a `Store`; everything above it talks in the values of `rowlease.model`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any, Protocol

from rowlease.config import configured_dsn
from rowlease.errors import ConfigError, SchemaMismatch
from rowlease.model import (
    Claim,
    Depth,
    Enqueued,
    Failure,
    Held,
    LeasedRequest,
    Maintained,
    NewRequest,
    Outcome,
    Promoted,
    Renewal,
)

__all__ = ["Doorbell", "Store", "connect", "database", "jdbc_options", "open_store", "redact"]


class Doorbell(Protocol):
    """Tells an idle worker that something may have been enqueued."""

    def announce_idle(self, idle: bool) -> None:
        """Say that this worker sleeps (producers then ring) or no longer does."""

    def wait(self, timeout: timedelta) -> bool:
        """Block until the bell rings (True) or the time is over (False)."""

    def close(self) -> None: ...


class Store(Protocol):
    """The routines of rowlease, on either engine.

    Synchronous; safe to call from several threads, each call on its own connection out of a small
    pool. Every call is one transaction of its own, but for those that are given the caller's
    `connection`.

    Raises:
        StoreUnavailable, StoreConflict, SchemaMismatch, AccessDenied, InvalidRequest, QueueFull,
        RoutineError: see `rowlease.errors`; the driver's exception is the cause.
    """

    #: Can producers wake an idle worker, or must it poll?
    can_notify: bool

    def check_schema(self) -> None:
        """Raise SchemaMismatch unless the database holds the schema this version works with."""

    def enqueue_many(
        self,
        queue: str,
        requests: Sequence[NewRequest],
        *,
        receipt_key: str | None = None,
        connection: Any = None,
    ) -> list[Enqueued]:
        """Enqueue all or none; answers in the order given."""

    def dequeue(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        *,
        slots: int | None = None,
        lease: timedelta | None = None,
        floor: str | None = None,
    ) -> Claim:
        """Lease up to `limit` requests (1 to 10,000); those past `slots` count as fetched ahead."""

    def complete(
        self,
        held: Sequence[Held | LeasedRequest],
        results: Sequence[str | None] | None = None,
        *,
        connection: Any = None,
    ) -> list[Outcome]:
        """Finish requests; `results` is JSON text or None for each of them."""

    def fail(
        self, held: Sequence[Held | LeasedRequest], failures: Sequence[Failure]
    ) -> list[Outcome]:
        """Report failed attempts; each is retried later or becomes a dead letter."""

    def abandon(self, held: Sequence[Held | LeasedRequest]) -> list[Outcome]:
        """Hand requests back at once; no attempt is counted."""

    def renew(
        self,
        held: Sequence[Held | LeasedRequest],
        *,
        lease: timedelta | None = None,
        started: Sequence[bool] | None = None,
    ) -> list[Renewal]:
        """Prolong leases from now on."""

    def cancel(self, request_ids: Sequence[int]) -> list[Outcome]:
        """Cancel waiting requests, ask running ones to stop."""

    def promote(
        self, load_id: str, queue: str, expected_rows: int, *, kind: str | None = None
    ) -> Promoted:
        """Move a staged load into the queue, whole or not at all."""

    def maintain(self, limit: int = 1000) -> list[Maintained]:
        """Do one round of housekeeping; empty when another caller is at it."""

    def depth(self, queue: str | None = None) -> list[Depth]:
        """Counts per queue and priority, highest priority first."""

    def configure_queue(self, queue: str, **settings: Any) -> dict[str, Any]:
        """Make a queue or change its settings; answers with all of them."""

    def worker_heartbeat(
        self,
        worker_id: str,
        *,
        host: str,
        pid: int,
        version: str,
        queues: Sequence[str],
        slots: int,
        busy: int,
        consumer_priority: int = 0,
    ) -> None:
        """Say that a worker is alive, and what it does."""

    def worker_bye(self, worker_id: str) -> None:
        """Say that a worker is leaving."""

    def doorbell(self, queues: Sequence[str]) -> Doorbell:
        """A bell for these queues, on a connection of its own."""

    def close(self) -> None:
        """Close every connection; the store cannot be used afterwards."""


@contextmanager
def database(dsn: str | None = None) -> Iterator[str]:
    """The DSN to work with: the given or configured one, else the embedded server's while inside.

    The embedded server is rowlease's own, so its schema is brought up to date here; a real server
    is migrated by `rowlease migrate`, when its owner wants it.

    Raises:
        ConfigError, StoreUnavailable, SchemaMismatch: as `rowlease.store.embedded.embedded`.
    """
    configured = configured_dsn(dsn)
    if configured is not None:
        yield configured
        return
    from rowlease.store.embedded import embedded
    from rowlease.store.migrate import migrate

    with embedded() as own:
        with closing(open_store(own)) as store:
            try:
                store.check_schema()
            except SchemaMismatch:
                migrate(own)
        yield own


@contextmanager
def connect(dsn: str | None = None, *, application_name: str = "rowlease") -> Iterator[Store]:
    """A store on `database(dsn)`, its schema checked; closed at the end of the block.

    Raises:
        as `database` and `Store.check_schema`.
    """
    with database(dsn) as found, closing(open_store(found, application_name=application_name)) as s:
        s.check_schema()
        yield s


def open_store(dsn: str, *, application_name: str = "rowlease") -> Store:
    """Open the store a DSN points to; connects on first use.

    Args:
        dsn: `postgresql://user:password@host:port/database`.
        application_name: what a DBA sees in pg_stat_activity.

    Raises:
        ConfigError: the DSN names no engine that rowlease knows.
    """
    if dsn.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        from rowlease.store.postgresql import PostgresStore

        return PostgresStore(dsn, application_name)
    raise ConfigError(
        f"the DSN {redact(dsn)!r} names no database that rowlease knows; "
        "write it as postgresql://user:password@host:port/database"
    )


def jdbc_options(dsn: str) -> dict[str, str]:
    """What Spark's JDBC writer and reader need to reach the same database: url, user, password.

    Raises:
        ConfigError: as `open_store`.
    """
    from rowlease.store.postgresql import jdbc_options as postgresql

    return postgresql(dsn)


def redact(dsn: str) -> str:
    """The DSN without its password, fit for people and logs."""
    scheme, sep, rest = dsn.partition("://")
    if not sep:
        return dsn if "password" not in dsn.lower() else "(a DSN with a password)"
    credentials, at, place = rest.rpartition("@")
    if not at:
        return dsn
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}{':***' if ':' in credentials else ''}@{place}"
