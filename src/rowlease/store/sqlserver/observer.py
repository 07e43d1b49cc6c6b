"""Reads locks and plans of SQL Server from its management views."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from rowlease.store.observing import Lock, LockObserver, Plans, Scan
from rowlease.store.routines import load_routines
from rowlease.store.sqlserver.connection import connect, odbc_string, pyodbc
from rowlease.store.sqlserver.driver_errors import OdbcError
from rowlease.store.sqlserver.procedures import ProcedureCall

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
      from sys.dm_exec_procedure_stats as s
     cross apply sys.dm_exec_text_query_plan(s.plan_handle, 0, -1) as p
     where s.database_id = db_id() and p.query_plan is not null
       and object_schema_name(s.object_id, s.database_id) in ('rowlease', 'rowlease_internal')"""
ESCALATIONS = """
    select coalesce(sum(s.index_lock_promotion_count), 0)
      from sys.dm_db_index_operational_stats(db_id(), null, null, null) as s
      join sys.objects as o on o.object_id = s.object_id
     where schema_name(o.schema_id) = 'rowlease'"""
STAGED = """
    insert into rowlease.StagingInbox (LoadId, RunNumber, RowId, Kind, Payload)
    select ?, ?, cast(j.value as bigint), N'verify', N'{}' from openjson(?) as j"""
PLAN = "{http://schemas.microsoft.com/sqlserver/2004/07/showplan}"
#: The tables that grow. QueueDepth is not one of them: it is short, and is read whole.
LARGE = {"queue", "queuehistory", "staging", "lane", "enqueuereceipt"}
#: Routines that read a whole queue on purpose, and those for operators.
READS_WHOLE = {"sample_requests", "recount_queues", "correct_counts", "free_groups"}


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
            connection.autocommit = False
            yield connection
        finally:
            with suppress(pyodbc().Error):  # the store may have closed it after an error
                connection.close()  # which rolls back

    def stage(self, load_id: str, run_number: int, num_rows: int) -> None:
        with closing(connect(self._odbc)) as connection, closing(connection.cursor()) as cursor:
            cursor.setinputsizes([None, None, (pyodbc().SQL_WVARCHAR, 0, 0)])  # nvarchar(max)
            cursor.execute(STAGED, load_id, run_number, json.dumps(list(range(num_rows))))

    def claim(self, connection: Any, worker: str, queue: str, limit: int) -> list[int]:
        rows = self._call(
            connection, "dequeue", p_worker_id=worker, p_queue_names=[queue], p_limit=limit
        )
        return [row[0] for row in rows if row[0] is not None]

    def promote(self, connection: Any, load_id: str, run_number: int, num_rows: int) -> None:
        self._call(
            connection, "promote",
            p_load_id=load_id, p_run_number=run_number, p_expected_rows=num_rows, p_num_clamped=0,
        )  # fmt: skip

    def _call(self, connection: Any, name: str, **arguments: Any) -> list[Any]:
        with closing(connection.cursor()) as cursor:
            return ProcedureCall(name, self._routines[name].params, arguments).rows(cursor)

    def locks(self, connection: Any) -> list[Lock]:
        return [Lock(*row) for row in connection.execute(LOCKS).fetchall()]

    def plans(self) -> Plans:
        with closing(connect(self._odbc)) as connection:
            found = connection.execute(PLANS).fetchall()
        statements, scans = 0, set[Scan]()
        for routine, plan in found:
            tree = ET.fromstring(plan)  # noqa: S314 - the server's own text
            statements += sum(1 for _ in tree.iter(f"{PLAN}StmtSimple"))
            if routine not in READS_WHOLE:
                scans |= set(_scans(routine, tree))
        return Plans(len({routine for routine, _ in found}), statements, sorted(scans))

    def num_escalations(self) -> int:
        with closing(connect(self._odbc)) as connection:
            return int(connection.execute(ESCALATIONS).fetchval())


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
