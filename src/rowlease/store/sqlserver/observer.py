"""Reads locks and plans of SQL Server from its management views."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from typing import Any

from rowlease.store import deadlines
from rowlease.store.observing import Lock, LockObserver, Plans, Scan, WaitCounts
from rowlease.store.routines import load_routines
from rowlease.store.sqlserver.connection import connect, odbc_string, pyodbc
from rowlease.store.sqlserver.driver_errors import OdbcError
from rowlease.store.sqlserver.procedures import ProcedureCall, result
from rowlease.store.sqlserver.store import OwnConnection

DATABASE = "select cast({} as nvarchar(200)) from sys.databases where database_id = db_id()"
SERVER = {
    "version": "select @@version",
    "edition": "select cast(serverproperty('Edition') as nvarchar(200))",
    "compatibility level": DATABASE.format("compatibility_level"),
    "read committed snapshot": DATABASE.format("is_read_committed_snapshot_on"),
    "accelerated recovery": DATABASE.format("is_accelerated_database_recovery_on"),
    "optimized locking": DATABASE.format("is_optimized_locking_on"),
    "cores": "select cpu_count from sys.dm_os_sys_info",
    "memory in MB": "select committed_target_kb / 1024 from sys.dm_os_sys_info",
}
LOCKS = """
    select coalesce(object_name(e.object_id), ''), l.resource_type, l.request_mode, count(*)
      from sys.dm_tran_locks as l
      left join sys.partitions as p on p.hobt_id = l.resource_associated_entity_id
     cross apply (select case when l.resource_type = 'OBJECT'
                              then cast(l.resource_associated_entity_id as int)
                              else p.object_id end as object_id) as e
     where l.request_session_id = @@spid and l.resource_database_id = db_id()
     group by e.object_id, l.resource_type, l.request_mode
     order by 1, 2, 3"""
PLANS = """
    select object_name(s.object_id, s.database_id), p.query_plan
      from (select object_id, database_id, plan_handle from sys.dm_exec_procedure_stats
            union all
            select object_id, database_id, plan_handle from sys.dm_exec_function_stats
            union all
            select object_id, database_id, plan_handle from sys.dm_exec_trigger_stats) as s
     cross apply sys.dm_exec_text_query_plan(s.plan_handle, 0, -1) as p
     where s.database_id = db_id() and p.query_plan is not null
       and object_schema_name(s.object_id, s.database_id) in ('rowlease', 'rowlease_internal')"""
WAITS_QUERY = """
    select coalesce(sum(case when counter_name like 'Number of Deadlocks%' then cntr_value end), 0),
           coalesce(sum(case when counter_name like 'Lock Timeouts (timeout > 0)%'
                             then cntr_value end), 0)
      from sys.dm_os_performance_counters
     where instance_name = '_Total' and object_name like '%:Locks%'"""
ESCALATIONS = """
    select coalesce(sum(s.index_lock_promotion_count), 0)
      from sys.dm_db_index_operational_stats(db_id(), null, null, null) as s
      join sys.objects as o on o.object_id = s.object_id
     where schema_name(o.schema_id) = 'rowlease'"""
STAGED_REQUESTS_QUERY = """
    insert into rowlease.LoadInbox (RunNumber, Part, Priority, Kind, Payload, DueTime)
    select ?, 0, 0, N'verify', N'{}', sysutcdatetime() from openjson(?) as j"""
PLAN = "{http://schemas.microsoft.com/sqlserver/2004/07/showplan}"
#: The tables that grow. QueueDepth is not one of them: it is short, and is read whole.
LARGE = {
    "queue", "queuehistory", "lane", "lanepart", "enqueuereceipt", "attempt", "progress",
    "operation", "requeued", "cancellation", "batch", "batchwait", "ratestart",
}  # fmt: skip
#: Routines that read a whole table on purpose, and those for operators.
READS_WHOLE = {
    "sample_requests", "recount_queues", "correct_counts", "free_groups", "sweep_progress",
    "due_steps", "sweep_lane", "advance_ids",
}  # fmt: skip
#: The routines whose every statement must seek. Others keep house, or are for operators.
WORKING = {
    "enqueue", "enqueue_many", "dequeue", "exchange", "complete", "fail", "abandon", "snooze",
    "decline", "disown", "renew", "report_progress",
}  # fmt: skip
#: The error of a statement about a temporary table, which a plan alone does not create.
NO_SUCH_TABLE = 208
#: The error of a transaction that may not keep versions: ALLOW_SNAPSHOT_ISOLATION is off.
NO_SNAPSHOTS = 3952


class SqlServerObserver(LockObserver):
    """See `rowlease.store.observing.LockObserver`."""

    def __init__(self, dsn: str) -> None:
        self._odbc = odbc_string(dsn, "rowlease engines verify")
        self._routines = load_routines("sqlserver")

    def server(self) -> dict[str, str]:
        with closing(connect(self._odbc)) as connection:
            return {what: _answer(connection, query) for what, query in SERVER.items()}

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        connection = connect(self._odbc)
        try:
            connection.timeout = round(deadlines.MIGRATE.total_seconds())
            connection.autocommit = False
            yield connection
        finally:
            with suppress(pyodbc().Error):  # the store may have closed it after an error
                connection.close()  # which rolls back

    def stage(self, run_number: int, num_rows: int) -> None:
        with closing(connect(self._odbc)) as connection, closing(connection.cursor()) as cursor:
            cursor.setinputsizes([None, (pyodbc().SQL_WVARCHAR, 0, 0)])  # nvarchar(max)
            cursor.execute(STAGED_REQUESTS_QUERY, run_number, json.dumps(list(range(num_rows))))

    def call(self, connection: Any, routine: str, **arguments: Any) -> list[Any]:
        with closing(connection.cursor()) as cursor:
            return ProcedureCall(routine, self._routines[routine].params, arguments).rows(cursor)

    def keep_versions(self, connection: Any) -> bool:
        try:
            connection.execute("set transaction isolation level snapshot").close()
            connection.execute("select count(*) from rowlease.SchemaInfo").fetchval()
        except pyodbc().Error as error:
            if OdbcError.read(error).code != NO_SNAPSHOTS:
                raise
            return False
        return True

    def wait(self, seconds: float, limit: float) -> None:
        with closing(OwnConnection(connect(self._odbc))) as own:
            try:
                own.cursor(round(limit)).execute(f"waitfor delay '{timedelta(seconds=seconds)}'")
            except pyodbc().Error as error:
                if not OdbcError.read(error).is_late:
                    raise
                raise TimeoutError(str(error)) from error

    def locks(self, connection: Any) -> list[Lock]:
        return [Lock(*row) for row in connection.execute(LOCKS).fetchall()]

    def plans(self) -> Plans:
        with closing(connect(self._odbc)) as connection:
            return _plans(connection.execute(PLANS).fetchall())

    def compiled(self) -> Plans:
        found: list[tuple[str, str]] = []
        refused = []
        with closing(connect(self._odbc)) as connection:
            connection.execute("set showplan_xml on")
            for name, routine in self._routines.items():
                if routine.schema != "rowlease" or "procedure rowlease." not in routine.body:
                    continue
                nulls = ", ".join("null" for _ in routine.params)
                try:
                    with closing(connection.cursor()) as cursor:
                        cursor.execute(f"exec rowlease.{name} {nulls}")
                        found += [(name, row[0]) for row in result(cursor)]
                except pyodbc().Error as error:
                    if OdbcError.read(error).code != NO_SUCH_TABLE:
                        refused.append(f"{name}: {OdbcError.read(error).text}")
        made = _plans(found)
        scans = [each for each in made.scans if each.routine in WORKING]
        return made._replace(scans=scans, refused=tuple(refused))

    def waits(self) -> WaitCounts:
        with closing(connect(self._odbc)) as connection:
            return WaitCounts(*connection.execute(WAITS_QUERY).fetchone())

    def num_escalations(self) -> int:
        with closing(connect(self._odbc)) as connection:
            return int(connection.execute(ESCALATIONS).fetchval())


def _plans(found: Sequence[Any]) -> Plans:
    statements, scans = 0, set[Scan]()
    for routine, plan in found:
        tree = ET.fromstring(plan)  # noqa: S314 - the server's own text
        statements += sum(1 for _ in tree.iter(f"{PLAN}StmtSimple"))
        if routine not in READS_WHOLE:
            scans |= set(_scans(routine, tree))
    return Plans(len({routine for routine, _ in found}), statements, sorted(scans))


def _answer(connection: Any, query: str) -> str:
    try:
        return " ".join(str(connection.execute(query).fetchval()).split())
    except pyodbc().Error as error:
        return f"not known: {OdbcError.read(error).text}"


def _scans(routine: str, plan: ET.Element) -> Iterator[Scan]:
    for step in plan.iter(f"{PLAN}RelOp"):
        if step.get("PhysicalOp", "").endswith("Scan"):
            for each in step.findall(f"./*/{PLAN}Object"):
                table = each.get("Table", "").strip("[]")
                if each.get("Schema") == "[rowlease]" and table.lower() in LARGE:
                    yield Scan(routine, table, each.get("Index", "").strip("[]"))
