"""Sessions: what the contract suite holds in its hands, the same on every engine."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, Generic, NamedTuple, TypeVar

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row

from rowlease.errors import StoreConflict, StoreError
from rowlease.model import Begun, Claim, Depth, LeasedRequest, NewRequest, Outcome
from rowlease.store import Store, migrate
from rowlease.store.bulk import LANE
from rowlease.store.postgresql.connection import BoundedConnection
from rowlease.store.postgresql.store import PostgresStore
from rowlease.store.revisions import Migrated
from rowlease.store.routines import load_routines
from tests.conftest import in_database, scratch_database
from tests.waiting import until

T = TypeVar("T")

TABLES = ("queue", "queue_history", "queue_depth", "queue_day", "enqueue_receipt", "worker", "load",
          "lane", "lane_part", "queue_waiter", "queue_settings", "schedule", "unknown_kind",
          "dead_letter_task", "progress", "attempt", "rate_start", "operation", "requeued",
          "cancellation", "stream", "batch", "batch_wait")  # fmt: skip

#: For a parameter that is a time of PostgreSQL's calendar and of no other.
INFINITY = pytest.mark.only_on("postgresql", why="the only one that has an infinite time")
IGNORES_HINTS = "this engine ignores READPAST: whoever meets a locked row waits for it"
IN_ANY_ORDER = (
    "this engine comes to the rows of one update in any order, not by their ids: of two calls that"
    " name the same ones it ended one, of which nothing was done; all else held"
)
#: Seconds between two checks for a lock wait, which would take processor time from the waiter.
BETWEEN_LOOKS = 0.005
#: By DSN; see `observer`.
OBSERVERS: dict[str, psycopg.Connection] = {}
#: What the servers of this run say of themselves, by engine.
SERVERS: dict[str, str] = {}


class Measured(NamedTuple, Generic[T]):
    """What a call gave, and what it cost.

    Attributes:
        value: the call's own answer.
        pages: of rowlease's tables and indexes that the call fetched, by name. What a fresh
            connection looks up in the catalogue is not rowlease's, and not among them.
        full_scans: how often a table was read from end to end, by name.
    """

    value: T
    pages: dict[str, int]
    full_scans: dict[str, int]

    @property
    def total(self) -> int:
        """Pages of all tables and indexes."""
        return sum(self.pages.values())


class Session(Store):
    """A store on one connection, whose transaction and clock the test holds in its hands."""

    #: Can a statement pass over rows that others have locked? Every engine that rowlease supports
    #: can; one that the suite is run on for want of it may not.
    skips_locked: bool = True
    #: What a store raises if a call was rolled back for a lock that another session has.
    conflict: type[StoreError] = StoreConflict
    #: Does an error end the caller's transaction at once, so that a next statement begins another?
    ends_transactions: bool = False
    #: Do claims that bring no scan floor begin one? PostgreSQL alone has floors.
    with_floors: bool = False

    def cancel(self, request_ids: Sequence[int]) -> list[Outcome]:
        """The outcome of the operation for each of these ids."""
        return self._outcomes("cancel", request_ids)

    def requeue(self, request_ids: Sequence[int], **given: Any) -> list[Outcome]:
        """The same for dead letters; a finished request is not found."""
        return self._outcomes("requeue", request_ids, status="Failed", **given)

    def purge(self, statuses: Sequence[str] = ("Failed",), **given: Any) -> int:
        """How many requests of the queue `default` are purged, in one step."""
        step = self.operate("purge", **{"queue": "default", "status": statuses, **given})
        return len(step.touched)

    def _outcomes(self, verb: str, ids: Sequence[int], **given: Any) -> list[Outcome]:
        touched = self.operate(verb, ids=ids, limit=10_000, **given).touched
        found = {one.request_id: one.outcome for one in touched}
        return [found.get(each, Outcome.NOT_FOUND) for each in ids]

    @abstractmethod
    def rows(self, table: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        """Rows of a table or view by snake_case names, ordered by the columns asked for."""

    @abstractmethod
    def execute(self, text: str, arguments: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement and give its rows."""

    @abstractmethod
    def version(self) -> str:
        """The server's version, in a line."""

    @abstractmethod
    def spelt(self, name: str) -> str:
        """A column's name as this engine spells it."""

    @abstractmethod
    def begin(self) -> None:
        """Open a transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit it."""

    @abstractmethod
    def rollback(self) -> None:
        """Roll it back."""

    @abstractmethod
    def now(self) -> datetime:
        """The time of the routine `now` on this connection."""

    @abstractmethod
    def shipped_clock(self) -> AbstractContextManager[None]:
        """Have the routine `now` as it is shipped, which cannot be frozen."""

    @abstractmethod
    def freeze(self, time: datetime | None) -> None:
        """Stop this connection's clock at a time, or let it run again (None)."""

    @abstractmethod
    def in_background(self, call: Callable[[], T]) -> Future[T]:
        """Make the call on this session's own thread, while the test continues."""

    @abstractmethod
    def waits_for_lock(self) -> bool:
        """Is this session's connection waiting for another's lock at this moment?"""

    @abstractmethod
    def others_have_ended(self) -> None:
        """Wait until every transaction that is open now, anywhere on the server, is over."""

    @abstractmethod
    def migrate(self) -> Migrated:
        """`rowlease migrate` on this database."""

    @abstractmethod
    def restart_ids(self) -> None:
        """Have the sequence of ids begin at 1 again, as after a replication."""

    @abstractmethod
    def keep_floors(self) -> None:
        """Have every claim find a scan floor needed, for good: the test needs a new database."""

    @abstractmethod
    def kill(self) -> None:
        """Cut the connection as an operator or a network does."""

    @abstractmethod
    def reset(self) -> None:
        """Empty every table and have the queue `default` again, sooner than a new database.

        Chance begins anew, too.
        """

    @abstractmethod
    def row(self, request_id: int) -> dict[str, Any]:
        """A request with all its columns, from the queue or the history."""

    @abstractmethod
    def forge(self, table: str, request_id: int, /, **columns: Any) -> None:
        """Write into a row past the routines, as the tables' owner.

        Raises:
            StoreError: the table itself refuses.
        """

    @abstractmethod
    def insert(self, table: str, /, **columns: Any) -> None:
        """Add a row past the routines; raises as `forge`."""

    @abstractmethod
    def insert_many(self, table: str, rows: list[dict[str, Any]], /) -> None:
        """Add rows past the routines in one statement; raises as `forge`."""

    @abstractmethod
    def remove(self, table: str, /, **where: Any) -> None:
        """Delete rows past the routines."""

    @abstractmethod
    def lay(
        self, load_id: str, run_number: int, rows: Iterable[Mapping[str, Any]], part: int = 0
    ) -> None:
        """Write a part of a load as Spark does, all of it or nothing."""

    @abstractmethod
    def end_part(self) -> None:
        """Do now what the commit of the open transaction would do with its parts of loads."""

    @abstractmethod
    def acting_as(self, role: str) -> AbstractContextManager[None]:
        """Have the rights of one of the five roles, and no others."""

    @abstractmethod
    def hold_gate(self, queue: str) -> None:
        """Lock the gate of a limited queue in the open transaction, as a DBA may."""

    @abstractmethod
    def names_itself_in(self, message: str) -> bool:
        """Does this text name this session, as far as the engine shows it?"""

    @abstractmethod
    def squatting(self, *queues: str) -> AbstractContextManager[None]:
        """Have a role that may do nothing but connect hold every lock whose name it can know."""

    @abstractmethod
    def fill(self, count: int, **columns: str) -> None:
        """Add many rows to the table `queue` directly; columns are expressions.

        `i` counts from 1. The default is a Pending request of `default`, due now, priority 0.
        """

    @abstractmethod
    def fold_depth(self, limit: int) -> int:
        """Add up so many counts, as `maintain` does; how many there were."""

    @abstractmethod
    def claim_one_by_one(self, worker: str, times: int) -> None:
        """Dequeue one request of `default` after the other, in the server, a commit for each."""

    @abstractmethod
    def driver_connection(self) -> Any:
        """A connection of the driver's own, as a caller brings one: not in autocommit."""

    @abstractmethod
    def sqlalchemy_engine(self, **options: Any) -> sa.Engine:
        """An engine that a caller might have made for the same database."""

    @abstractmethod
    def measured(self, call: Callable[[], T]) -> Measured[T]:
        """Make the call in a transaction of its own and say what it cost."""

    @abstractmethod
    def listening(self, room: bool = False) -> Callable[[], list[str]]:
        """Listen from now on: each call gives the queues notified since the last call."""

    def put(self, count: int = 1, queue: str = "default", **fields: Any) -> list[int]:
        """Enqueue equal requests; their ids."""
        request = NewRequest(**{"kind": "a", **fields})
        answers = self.enqueue_many(queue, [request] * count)
        return [answer.request_id for answer in answers if answer.request_id is not None]

    def begun(
        self, load_id: str, run_by: str = "one", columns: str | None = None, queue: str = "default"
    ) -> int:
        """Begin a load that is not promoted; the run's number."""
        begun = self.begin_load(load_id, queue, run_by, columns)
        assert isinstance(begun, Begun)
        return begun.run_number

    def staged(
        self,
        load_id: str,
        rows: Iterable[Mapping[str, Any]],
        run_by: str = "one",
        queue: str = "default",
    ) -> int:
        """Begin or continue a load and write its first part; returns the run's number."""
        number = self.begun(load_id, run_by, queue=queue)
        self.lay(load_id, number, rows)
        return number

    def claim(self, worker: str = "one", limit: int = 1, **options: Any) -> list[LeasedRequest]:
        """Lease from the queue `default`."""
        return self.dequeue(worker, ["default"], limit, **options).requests

    def must_hold(self, payload: str) -> None:
        """Skip a test on an engine that cannot hold a payload."""

    def everything(self) -> list[Any]:
        """All requests with all their columns, and the depth: equal if nothing has changed."""
        return [*self.rows("requests", "*"), *self.depth()]

    def counted(self) -> list[Depth]:
        """What `depth` must say, counted in the queue itself."""
        found: dict[tuple[str, int], Counter[str]] = {}
        for _, queue, priority, status in self.rows(
            "queue", "request_id", "queue_name", "priority", "status"
        ):
            found.setdefault((queue, -priority), Counter())[status] += 1
        words = ("Scheduled", "Pending", "Processing", "Failed")
        return [
            Depth(queue, -minus, *(counts[word] for word in words))
            for (queue, minus), counts in sorted(found.items())
        ]

    def settles(self, future: Future[Any]) -> bool:
        """Wait until a call in the background is over (True) or waits for a lock (False)."""
        while wait([future], BETWEEN_LOOKS).not_done:
            if self.waits_for_lock():
                return future.done()
        return True

    def passes(self, future: Future[Any]) -> bool:
        """Does a call in the background end though others hold what it would like to have?"""
        settled = self.settles(future)
        if not settled and not self.skips_locked:
            pytest.skip(IGNORES_HINTS)
        return settled

    def waiting(self, call: Callable[[], T]) -> Future[T]:
        """Make the call in the background; return as soon as it waits for another's lock."""
        future = self.in_background(call)
        assert not self.settles(future), f"it did not wait: {future.result()}"
        return future


class PostgresSession(PostgresStore, Session):
    """See `Session`."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "contract test")
        self.dsn = dsn
        self.raw = self._connect()
        # The data is not needed after a crash of the server; random values repeat.
        self.raw.execute("set synchronous_commit = off")
        self.raw.execute("select setseed(0)")
        self._resets = 0
        self._observer = observer(dsn)
        self._thread = ThreadPoolExecutor(1)
        self._ears: list[psycopg.Connection] = []

    def dequeue(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        *,
        slots: int | None = None,
        lease: timedelta | None = None,
        floor: str | None = None,
        asynchronous_commit: bool = False,
    ) -> Claim:
        if floor is None and self.with_floors:
            floor = "{}"
        return super().dequeue(
            worker_id,
            queues,
            limit,
            slots=slots,
            lease=lease,
            floor=floor,
            asynchronous_commit=asynchronous_commit,
        )

    @contextmanager
    def connection(
        self, timeout: timedelta | None = None, at_server: timedelta | None = None
    ) -> Iterator[BoundedConnection]:
        try:
            yield self.raw
        except psycopg.Error as error:
            self._raise(error)

    def rows(self, table: str, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
        names = ", ".join(columns)
        match = " and ".join(f"{name} = %({name})s" for name in where) or "true"
        places = ", ".join(str(place) for place in range(1, len(columns) + 1))
        return self._observer.execute(
            f"select {names} from rowlease.{table} where {match} order by {places}", where
        ).fetchall()

    def execute(self, text: str, arguments: Any = None) -> list[tuple[Any, ...]]:
        cursor = self.raw.execute(text, arguments)
        return [] if cursor.description is None else cursor.fetchall()

    def version(self) -> str:
        ((version,),) = self.execute("select version()")
        return str(version).partition(",")[0]

    def spelt(self, name: str) -> str:
        return name

    def begin(self) -> None:
        self.raw.execute("begin")

    def commit(self) -> None:
        self.raw.execute("commit")

    def rollback(self) -> None:
        self.raw.execute("rollback")

    def now(self) -> datetime:
        ((time,),) = self.execute("select rowlease.now()")
        assert isinstance(time, datetime)
        return time

    @contextmanager
    def shipped_clock(self) -> Iterator[None]:
        ((frozen,),) = self.execute("select pg_get_functiondef('rowlease.now'::regproc)")
        self.execute(load_routines("postgresql")["now"].body)
        try:
            yield
        finally:
            self.execute(frozen)

    def freeze(self, time: datetime | None) -> None:
        if self.raw.closed:
            return
        self.raw.execute(
            "select set_config('rowlease.frozen_now', %s, false)",
            ("" if time is None else time.isoformat(),),
        )

    def in_background(self, call: Callable[[], T]) -> Future[T]:
        return self._thread.submit(call)

    def waits_for_lock(self) -> bool:
        # Not its wait_event, which is still Lock for a moment after the lock was granted.
        # Autovacuum may hold the lock, but releases it.
        ((waits,),) = self._observer.execute(
            "select exists (select from unnest(pg_blocking_pids(%s)) as blocking(pid),"
            " pg_stat_get_activity(blocking.pid) as a where a.backend_type = 'client backend')",
            (self.raw.info.backend_pid,),
        ).fetchall()
        return bool(waits)

    def others_have_ended(self) -> None:
        ((now,),) = self.execute("select pg_current_xact_id()::text::bigint")
        older = f"select where pg_snapshot_xmin(pg_current_snapshot())::text::bigint <= {now}"
        until(lambda: not self.execute(older))

    def migrate(self) -> Migrated:
        return migrate(self.dsn)

    def restart_ids(self) -> None:
        self.execute("select setval('rowlease.queue_request_id_seq', 1, false)")

    def keep_floors(self) -> None:
        self.execute(
            "create or replace function rowlease_internal.needs_floor("
            "  p_before bigint, p_limit integer) returns boolean language sql as 'select true'"
        )

    def kill(self) -> None:
        self._observer.execute(
            "select pg_terminate_backend(%s, 5000)", (self.raw.info.backend_pid,)
        )
        with suppress(psycopg.OperationalError):
            self.raw.execute("")  # so that the driver notices

    def reset(self) -> None:
        _empty(self.raw)
        self.raw.execute("select setseed(0)")
        self._resets += 1
        if self._resets % 200 == 0:  # what was deleted is in the way of those that look
            self.raw.execute("vacuum " + ", ".join(f"rowlease.{t}" for t in TABLES))

    def row(self, request_id: int) -> dict[str, Any]:
        with self._observer.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(
                "select * from rowlease.requests where request_id = %s", (request_id,)
            ).fetchall()
        (row,) = found
        return row

    def forge(self, table: str, request_id: int, /, **columns: Any) -> None:
        settings = ", ".join(f"{name} = %({name})s" for name in columns)
        with self.connection() as connection:
            connection.execute(
                f"update rowlease.{table} set {settings} where request_id = {request_id:d}", columns
            )

    def insert(self, table: str, /, **columns: Any) -> None:
        places = ", ".join(f"%({name})s" for name in columns)
        with self.connection() as connection:
            connection.execute(
                f"insert into rowlease.{table} ({', '.join(columns)}) values ({places})", columns
            )

    def insert_many(self, table: str, rows: list[dict[str, Any]], /) -> None:
        names = ", ".join(rows[0])
        places = ", ".join("(" + ", ".join(["%s"] * len(rows[0])) + ")" for _ in rows)
        with self.connection() as connection:
            connection.execute(
                f"insert into rowlease.{table} ({names}) values {places}",
                [value for row in rows for value in row.values()],
            )

    def remove(self, table: str, /, **where: Any) -> None:
        match = " and ".join(f"{name} = %({name})s" for name in where)
        self.execute(f"delete from rowlease.{table} where {match}", where)

    def lay(
        self, load_id: str, run_number: int, rows: Iterable[Mapping[str, Any]], part: int = 0
    ) -> None:
        more = ("headers", "due_time", "dedup_key", "group_key")
        columns = ", ".join([*LANE, *more])
        with (
            self.connection() as sql,
            sql.transaction(),
            sql.cursor().copy(f"copy rowlease.lane ({columns}) from stdin") as copy,
        ):
            for place, row in enumerate(rows):
                copy.write_row(
                    [run_number, part, not place, row.get("priority", 0), row.get("kind", "a"),
                     row.get("payload", "{}"), *(row.get(name) for name in more)]
                )  # fmt: skip

    def end_part(self) -> None:
        self.execute("set constraints rowlease.end_part immediate")

    def hold_gate(self, queue: str) -> None:
        self.execute("select from rowlease.gate where queue_name = %s for update", (queue,))

    def names_itself_in(self, message: str) -> bool:
        named = f'session {self.raw.info.backend_pid} (user "{self.raw.info.user}", application'
        return f'{named} "contract test"' in message

    @contextmanager
    def squatting(self, *queues: str) -> Iterator[None]:
        with psycopg.connect(self.dsn, autocommit=True) as squatter:
            with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
                squatter.execute("create role rowlease_test_nobody")
            squatter.execute("set role rowlease_test_nobody")
            squatter.execute(
                "select pg_advisory_lock(k), pg_advisory_lock(k, 0),"
                " pg_advisory_lock(k, hashtext(q))"
                " from generate_series(1919907430, 1919907439) k, unnest(%s::text[]) q",
                [list(queues)],
            )
            yield

    def fill(self, count: int, **columns: str) -> None:
        now = "rowlease.now()"
        values = {
            "queue_name": "'default'", "kind": "'a'", "status": "'Pending'", "priority": "0",
            "requested_time": now, "due_time": now, "max_attempts": "5", "payload": "'{}'",
        }  # fmt: skip
        values |= columns
        added = f"insert into rowlease.queue ({', '.join(values)})"
        given = f"select {', '.join(values.values())} from generate_series(1, {count:d}) as i"
        counted = ", ".join(
            f"count(*) filter (where status = '{word}')"
            for word in ("Scheduled", "Pending", "Processing", "Failed")
        )
        self.raw.execute(
            f"with added as ({added} {given} returning queue_name, priority, status)"
            " insert into rowlease.queue_depth"
            " (queue_name, priority, scheduled, pending, processing, failed)"
            f" select queue_name, priority, {counted} from added group by 1, 2"
        )

    def fold_depth(self, limit: int) -> int:
        ((folded,),) = self.execute(f"select rowlease_internal.fold_depth({limit:d})")
        return int(folded)

    def claim_one_by_one(self, worker: str, times: int) -> None:
        for _ in range(times // 500):  # on a busy machine, all at once would pass the deadline
            self.raw.execute(
                "do $$ declare v_floor text; begin"
                " for i in 1..500 loop"
                "   select d.floor into v_floor"
                f"    from rowlease.dequeue('{worker}', '{{default}}', 1, p_floor => v_floor) d"
                "    where d.request_id is null;"
                "   commit;"
                " end loop; end $$"
            )

    def driver_connection(self) -> Any:
        return psycopg.connect(self.dsn)

    def sqlalchemy_engine(self, **options: Any) -> sa.Engine:
        url = sa.make_url(self.dsn).set(drivername="postgresql+psycopg")
        return sa.create_engine(url, **options)

    def measured(self, call: Callable[[], T]) -> Measured[T]:
        self.begin()
        before = self._counters()
        value = call()
        after = self._counters()
        self.commit()
        moved = {
            name: (pages - before[name][0], scans - before[name][1])
            for name, (pages, scans) in after.items()
        }
        return Measured(
            value,
            {name: pages for name, (pages, _) in moved.items() if pages},
            {name: scans for name, (_, scans) in moved.items() if scans},
        )

    def _counters(self) -> dict[str, tuple[int, int]]:
        """Pages fetched and full scans so far, of every table and index in this transaction."""
        return {
            name: (pages, scans)
            for name, pages, scans in self.raw.execute(
                "select c.relname, coalesce(pg_stat_get_xact_blocks_fetched(c.oid), 0),"
                "       case when c.relkind <> 'i'"
                "            then coalesce(pg_stat_get_xact_numscans(c.oid), 0) else 0 end"
                "  from pg_class c where c.relnamespace = 'rowlease'::regnamespace"
                "   and c.relkind in ('r', 'i')"
            )
        }

    def listening(self, room: bool = False) -> Callable[[], list[str]]:
        ear = psycopg.connect(self.dsn, autocommit=True)
        self._ears.append(ear)
        ear.execute("select rowlease.listen(%s)", (room,))

        def heard() -> list[str]:
            # What was committed before is delivered before: no need to wait for silence.
            channel = "rowlease_room" if room else "rowlease"
            self._observer.execute("select pg_notify(%s, '')", (channel,))
            notified = (one.payload for one in ear.notifies() if one.channel == channel)
            return list(takewhile(bool, notified))

        return heard

    @contextmanager
    def acting_as(self, role: str) -> Iterator[None]:
        self.raw.execute(f"set role rowlease_{role}")
        try:
            yield
        finally:
            self.raw.execute("reset role")

    def close(self) -> None:
        # A test may leave a call waiting; ending the connection ends the call.
        self._observer.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s",
            (self.raw.info.backend_pid,),
        )
        self._thread.shutdown()
        self.raw.close()
        for ear in self._ears:
            ear.close()
        super().close()


class Clock:
    """The clock of all sessions of a test; it is stopped until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.sessions: list[Session] = []

    def advance(self, by: timedelta | None = None, **parts: float) -> None:
        """Move every session's time on: `advance(seconds=31)`."""
        self.now += by if by is not None else timedelta(**parts)
        for session in self.sessions:
            session.freeze(self.now)


# -- databases ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def module_database(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a database that all tests of a module use: making one takes longer than most."""
    if engine == "sqlserver":
        yield request.getfixturevalue("sqlserver_database")
        return
    server_dsn, template = map(request.getfixturevalue, ("server_dsn", "template"))
    with scratch_database(server_dsn, template) as name, observed(server_dsn, name) as dsn:
        yield dsn


@pytest.fixture
def emptied_database(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The module's database, with no rows left of the test before; a new one if that is marked."""
    if engine == "postgresql" and request.node.get_closest_marker("new_database"):
        server_dsn, template = map(request.getfixturevalue, ("server_dsn", "template"))
        with scratch_database(server_dsn, template) as name, observed(server_dsn, name) as dsn:
            yield dsn
        return
    found: str = request.getfixturevalue("module_database")
    EMPTIED[engine](found)
    yield found


@contextmanager
def observed(server_dsn: str, name: str) -> Iterator[str]:
    """The DSN of a database; its observer is closed afterwards."""
    dsn = in_database(server_dsn, name)
    yield dsn
    if dsn in OBSERVERS:
        OBSERVERS.pop(dsn).close()


def observer(dsn: str) -> psycopg.Connection:
    """The connection that sees what the sessions of a database have committed.

    It stays open from test to test, because connecting takes longer than what most tests do.
    """
    if dsn not in OBSERVERS or OBSERVERS[dsn].closed:
        # Tests change tables, and a prepared statement keeps the types of its columns.
        OBSERVERS[dsn] = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
    return OBSERVERS[dsn]


def _empty_postgresql(dsn: str) -> None:
    try:
        _empty(observer(dsn))
    except psycopg.OperationalError:  # the last test has cut all connections
        _empty(observer(dsn))


#: How to have a database without rows, by engine.
EMPTIED: dict[str, Callable[[str], None]] = {"postgresql": _empty_postgresql}


def _empty(connection: psycopg.Connection) -> None:
    deletes = "; ".join(f"delete from rowlease.{table}" for table in TABLES)
    default = "insert into rowlease.queue_settings (queue_name) values ('default')"
    connection.execute(f"do $$ begin {deletes}; {default}; end $$")
