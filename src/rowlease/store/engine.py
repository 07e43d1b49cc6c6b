"""The seam between rowlease and its engines: everything that differs.

An engine is a package beside this module, with a subclass of `Engine`. The scheme of a DSN chooses
the engine, which is imported when it is first needed.
"""

from __future__ import annotations

from datetime import timedelta
from pkgutil import resolve_name
from typing import Any, ClassVar, NamedTuple, Protocol

from rowlease.errors import ConfigError, RowleaseError
from rowlease.model import Finding
from rowlease.store.bulk import BulkStore
from rowlease.store.differences import Difference
from rowlease.store.dsn import redact
from rowlease.store.observing import Observer
from rowlease.store.revisions import Migrated
from rowlease.store.store import Store
from rowlease.store.transaction import OutcomeReport

POSTGRESQL = "rowlease.store.postgresql.engine:PostgreSQL"
SQLSERVER = "rowlease.store.sqlserver.engine:SqlServer"
#: The engines by the schemes of their DSNs.
BY_SCHEME = {
    "postgresql": POSTGRESQL,
    "postgres": POSTGRESQL,
    # As SQLAlchemy writes them; rowlease uses its own driver.
    "postgresql+psycopg": POSTGRESQL,
    "postgresql+psycopg2": POSTGRESQL,
    "postgresql+asyncpg": POSTGRESQL,
    "mssql": SQLSERVER,
    "mssql+pyodbc": SQLSERVER,
}
#: The engines by SQLAlchemy's name of a connection's dialect, or by the driver's module. All other
#: connections are of PostgreSQL, for which there are many libraries.
BY_CONNECTION = {"mssql": SQLSERVER, "pyodbc": SQLSERVER}


class JdbcDriver(NamedTuple):
    """A JDBC driver. Spark downloads it from Maven Central, unless ROWLEASE_JDBC_JARS names jars.

    Attributes:
        database: the name of the database, for messages.
        package: `group:artifact:version`.
        class_name: the driver's Java class.
        sha256: the checksum of the published jar.
    """

    database: str
    package: str
    class_name: str
    sha256: str

    @property
    def jar(self) -> str:
        """The file name of the jar that Spark downloads."""
        group, artifact, version = self.package.split(":")
        return f"{group}_{artifact}-{version}.jar"


class Engine(Protocol):
    """An engine, with the DSN of one of its databases.

    Attributes:
        has_copy: whether it takes rows by COPY.

    Raises:
        ConfigError: the DSN cannot be read. Each method may raise this.
    """

    dsn: str
    jdbc_driver: JdbcDriver
    has_copy: ClassVar[bool]

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def open_store(self, application_name: str, call_timeout: timedelta) -> Store:
        """See `rowlease.store.open_store`."""

    def bulk_store(self, application_name: str) -> BulkStore:
        """A store that also writes many rows at once. ConfigError: the engine has no COPY."""

    def observe(self) -> Observer:
        """For `rowlease engines verify`."""

    def migrate(self, *, allow_blocking_reads: bool) -> Migrated:
        """One try of `rowlease.store.migrate`."""

    @staticmethod
    def is_lock_conflict(error: BaseException | None) -> bool:
        """Whether the transaction was rolled back because it did not get a lock."""

    def migration_sql(self) -> str:
        """The script, for psql or sqlcmd, that `migrate` would execute on this database.

        This call changes nothing. The script is one transaction, which takes the lock of `migrate`.
        After it are statements for missing indexes, each a transaction of its own (PostgreSQL).

        Raises: the same as `rowlease.store.migrate`.
        """

    def schema_differences(self) -> list[Difference]:
        """The differences between the database and this release.

        This call compares tables, columns, constraints, indexes, triggers, views, routines and
        grants, and changes nothing. PostgreSQL requires only the right to connect. SQL Server
        requires VIEW DEFINITION and the role rowlease_reader.

        Raises:
            AccessDenied: the user cannot see all definitions (SQL Server).
            SchemaMismatch: the database has another revision.
            StoreError: as `rowlease.store.migrate`.
        """

    def psql_connection(self) -> tuple[str, dict[str, str]]:
        """The DSN for psql: a connection string without the password, and variables."""

    def diagnose_dsn(self) -> list[Finding]:
        """What is wrong with a DSN that can be used: nobody verifies the server."""
        return []

    @staticmethod
    def outcome_of(connection: Any, report: OutcomeReport) -> str:
        """Make a report on the caller's connection. Return the outcome."""

    def check_reads_back(self) -> None:
        """Raise ConfigError unless Spark can read requests of this engine."""

    def jdbc_options(self) -> dict[str, str]:
        """The options of Spark's JDBC writer and reader, such as url, user and password."""

    def jdbc_writing_options(self) -> dict[str, str]:
        """The same, with the options for writing many rows at once."""

    def jdbc_frame(self, view: str, frame: Any) -> tuple[str, Any]:
        """The name of a view, and a DataFrame with that view's columns, as the engine has them."""

    def jdbc_error(self, state: str, number: int, text: str) -> RowleaseError:
        """The exception for a java.sql.SQLException: its SQLSTATE, error code and first line."""


def engine_of(dsn: str) -> Engine:
    """The engine that a DSN names.

    Raises:
        ConfigError: the DSN is no string, or names no engine.
    """
    if not isinstance(dsn, str):
        raise ConfigError(
            f"dsn is a {type(dsn).__name__}; it must be a string such as "
            "postgresql://user@host/database"
        )
    scheme, separator, _ = dsn.partition("://")
    if not separator or scheme not in BY_SCHEME:
        raise ConfigError(
            f"the DSN {redact(dsn)!r} names no engine that rowlease knows; "
            "write it as postgresql://user:password@host:port/database or "
            "mssql://user:password@host:port/database"
        )
    engine: Engine = resolve_name(BY_SCHEME[scheme])(dsn)
    return engine


def engine_of_connection(connection: Any) -> type[Engine]:
    """The engine of a caller's connection, which is recognised by its attributes."""
    if hasattr(connection, "get_bind"):  # a Session of SQLAlchemy
        connection = connection.get_bind()
    dialect = getattr(getattr(connection, "dialect", None), "name", None)
    kind = BY_CONNECTION.get(dialect or type(connection).__module__, POSTGRESQL)
    engine: type[Engine] = resolve_name(kind)
    return engine
