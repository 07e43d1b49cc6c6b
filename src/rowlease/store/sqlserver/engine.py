"""What SQL Server does in its own way: see `rowlease.store.engine.Engine`."""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn, final

from rowlease.errors import ConfigError
from rowlease.store.differences import Difference
from rowlease.store.dsn import redact
from rowlease.store.revisions import Migrated
from rowlease.store.sqlserver.driver_errors import is_lock_conflict
from rowlease.store.sqlserver.jdbc import SqlServerJdbc
from rowlease.store.sqlserver.observer import SqlServerObserver
from rowlease.store.sqlserver.store import SqlServerStore
from rowlease.store.sqlserver.transaction import outcome_of


@final
class SqlServer(SqlServerJdbc):
    has_copy = False
    is_lock_conflict = staticmethod(is_lock_conflict)
    outcome_of = staticmethod(outcome_of)

    def open_store(self, application_name: str, call_timeout: timedelta) -> SqlServerStore:
        return SqlServerStore(self.dsn, application_name, call_timeout)

    def bulk_store(self, application_name: str) -> NoReturn:
        raise ConfigError(
            f"{redact(self.dsn)} is SQL Server, which has no COPY; write with "
            "rowlease.spark.enqueue"
        )

    def observe(self) -> SqlServerObserver:
        return SqlServerObserver(self.dsn)

    def migrate(self, *, allow_blocking_reads: bool) -> Migrated:
        from rowlease.store.sqlserver.migrate import migrate

        return migrate(self.dsn, allow_blocking_reads=allow_blocking_reads)

    def migration_sql(self) -> str:
        from rowlease.store.sqlserver.migrate import migration_sql

        return migration_sql(self.dsn)

    def schema_differences(self) -> list[Difference]:
        from rowlease.store.sqlserver.migrate import schema_differences

        return schema_differences(self.dsn)

    def psql_connection(self) -> NoReturn:
        raise ConfigError(f"{redact(self.dsn)} is SQL Server; use sqlcmd")
