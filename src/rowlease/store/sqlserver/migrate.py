"""Upgrades a SQL Server database to this version: first the tables by Alembic, then routines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

import sqlalchemy as sa

from rowlease.errors import AccessDenied, ConfigError, StoreConflict
from rowlease.model import Advanced
from rowlease.store.calls import to_milliseconds
from rowlease.store.comments import MADE
from rowlease.store.deadlines import MIGRATE
from rowlease.store.deadlines import MIGRATION_LOCK_TIMEOUT as LOCK_TIMEOUT
from rowlease.store.differences import Difference, differences
from rowlease.store.dsn import redact
from rowlease.store.revisions import (
    NOTHING_TO_DO,
    OLDEST_CLIENT,
    SCRIPT_TITLE,
    Installed,
    Migrated,
    Schema,
    bring_up,
    check_comparable,
    own_version,
    upgrade_sql,
)
from rowlease.store.routines import INTERNAL, PUBLIC, Routine, all_files, scripts_hash
from rowlease.store.sqlserver import catalogue
from rowlease.store.sqlserver.connection import connect, odbc_string, pyodbc
from rowlease.store.sqlserver.descriptions import descriptions
from rowlease.store.sqlserver.driver_errors import our_error

ENGINE = "sqlserver"
#: The application lock that lets only one migration run at a time.
MIGRATION_LOCK = "rowlease:migrate"
#: The kinds of objects that are dropped if their file no longer exists, by type in sys.objects.
DROPPED_KINDS = {
    "P": "procedure", "FN": "function", "IF": "function", "TF": "function", "V": "view",
    "TR": "trigger",
}  # fmt: skip
#: Azure SQL Database, Managed Instance and Edge. Their version number does not show the features.
AZURE = (5, 8, 9)
#: SQL Server 2019, the first with the UTF-8 collation that measures payloads.
OLDEST_SERVER = 15
#: The lowest compatibility level that has OPENJSON.
OLDEST_LEVEL = 130
SERVER_QUERY = """
    select cast(serverproperty('EngineEdition') as int) as edition,
           cast(serverproperty('ProductMajorVersion') as int) as version,
           d.compatibility_level as level, d.is_read_committed_snapshot_on as has_snapshot,
           quotename(d.name) as name
      from sys.databases as d where d.database_id = db_id()"""
#: The rank of procedures (see `_rank`), which may refer to objects that do not exist yet.
BOUND_LATER = 2


def migrate(dsn: str, *, allow_blocking_reads: bool = False) -> Migrated:
    """See `rowlease.store.migrate`."""
    with _connected(dsn) as connection:
        _take_turns(connection)
        advice = check_server(connection, redact(dsn), allow_blocking_reads)
        done = bring_up(connection, ENGINE, redact(dsn), _read, _put_routines)
        if done.newer:
            return done._replace(advice=advice)
        advanced = connection.exec_driver_sql("exec rowlease.advance_ids")
        texts = [advice, *(str(Advanced(*row)) for row in advanced)]
        return done._replace(advice="; ".join(filter(None, texts)) or None)


def check_server(
    connection: sa.Connection, where: str, allow_blocking_reads: bool = False
) -> str | None:
    """Check that the server has what the routines need. Return advice about its settings, or None.

    Raises:
        ConfigError: the server is too old, or the database's compatibility level is too low, or
            READ_COMMITTED_SNAPSHOT is off and `allow_blocking_reads` is false.
    """
    edition, version, level, has_snapshot, name = connection.exec_driver_sql(SERVER_QUERY).one()
    if edition not in AZURE and version < OLDEST_SERVER:
        raise ConfigError(
            f"the server at {where} is SQL Server version {version}; rowlease needs version "
            f"{OLDEST_SERVER} (SQL Server 2019) or newer, or Azure SQL"
        )
    if level < OLDEST_LEVEL:
        raise ConfigError(
            f"the database at {where} has the compatibility level {level}, but OPENJSON needs "
            f"{OLDEST_LEVEL}: alter database {name} set compatibility_level = 150"
        )
    if has_snapshot:
        return None
    advice = (
        "READ_COMMITTED_SNAPSHOT is off, so readers of a row wait for its writers; while no other "
        f"session uses the database: alter database {name} set read_committed_snapshot on"
    )
    if allow_blocking_reads:
        return advice
    raise ConfigError(
        f"in the database at {where}, {advice}; or run `rowlease migrate --allow-blocking-reads`, "
        "if you accept what docs/sqlserver.md says of it"
    )


def migration_sql(dsn: str) -> str:
    """See `rowlease.store.engine.Engine`. Each batch ends in a line GO, for sqlcmd."""
    with _connected(dsn) as connection:
        before = _read(connection)
        if before is not None and (before.is_newer(redact(dsn)) or before.is_current(ENGINE)):
            return NOTHING_TO_DO.format(before.revision)
        revision = before.revision if before else None
        batches = [
            # sqlcmd turns quoted_identifier off, but filtered indexes require it.
            f"{SCRIPT_TITLE.format(revision or 'none')}\nset xact_abort, quoted_identifier on;",
            "begin transaction;",
            f"exec sp_getapplock @Resource = N'{MIGRATION_LOCK}', @LockMode = 'Exclusive',"
            " @LockOwner = 'Transaction';",
            # While the script waits for a table, other transactions that need the table wait, too.
            f"set lock_timeout {to_milliseconds(LOCK_TIMEOUT)};",
            *re.split(r"(?mi)^go$", upgrade_sql("mssql", revision)),
            *_routines(connection).values(),
            "commit transaction;",
        ]
    return "".join(f"{batch.strip()}\nGO\n" for batch in batches if batch.strip())


def schema_differences(dsn: str) -> list[Difference]:
    """See `rowlease.store.engine.Engine`."""
    with _connected(dsn) as connection:
        driver: Any = connection.connection.driver_connection
        if not catalogue.sees_all(driver):
            raise AccessDenied(
                f"the user at {redact(dsn)} cannot see all definitions; "
                "grant it VIEW DEFINITION in the database, and the role rowlease_reader"
            )
        check_comparable(_read(connection), redact(dsn))
        expected, found = catalogue.expected(driver), catalogue.read(driver)
        return differences(expected, found, "rowlease.SchemaInfo")


@contextmanager
def _connected(dsn: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(
        "mssql+pyodbc://",
        creator=partial(_connection, odbc_string(dsn, "rowlease migrate")),
        module=pyodbc(),
        isolation_level="READ COMMITTED",
        poolclass=sa.NullPool,
    )
    try:
        with engine.connect() as connection, _transaction(connection):
            yield connection
    except sa.exc.DBAPIError as error:
        if error.orig is None:
            raise
        raise our_error(error.orig, redact(dsn), migrating=True) from error.orig
    except pyodbc().Error as error:
        raise our_error(error, redact(dsn), migrating=True) from error


def _connection(odbc: str) -> Any:
    connection = connect(odbc)
    connection.autocommit = False
    connection.timeout = round(MIGRATE.total_seconds())
    return connection


@contextmanager
def _transaction(connection: sa.Connection) -> Iterator[None]:
    """The same as `connection.begin()`, but the first error is raised even if the rollback fails.

    Some errors end the transaction in the server, and some engines then refuse the rollback.
    """
    transaction = connection.begin()
    try:
        yield
        transaction.commit()
    except BaseException:
        with suppress(sa.exc.DBAPIError):
            transaction.rollback()
        raise


def _read(connection: sa.Connection) -> Installed | None:
    if connection.exec_driver_sql("select object_id(N'rowlease.alembic_version')").scalar() is None:
        return None
    row = connection.exec_driver_sql(
        "select v.version_num, i.OldestClient, i.Release, i.RoutinesHash"
        "  from rowlease.alembic_version as v left join rowlease.SchemaInfo as i on 1 = 1"
    ).one_or_none()
    return None if row is None else Installed(Schema(*row[:2]), *row[2:])


def _put_routines(connection: sa.Connection) -> None:
    driver: Any = connection.connection.driver_connection
    for name, batch in _routines(connection).items():
        try:
            _run(driver, batch)
        except pyodbc().Error as error:
            error.add_note(f"in {name}.sql")
            raise


def _take_turns(connection: sa.Connection) -> None:
    """Take the migration lock of this database until the transaction ends."""
    granted = connection.exec_driver_sql(
        "set nocount on; declare @granted int;"
        f" exec @granted = sp_getapplock @Resource = N'{MIGRATION_LOCK}', @LockMode = 'Exclusive',"
        " @LockOwner = 'Transaction', @LockTimeout = 600000;"
        # Alembic reads the numbers of changed rows.
        " select @granted; set nocount off"
    ).scalar()
    if granted is None or granted < 0:
        raise StoreConflict(
            "another `rowlease migrate` did not end within 10 minutes; run it again"
        )
    connection.exec_driver_sql(f"set lock_timeout {to_milliseconds(LOCK_TIMEOUT)}")


def _routines(connection: sa.Connection) -> dict[str, str]:
    """The batches, by name, that replace the database's routines by those of this release."""
    files = all_files(ENGINE)
    kept = {made[2].lower() for script in files if (made := MADE.search(script.body))}
    found = connection.exec_driver_sql(
        "select s.name, rtrim(o.type), o.name from sys.objects as o"
        " join sys.schemas as s on s.schema_id = o.schema_id where s.name in (?, ?)",
        (PUBLIC, INTERNAL),
    )
    stale = [
        f"drop {DROPPED_KINDS[kind]} {schema}.[{name.replace(']', ']]')}];"
        for schema, kind, name in found.all()
        if kind in DROPPED_KINDS and f"{schema}.{name}".lower() not in kept
    ]
    return {
        **{script.name: script.body for script in _in_order(files)},
        **{statement: statement for statement in stale},
        "descriptions": descriptions(),
        "schema_info": "delete from rowlease.SchemaInfo;"  # noqa: S608 - our own constants
        " insert into rowlease.SchemaInfo (OldestClient, Release, RoutinesHash, AppliedTime)"
        f" values (N'{OLDEST_CLIENT}', N'{own_version()}', N'{scripts_hash(ENGINE)}',"
        " sysutcdatetime());",
    }


def _in_order(files: list[Routine]) -> list[Routine]:
    """The scripts in the order of their dependencies.

    Views and inline functions are bound when they are created, procedures when they run.
    """
    ranks = {script.name: _rank(script.body) for script in files}
    by_name = {script.name.lower(): script for script in files}
    bound = {name.lower() for name, rank in ranks.items() if rank < BOUND_LATER}
    needs = {
        name: {
            used.lower()
            for used in re.findall(r"\browlease(?:_internal)?\.(\w+)", by_name[name].body)
        }
        & bound - {name}
        for name in sorted(bound)
    }
    first = [by_name[name] for name in TopologicalSorter(needs).static_order()]
    rest = [script for script in files if script.name.lower() not in bound]
    return first + sorted(rest, key=lambda script: ranks[script.name])


def _rank(body: str) -> int:
    code = "\n".join(line for line in body.splitlines() if not line.startswith("--")).lower()
    for place, word in enumerate(("function", "view", "procedure", "trigger")):
        if f"create or alter {word}" in code:
            return place
    return 4  # grants


def _run(driver: Any, text: str) -> None:
    """Execute one batch, and raise the errors of all its statements."""
    with closing(driver.cursor()) as cursor:
        cursor.execute(text)
        while cursor.nextset():
            pass
