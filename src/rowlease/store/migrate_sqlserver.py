"""Brings a SQL Server database to this version: tables by Alembic, then every script again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from rowlease.errors import AccessDenied, RowleaseError, StoreConflict, StoreError, StoreUnavailable
from rowlease.store import redact
from rowlease.store.odbc import odbc_string, pyodbc
from rowlease.store.routines import Routine, scripts, scripts_hash
from rowlease.store.sqlserver_errors import DENIED, Said, our_error

if TYPE_CHECKING:
    from rowlease.store.migrate import Migrated

#: Two `rowlease migrate` at once take turns.
MIGRATION_LOCK = "rowlease:migrate"
#: What to drop where its file is gone, by its type in sys.objects.
KINDS = {
    "P": "procedure", "FN": "function", "IF": "function", "TF": "function", "V": "view",
    "TR": "trigger",
}  # fmt: skip
#: The rank of procedures.
BOUND_LATER = 2
#: Creating what others also create: databases, schemas, roles, tables, procedures.
MAY_NOT_CREATE = DENIED | {262, 2759, 15151, 15247, 15406}


def migrate(dsn: str) -> Migrated:
    """See `rowlease.store.migrate.migrate`."""
    engine = sa.create_engine(
        "mssql+pyodbc://",
        creator=partial(pyodbc().connect, odbc_string(dsn, "rowlease migrate"), timeout=10),
        isolation_level="READ COMMITTED",
        poolclass=sa.NullPool,
    )
    try:
        with engine.connect() as connection, _transaction(connection):
            return _migrate(connection, redact(dsn))
    except sa.exc.DBAPIError as error:
        if error.orig is None:
            raise
        raise _said(error.orig, redact(dsn)) from error.orig
    except pyodbc().Error as error:
        raise _said(error, redact(dsn)) from error


@contextmanager
def _transaction(connection: sa.Connection) -> Iterator[None]:
    """As `connection.begin()`, but what went wrong is said even where the rollback fails, too.

    Some errors end the transaction in the server, and some engines then refuse to roll back.
    """
    transaction = connection.begin()
    try:
        yield
        transaction.commit()
    except BaseException:
        with suppress(sa.exc.DBAPIError):
            transaction.rollback()
        raise


def _said(error: BaseException, where: str) -> RowleaseError:
    """What rowlease calls an error of the driver."""
    said = Said.by(error)
    ours = our_error(said, where)
    if said.code in MAY_NOT_CREATE:
        return AccessDenied(
            f"{said.text} at {where}; `rowlease migrate` needs a user that may create a schema, "
            "roles, tables and procedures, as db_owner may"
        )
    if isinstance(ours, StoreConflict):
        return StoreConflict(f"{said.text} at {where}; run `rowlease migrate` again")
    if isinstance(ours, StoreUnavailable) or not isinstance(ours, StoreError):
        return ours
    return StoreError(f"{said.text} ({said.code or said.state}) at {where}; nothing was changed")


def _migrate(connection: sa.Connection, where: str) -> Migrated:
    from rowlease.store.migrate import Migrated, check_revision, upgrade

    _take_turns(connection)
    before = _revision(connection)
    if before is not None:
        check_revision(before, where, or_older=True)
    upgrade(connection)
    after = _revision(connection)
    assert after is not None
    fingerprint = scripts_hash("sqlserver")
    known = connection.exec_driver_sql("select RoutinesHash from rowlease.SchemaInfo").scalar()
    files = scripts("sqlserver")
    changed = (before, known) != (after, fingerprint)
    if changed:
        _apply(connection, files, fingerprint)
    return Migrated(before, after, len(files), changed)


def _take_turns(connection: sa.Connection) -> None:
    """Wait for another migration of this database; ours ends with the transaction."""
    granted = connection.exec_driver_sql(
        "set nocount on; declare @granted int;"
        f" exec @granted = sp_getapplock @Resource = N'{MIGRATION_LOCK}', @LockMode = 'Exclusive',"
        " @LockOwner = 'Transaction', @LockTimeout = 600000;"
        # Alembic counts the rows it changes.
        " select @granted; set nocount off"
    ).scalar()
    if granted is None or granted < 0:
        raise StoreConflict("another `rowlease migrate` has not ended in 10 minutes; run it again")


def _apply(connection: sa.Connection, files: list[Routine], fingerprint: str) -> None:
    driver: Any = connection.connection.driver_connection
    for script in _in_order(files):
        try:
            _run(driver, script.body)
        except pyodbc().Error as error:
            error.add_note(f"in {script.name}.sql")
            raise
    _drop_stale(driver, {script.name.lower() for script in files})
    _run(driver, "delete from rowlease.SchemaInfo")
    _run(
        driver,
        "insert into rowlease.SchemaInfo (RoutinesHash, AppliedTime) values (?, sysutcdatetime())",
        fingerprint,
    )


def _in_order(files: list[Routine]) -> list[Routine]:
    """What others are made of comes first.

    The bodies of views and of functions that are one query are bound when they are made; those of
    procedures when they run.
    """
    ranks = {script.name: _rank(script.body) for script in files}
    by_name = {script.name.lower(): script for script in files}
    bound = {name.lower() for name, rank in ranks.items() if rank < BOUND_LATER}
    needs = {
        name: {used.lower() for used in re.findall(r"rowlease\.(\w+)", by_name[name].body)}
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


def _drop_stale(driver: Any, names: set[str]) -> None:
    """Drop the routines and views whose file is gone."""
    with closing(driver.cursor()) as cursor:  # as a context of its own, it would commit
        found = cursor.execute(
            "select rtrim(o.type), o.name from sys.objects as o"
            " join sys.schemas as s on s.schema_id = o.schema_id where s.name = 'rowlease'"
        ).fetchall()
    for kind, name in found:
        if kind in KINDS and name.lower() not in names:
            _run(driver, f"drop {KINDS[kind]} rowlease.[{name.replace(']', ']]')}]")


def _run(driver: Any, text: str, *arguments: Any) -> None:
    """Execute one batch, and meet the errors of all its statements."""
    with closing(driver.cursor()) as cursor:
        cursor.execute(text, *arguments)
        while cursor.nextset():
            pass


def _revision(connection: sa.Connection) -> str | None:
    if connection.exec_driver_sql("select object_id(N'rowlease.alembic_version')").scalar() is None:
        return None
    found: str | None = connection.exec_driver_sql(
        "select version_num from rowlease.alembic_version"
    ).scalar()
    return found
