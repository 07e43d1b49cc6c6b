"""Brings a database to this version: tables by Alembic, then every routine again."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from rowlease.errors import AccessDenied, SchemaMismatch, StoreUnavailable
from rowlease.store import redact
from rowlease.store.routines import packaged, scripts, scripts_hash

#: Two `rowlease migrate` at once take turns.
MIGRATION_LOCK = 1919907439


class Migrated(NamedTuple):
    """What `migrate` found and did."""

    from_revision: str | None
    to_revision: str
    routines: int
    changed: bool


def migrate(dsn: str) -> Migrated:
    """Bring the database to this version's schema and routines, in one transaction.

    Safe to call again and from several hosts at once; workers may go on meanwhile.

    Raises:
        SchemaMismatch: the database is newer than this version.
        StoreUnavailable: it cannot be reached.
        AccessDenied: the user may not create what is needed.
    """
    where = redact(dsn)
    engine = sa.create_engine(
        sa.make_url(dsn).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool
    )
    try:
        with engine.begin() as connection:
            return _migrate(connection, where)
    except sa.exc.OperationalError as error:
        raise StoreUnavailable(
            f"cannot reach the database at {where}: {str(error.orig).strip()}; "
            "check the DSN and that the server is up"
        ) from error
    except sa.exc.ProgrammingError as error:
        if getattr(error.orig, "sqlstate", "") == "42501":
            raise AccessDenied(
                f"{str(error.orig).strip()} at {where}; `rowlease migrate` needs a user that may "
                "create a schema and roles"
            ) from error
        raise


def _migrate(connection: sa.Connection, where: str) -> Migrated:
    connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    before = _revision(connection)
    if before is not None:
        check_revision(before, where, or_older=True)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    after = _revision(connection)
    assert after is not None
    fingerprint = scripts_hash("postgresql")
    known = connection.scalar(sa.text("select routines_hash from rowlease.schema_info"))
    names = [script.name for script in scripts("postgresql")]
    if known != fingerprint:
        _apply(connection, names, fingerprint)
    return Migrated(before, after, len(names), changed=(before, known) != (after, fingerprint))


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
    return connection.scalar(sa.text("select version_num from rowlease.alembic_version"))


def check_revision(revision: str | None, where: str, *, or_older: bool = False) -> None:
    """Raise SchemaMismatch unless the database is at this version's revision (or on the way to it).

    Args:
        revision: what the database says of itself.
        where: the database's name for people, without a password.
        or_older: accept what `migrate` can bring forward.
    """
    script = ScriptDirectory.from_config(_config())
    if revision == script.get_current_head():
        return
    if revision is not None and revision not in {r.revision for r in script.walk_revisions()}:
        raise SchemaMismatch(
            f"the database at {where} is at schema {revision}, which is newer than this rowlease; "
            "install the newer rowlease"
        )
    if not or_older:
        raise SchemaMismatch(
            f"the database at {where} is at schema {revision or 'none'}; run `rowlease migrate`"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(packaged("migrations")).replace("%", "%%"))
    return config
