"""What PostgreSQL does in its own way: see `rowlease.store.engine.Engine`."""

from __future__ import annotations

from datetime import timedelta
from typing import final

from rowlease.model import Finding
from rowlease.store.differences import Difference
from rowlease.store.postgresql.bulk import PostgresBulkStore
from rowlease.store.postgresql.driver_errors import is_lock_conflict
from rowlease.store.postgresql.dsn import VERIFY, for_psql, unverified_host
from rowlease.store.postgresql.jdbc import PostgresJdbc
from rowlease.store.postgresql.observer import PostgresObserver
from rowlease.store.postgresql.store import PostgresStore
from rowlease.store.postgresql.transaction import outcome_of
from rowlease.store.revisions import Migrated


@final
class PostgreSQL(PostgresJdbc):
    has_copy = True
    is_lock_conflict = staticmethod(is_lock_conflict)
    outcome_of = staticmethod(outcome_of)

    def open_store(self, application_name: str, call_timeout: timedelta) -> PostgresStore:
        return PostgresStore(self.dsn, application_name, call_timeout)

    def bulk_store(self, application_name: str) -> PostgresBulkStore:
        return PostgresBulkStore(self.dsn, application_name)

    def observe(self) -> PostgresObserver:
        return PostgresObserver(self.dsn)

    def migrate(self, *, allow_blocking_reads: bool) -> Migrated:
        from rowlease.store.postgresql.migrate import migrate

        return migrate(self.dsn)

    def migration_sql(self) -> str:
        from rowlease.store.postgresql.migrate import migration_sql

        return migration_sql(self.dsn)

    def schema_differences(self) -> list[Difference]:
        from rowlease.store.postgresql.migrate import schema_differences

        return schema_differences(self.dsn)

    def psql_connection(self) -> tuple[str, dict[str, str]]:
        return for_psql(self.dsn)

    def diagnose_dsn(self) -> list[Finding]:
        host = unverified_host(self.dsn)
        if host is None:
            return []
        message = f"nobody verifies that {host} is the database, because the DSN has no sslmode"
        return [Finding("tls", host, message, VERIFY)]
