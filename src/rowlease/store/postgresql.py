"""The store on PostgreSQL: call routines, map rows, map errors. psycopg 3."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NoReturn, cast

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    QueueFull,
    RoutineError,
    SchemaMismatch,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
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
from rowlease.store import redact
from rowlease.store.routines import load_routines

#: SQLSTATEs of our own (sql/README.md) that say the request itself is wrong.
INVALID_REQUEST = {"RL002", "RL003", "RL004", "RL006", "RL007", "RL008", "RL009", "RL010"}
QUEUE_FULL = "RL005"


def libpq_dsn(dsn: str) -> str:
    """The DSN as libpq reads it: without SQLAlchemy's driver name."""
    return dsn.replace("postgresql+psycopg://", "postgresql://", 1)


def jdbc_options(dsn: str) -> dict[str, str]:
    """url, user and password for the PostgreSQL JDBC driver.

    Raises:
        ConfigError: the DSN cannot be read.
    """
    try:
        parts = conninfo_to_dict(libpq_dsn(dsn))
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"the DSN {redact(dsn)!r} cannot be read: {error}") from error
    host, port = parts.get("host", "localhost"), parts.get("port", "5432")
    url = f"jdbc:postgresql://{host}:{port}/{parts.get('dbname', parts.get('user', ''))}"
    ssl = "".join(f"?{key}={parts[key]}" for key in ("sslmode",) if key in parts)
    return {
        "url": url + ssl,
        "user": str(parts.get("user", "")),
        "password": str(parts.get("password", "")),
        "driver": "org.postgresql.Driver",
    }


class PostgresStore:
    """See `rowlease.store.Store`."""

    can_notify = True

    def __init__(self, dsn: str, application_name: str) -> None:
        self._dsn = libpq_dsn(dsn)
        self._application_name = application_name
        self._routines = load_routines("postgresql")
        self._calls: dict[tuple[str, ...], str] = {}
        # SQLAlchemy's pool, because it serves any DBAPI driver and raises the driver's own errors.
        # There is nothing to reset: every call is its own transaction.
        self._pool = QueuePool(
            self._connect,  # type: ignore[arg-type]
            pool_size=4,
            max_overflow=28,
            timeout=30,
            reset_on_return=None,
        )

    def _connect(self) -> psycopg.Connection:
        connection = psycopg.connect(
            self._dsn,
            autocommit=True,
            application_name=self._application_name,
            connect_timeout=10,
            # READ COMMITTED whatever the database's default is; the routines rely on it. A dead
            # network must be noticed within a lease, not after TCP's two hours.
            options="-c default_transaction_isolation=read\\ committed -c timezone=UTC",
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=20_000,
        )
        connection.prepare_threshold = 0
        return connection

    def close(self) -> None:
        self._pool.dispose()

    # -- calling ---------------------------------------------------------------------------------

    def _call(self, name: str, connection: Any = None, /, **arguments: Any) -> list[Any]:
        """Call a routine; a connection of the caller's keeps its own transaction."""
        key = (name, *arguments)
        text = self._calls.get(key)
        if text is None:
            params = self._routines[name].params
            given = ", ".join(f"{arg} => %({arg})s::{params[arg]}" for arg in arguments)
            text = self._calls[key] = f"select * from rowlease.{name}({given})"  # noqa: S608
        if connection is not None:
            try:
                return _driver_connection(connection).execute(text, arguments).fetchall()
            except psycopg.Error as error:
                self._raise(error)
        with self._connection() as own:
            return own.execute(text, arguments).fetchall()

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        try:
            pooled = self._pool.connect()
        except psycopg.Error as error:
            self._raise(error)
        except PoolTimeout as error:
            raise StoreUnavailable("all of the store's connections are in use") from error
        try:
            yield cast("psycopg.Connection", pooled.driver_connection)
        except psycopg.Error as error:
            if cast("psycopg.Connection", pooled.driver_connection).closed:
                pooled.invalidate()
            self._raise(error)
        finally:
            pooled.close()

    def _raise(self, error: psycopg.Error) -> NoReturn:
        """Raise what rowlease calls this error, with the driver's as its cause."""
        state = error.sqlstate or ""
        said = error.diag.message_primary or str(error).strip().splitlines()[0]
        if error.diag.message_hint:
            said = f"{said}; {error.diag.message_hint}"
        where = redact(self._dsn)
        if state == QUEUE_FULL:
            raise QueueFull(said) from error
        if state in INVALID_REQUEST:
            raise InvalidRequest(said) from error
        if state == "RL001":
            raise RoutineError(said) from error
        if state == "22P02":
            raise InvalidRequest(
                f"the payload or result is not JSON: {error.diag.message_detail or said}"
            ) from error
        if isinstance(error, pg.UntranslatableCharacter | pg.CharacterNotInRepertoire) or (
            isinstance(error, psycopg.DataError) and not state
        ):
            raise InvalidRequest(
                f"a text holds a character the database refuses: {said}"
            ) from error
        if isinstance(error, pg.StringDataRightTruncation):
            raise InvalidRequest(f"a name or key is too long: {said}") from error
        if isinstance(error, pg.InsufficientPrivilege):
            raise AccessDenied(
                f"{said} at {where}; grant its user rowlease_producer, rowlease_worker, "
                "rowlease_operator or rowlease_reader"
            ) from error
        if isinstance(error, pg.UndefinedFunction | pg.UndefinedTable | pg.InvalidSchemaName):
            raise SchemaMismatch(
                f"the database at {where} lacks what this version calls ({said}); "
                "run `rowlease migrate`"
            ) from error
        if isinstance(error, pg.DeadlockDetected | pg.SerializationFailure | pg.LockNotAvailable):
            raise StoreConflict(said) from error
        if isinstance(error, pg.UniqueViolation) and (
            error.diag.constraint_name == "queue_group_in_flight"
        ):
            raise StoreConflict("two requests of one group were claimed at once") from error
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            raise StoreUnavailable(
                f"cannot reach the database at {where}: {said}; check the DSN and that the "
                "server is up"
            ) from error
        raise StoreError(f"{said} ({state or type(error).__name__})") from error

    # -- the routines ----------------------------------------------------------------------------

    def check_schema(self) -> None:
        from rowlease.store.migrate import check_revision

        try:
            ((revision,),) = self._call("schema_version")
        except SchemaMismatch as error:
            raise SchemaMismatch(
                f"the database at {redact(self._dsn)} has no rowlease schema; run `rowlease migrate`"
            ) from error
        check_revision(revision, redact(self._dsn))

    def enqueue_many(
        self,
        queue: str,
        requests: Sequence[NewRequest],
        *,
        receipt_key: str | None = None,
        connection: Any = None,
    ) -> list[Enqueued]:
        def column(values: list[Any]) -> list[Any] | None:
            return values if any(value is not None for value in values) else None

        rows = self._call(
            "enqueue_many",
            connection,
            p_queue_name=queue,
            p_kinds=[r.kind for r in requests],
            p_payloads=[r.payload for r in requests],
            p_priorities=[r.priority for r in requests],
            p_delays_ms=column([milliseconds(r.delay) for r in requests]),
            p_due_times=column([r.due_time for r in requests]),
            p_dedup_keys=column([r.dedup_key for r in requests]),
            p_group_keys=column([r.group_key for r in requests]),
            p_max_attempts=column([r.max_attempts for r in requests]),
            p_retry_bases_ms=column([milliseconds(r.retry_base) for r in requests]),
            p_receipt_key=receipt_key,
            p_in_transaction=connection is not None,
        )
        return [Enqueued(request_id, Outcome(outcome)) for request_id, outcome in rows]

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
        rows = self._call(
            "dequeue",
            p_worker_id=worker_id,
            p_queue_names=list(queues),
            p_limit=limit,
            p_slots=slots,
            p_lease_ms=milliseconds(lease),
            p_floor=floor,
        )
        more, wait_ms, new_floor = rows.pop()[-3:]
        return Claim(
            [LeasedRequest._make(row[:-3]) for row in rows],
            more,
            None if wait_ms is None else timedelta(milliseconds=wait_ms),
            new_floor,
        )

    def complete(
        self,
        held: Sequence[Held | LeasedRequest],
        results: Sequence[str | None] | None = None,
        *,
        connection: Any = None,
    ) -> list[Outcome]:
        return _outcomes(
            self._call(
                "complete",
                connection,
                p_request_ids=[h.request_id for h in held],
                p_lock_tokens=[h.lock_token for h in held],
                p_results=None if results is None else list(results),
            )
        )

    def fail(
        self, held: Sequence[Held | LeasedRequest], failures: Sequence[Failure]
    ) -> list[Outcome]:
        return _outcomes(
            self._call(
                "fail",
                p_request_ids=[h.request_id for h in held],
                p_lock_tokens=[h.lock_token for h in held],
                # PostgreSQL's text holds no NUL, and a failure must always be recordable.
                p_errors=[f.error.replace("\0", "\N{REPLACEMENT CHARACTER}") for f in failures],
                p_retries_ms=[milliseconds(f.after) for f in failures],
                p_dead=[f.dead for f in failures],
            )
        )

    def abandon(self, held: Sequence[Held | LeasedRequest]) -> list[Outcome]:
        return _outcomes(
            self._call(
                "abandon",
                p_request_ids=[h.request_id for h in held],
                p_lock_tokens=[h.lock_token for h in held],
            )
        )

    def renew(
        self,
        held: Sequence[Held | LeasedRequest],
        *,
        lease: timedelta | None = None,
        started: Sequence[bool] | None = None,
    ) -> list[Renewal]:
        rows = self._call(
            "renew",
            p_request_ids=[h.request_id for h in held],
            p_lock_tokens=[h.lock_token for h in held],
            p_lease_ms=milliseconds(lease),
            p_started=None if started is None else list(started),
        )
        return [Renewal(request_id, Outcome(outcome), until) for request_id, outcome, until in rows]

    def cancel(self, request_ids: Sequence[int]) -> list[Outcome]:
        return _outcomes(self._call("cancel", p_request_ids=list(request_ids)))

    def promote(
        self, load_id: str, queue: str, expected_rows: int, *, kind: str | None = None
    ) -> Promoted:
        rows = self._call(
            "promote",
            p_load_id=load_id,
            p_queue_name=queue,
            p_expected_rows=expected_rows,
            p_kind=kind,
        )
        outcome, *counts = rows[0]
        return Promoted(Outcome(outcome), *counts)

    def maintain(self, limit: int = 1000) -> list[Maintained]:
        return [Maintained._make(row) for row in self._call("maintain", p_limit=limit)]

    def depth(self, queue: str | None = None) -> list[Depth]:
        return [Depth._make(row) for row in self._call("depth", p_queue_name=queue)]

    def configure_queue(self, queue: str, **settings: Any) -> dict[str, Any]:
        (row,) = self._call("configure_queue", p_queue_name=queue, p_settings=json.dumps(settings))
        return cast("dict[str, Any]", row[0])

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
        self._call(
            "worker_heartbeat",
            p_worker_id=worker_id,
            p_host=host,
            p_pid=pid,
            p_version=version,
            p_queue_names=list(queues),
            p_slots=slots,
            p_busy=busy,
            p_consumer_priority=consumer_priority,
        )

    def worker_bye(self, worker_id: str) -> None:
        self._call("worker_bye", p_worker_id=worker_id)

    def doorbell(self, queues: Sequence[str]) -> PostgresDoorbell:
        try:
            return PostgresDoorbell(self._connect(), queues)
        except psycopg.Error as error:
            self._raise(error)


class PostgresDoorbell:
    """LISTEN on a connection of its own; see `rowlease.store.Doorbell`.

    An idle worker holds each queue's advisory lock in shared mode; the routine `wake_workers` sends
    a NOTIFY only while somebody does.
    """

    def __init__(self, connection: psycopg.Connection, queues: Sequence[str]) -> None:
        self._connection = connection
        self._queues = list(queues)
        connection.execute("select rowlease.listen()")
        self._idle = False

    def announce_idle(self, idle: bool) -> None:
        if idle != self._idle:
            self._connection.execute(
                "select rowlease.announce_idle(%s::text[], %s)", (self._queues, idle)
            )
            self._idle = idle

    def wait(self, timeout: timedelta) -> bool:
        rung = self._connection.notifies(timeout=timeout.total_seconds(), stop_after=1)
        return any(notify.payload in self._queues for notify in rung)

    def close(self) -> None:
        self._connection.close()


def milliseconds(duration: timedelta | None) -> int | None:
    """A duration as SQL takes it."""
    return None if duration is None else round(duration / timedelta(milliseconds=1))


def _outcomes(rows: list[Any]) -> list[Outcome]:
    return [Outcome(outcome) for _, outcome in rows]


def _driver_connection(connection: Any) -> psycopg.Connection:
    """The psycopg connection inside what a caller hands over: psycopg's, or SQLAlchemy's.

    Raises:
        ConfigError: it is neither.
    """
    if hasattr(connection, "get_bind"):  # a Session
        connection = connection.connection()
    if hasattr(connection, "connection"):  # a Connection, which holds the pooled one
        connection = connection.connection.driver_connection
    if isinstance(connection, psycopg.Connection):
        return connection
    raise ConfigError(
        f"connection must be a psycopg connection or a SQLAlchemy Connection or Session, "
        f"not {type(connection).__name__}"
    )
