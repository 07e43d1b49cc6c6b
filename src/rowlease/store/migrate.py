"""Brings a database to this version: tables by Alembic, then every routine again.

What is common to both engines, and PostgreSQL; SQL Server's part is `migrate_sqlserver`.
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import NamedTuple

import psycopg
import sqlalchemy as sa

from rowlease.errors import (
    AccessDenied,
    SchemaMismatch,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from rowlease.store import is_sqlserver, open_store, redact
from rowlease.store.libpq import libpq_dsn
from rowlease.store.routines import packaged, scripts, scripts_hash

#: Two `rowlease migrate` at once take turns.
MIGRATION_LOCK = 1919907439
#: Alembic keeps what it is doing in globals of its own: one thread at a time.
_alembic = Lock()


class Migrated(NamedTuple):
    """What `migrate` found and did."""

    from_revision: str | None
    to_revision: str
    routines: int
    changed: bool


def migrate(dsn: str) -> Migrated:
    """Bring the database to this version's schema and routines, in one transaction.

    Safe to call again and from several threads, processes and hosts at once; workers may go on
    meanwhile.

    Raises:
        ConfigError: the DSN cannot be read.
        SchemaMismatch: the database is newer than this version.
        StoreUnavailable: it cannot be reached.
        AccessDenied: the user may not create what is needed.
        StoreError: anything else that the database refuses.
    """
    open_store(dsn).close()  # says which DSNs there are
    if is_sqlserver(dsn):
        from rowlease.store.migrate_sqlserver import migrate as sqlserver

        with _alembic:
            return sqlserver(dsn)
    engine = sa.create_engine(
        "postgresql+psycopg://",
        # libpq reads the DSN, as it does for the store: SQLAlchemy's rules differ from its own.
        creator=partial(
            psycopg.connect,
            libpq_dsn(dsn),
            application_name="rowlease migrate",
            connect_timeout=10,
            prepare_threshold=None,  # behind a proxy they would outlive this connection
        ),
        isolation_level="READ COMMITTED",
        poolclass=sa.NullPool,
    )
    try:
        with _alembic, engine.begin() as connection:
            return _migrate(connection, redact(dsn))
    except sa.exc.DBAPIError as error:
        raise _said(error.orig, redact(dsn)) from error.orig
    except psycopg.Error as error:
        raise _said(error, redact(dsn)) from error


def _said(error: BaseException | None, where: str) -> StoreError:
    """What rowlease calls an error of the driver."""
    assert isinstance(error, psycopg.Error)
    said = error.diag.message_primary or str(error).strip().splitlines()[0]
    state = error.sqlstate or ""
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return AccessDenied(
            f"{said} at {where}; `rowlease migrate` needs a user that may create a schema and "
            "roles, and is a member of rowlease_owner where that exists"
        )
    if isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.LockNotAvailable):
        return StoreConflict(f"{said} at {where}; run `rowlease migrate` again")
    # No SQLSTATE: the connection failed. Classes: connection, credentials, catalogue name,
    # resources, the operator stopped the server.
    if not state or state[:2] in ("08", "28", "3D", "53", "57"):
        return StoreUnavailable(
            f"cannot reach the database at {where}: {said}; check the DSN and that the server is up"
        )
    return StoreError(f"{said} ({state}) at {where}; nothing was changed")


def _migrate(connection: sa.Connection, where: str) -> Migrated:
    connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    before = _revision(connection)
    if before is not None:
        check_revision(before, where, or_older=True)
    upgrade(connection)
    after = _revision(connection)
    assert after is not None
    fingerprint = scripts_hash("postgresql")
    known = connection.scalar(sa.text("select routines_hash from rowlease.schema_info"))
    names = [script.name for script in scripts("postgresql")]
    # A new table has no owner and no grants before the scripts have run.
    changed = (before, known) != (after, fingerprint)
    if changed:
        _apply(connection, names, fingerprint)
    return Migrated(before, after, len(names), changed)


def upgrade(connection: sa.Connection) -> None:
    """Run Alembic's revisions on this connection, in its transaction; one thread at a time."""
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(packaged("migrations")).replace("%", "%%"))
    command.upgrade(config, "head")


def _apply(connection: sa.Connection, names: list[str], fingerprint: str) -> None:
    # Routines call each other; the bodies are checked when all of them are there.
    connection.exec_driver_sql("set local check_function_bodies = off")
    connection.exec_driver_sql("set local client_min_messages = warning")
    # Straight to the driver: the files are full of format()'s %, which are no placeholders.
    driver = connection.connection.driver_connection
    assert driver is not None
    for script in scripts("postgresql"):
        driver.execute(script.body)
    stale = connection.execute(
        sa.text(
            "select oid::regprocedure::text from pg_proc"
            " where pronamespace = 'rowlease'::regnamespace and proname <> all(:names)"
        ),
        {"names": names},
    )
    for (routine,) in stale.all():
        connection.exec_driver_sql(f"drop routine {routine}")
    connection.execute(sa.text("delete from rowlease.schema_info"))
    connection.execute(
        sa.text("insert into rowlease.schema_info values (:hash, now())"), {"hash": fingerprint}
    )
    # Today's history partition is there before the first request is finished.
    connection.execute(sa.text("select rowlease.maintain()"))


def _revision(connection: sa.Connection) -> str | None:
    if connection.scalar(sa.text("select to_regclass('rowlease.alembic_version')")) is None:
        return None
    found: str | None = connection.scalar(
        sa.text("select version_num from rowlease.alembic_version")
    )
    return found


def check_revision(revision: str | None, where: str, *, or_older: bool = False) -> None:
    """Raise SchemaMismatch unless the database is at this version's revision (or on the way to it).

    Args:
        revision: what the database says of itself.
        where: the database's name for people, without a password.
        or_older: accept what `migrate` can bring forward.
    """
    known = revisions()
    if revision == known[-1]:
        return
    if revision is not None and revision not in known:
        raise SchemaMismatch(
            f"the database at {where} is at schema {revision}, which is newer than this rowlease; "
            "install the newer rowlease"
        )
    if not or_older:
        raise SchemaMismatch(
            f"the database at {where} is at schema {revision or 'none'}; run `rowlease migrate`"
        )


def revisions() -> list[str]:
    """The revisions this version knows, oldest first: what the names of their files begin with.

    Every client asks this when it connects; Alembic takes as long to load as all the rest.
    """
    files = (packaged("migrations") / "versions").glob("[!_]*.py")
    return sorted(file.stem.partition("_")[0] for file in files)
