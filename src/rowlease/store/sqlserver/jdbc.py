"""Spark's way to SQL Server, over JDBC."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import timedelta
from typing import Any

from rowlease.errors import ConfigError, RowleaseError
from rowlease.store import deadlines
from rowlease.store.dsn import redact
from rowlease.store.engine import Engine, JdbcDriver
from rowlease.store.sqlserver.connection import connect, odbc_string, pyodbc
from rowlease.store.sqlserver.descriptions import pascal_case
from rowlease.store.sqlserver.driver_errors import jdbc_error
from rowlease.store.sqlserver.dsn import read_dsn

BULK_COPY = "useBulkCopyForBatchInsert"
#: The options that the JDBC driver also has, as JDBC spells them.
JDBC_OPTIONS = {
    "ApplicationIntent": "applicationIntent",
    "Authentication": "authentication",
    "Encrypt": "encrypt",
    "HostnameInCertificate": "hostNameInCertificate",
    "MultiSubnetFailover": "multiSubnetFailover",
    "TrustServerCertificate": "trustServerCertificate",
}


class SqlServerJdbc(Engine):
    """Spark's way to SQL Server, over Microsoft's JDBC driver."""

    jdbc_driver = JdbcDriver(
        "SQL Server",
        "com.microsoft.sqlserver:mssql-jdbc:13.2.1.jre11",
        "com.microsoft.sqlserver.jdbc.SQLServerDriver",
        "2d137aa308c78932878952fe3624ea090ecfe644414b8b23e71a305f425698c5",
    )

    def check_reads_back(self) -> None:
        raise ConfigError(
            f"requests can be read back only from PostgreSQL, but {redact(self.dsn)} is SQL "
            "Server; read its view rowlease.Requests with Spark's own JDBC source"
        )

    def jdbc_options(self) -> dict[str, str]:
        """The options. The driver writes batches of inserts by bulk copy."""
        address = read_dsn(self.dsn)
        host, _, instance = address.host.partition("\\")
        properties = {
            "databaseName": address.database,
            "encrypt": "true",
            # Bulk copy skips checks, but the trigger of the lane has them.
            BULK_COPY: "true",
            "bulkCopyForBatchInsertFireTriggers": "true",
            **({"instanceName": instance} if instance else {}),
            **({} if address.user else {"integratedSecurity": "true"}),
        }
        for name, spelt in JDBC_OPTIONS.items():
            if name in address.options:
                value = address.options[name]
                properties[spelt] = {"yes": "true", "no": "false"}.get(value.lower(), value)
        port = "" if address.port is None else f":{address.port}"
        written = ";".join(f"{name}={_jdbc_value(value)}" for name, value in properties.items())
        return {
            "url": f"jdbc:sqlserver://{f'[{host}]' if ':' in host else host}{port};{written}",
            "user": address.user or "",
            "password": address.password or "",
            "driver": self.jdbc_driver.class_name,
            "applicationName": "rowlease spark",
            "loginTimeout": str(deadlines.CONNECT),
            "socketTimeout": str(deadlines.BULK // timedelta(milliseconds=1)),
        }

    def jdbc_writing_options(self) -> dict[str, str]:
        return self.jdbc_options() | {"isolationLevel": "READ_COMMITTED"}

    def jdbc_frame(self, view: str, frame: Any) -> tuple[str, Any]:
        if "due_time" in frame.columns:
            frame = frame.withColumn("due_time", _utc_wall_clock("due_time"))
        frame = frame.drop("ends_part")  # each statement counts its rows
        names = {name: pascal_case(name) for name in frame.columns}
        return f"rowlease.{pascal_case(view)}", frame.withColumnsRenamed(names)

    def jdbc_error(self, state: str, number: int, text: str) -> RowleaseError:
        return jdbc_error(state, number, text, redact(self.dsn), self._messages)

    def _messages(self, query: str) -> list[Any]:
        try:
            with closing(connect(odbc_string(self.dsn, "rowlease spark"))) as connection:
                return list(connection.execute(query).fetchall())
        except (ConfigError, pyodbc().Error):
            return []


def _jdbc_value(value: str) -> str:
    return value if re.fullmatch(r"[\w.\-]+", value) else f"{{{value.replace('}', '}}')}}}"


def _utc_wall_clock(column: str) -> Any:
    """A timestamp as local time in UTC.

    Microsoft's driver writes local times of the JVM's time zone, and datetime2 has no zone. A cast
    would use the session's time zone, in which some hours occur twice.
    """
    from pyspark.sql import functions as F

    return F.expr(
        f"timestamp_ntz'1970-01-01 00:00:00' + unix_micros({column}) * interval '0.000001' second"
    )
