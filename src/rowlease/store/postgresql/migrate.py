"""Upgrades a PostgreSQL database to this version: first the tables by Alembic, then routines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import psycopg
import sqlalchemy as sa

from rowlease.model import Advanced
from rowlease.store.calls import to_milliseconds
from rowlease.store.comments import read_comments
from rowlease.store.deadlines import MIGRATE
from rowlease.store.deadlines import MIGRATION_LOCK_TIMEOUT as LOCK_TIMEOUT
from rowlease.store.differences import Difference, differences, read_catalogue
from rowlease.store.dsn import redact
from rowlease.store.postgresql import catalogue
from rowlease.store.postgresql.connection import Connector
from rowlease.store.postgresql.driver_errors import our_error
from rowlease.store.postgresql.dsn import libpq_dsn
from rowlease.store.postgresql.indexes import Missing, is_recreated, missing_indexes
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
    revisions,
    upgrade_sql,
)
from rowlease.store.routines import all_files, scripts_hash

ENGINE = "postgresql"
#: The advisory lock that lets only one migration run at a time.
MIGRATION_LOCK = 1919907439
#: The advisory lock of the session that creates missing indexes.
INDEX_LOCK = MIGRATION_LOCK + 1
QUOTE = "'"


def migrate(dsn: str) -> Migrated:
    """See `rowlease.store.migrate`."""
    with _transaction(dsn) as connection:
        connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        connection.execute(sa.text(f"set local lock_timeout = {to_milliseconds(LOCK_TIMEOUT)}"))
        done = bring_up(connection, ENGINE, redact(dsn), _read, _put_routines)
        if done.newer:
            return done
        advanced = _advance_ids(connection)
        missing = missing_indexes(_driver(connection))
    created = _create(dsn, missing) if missing else {}
    advice = "; ".join(filter(None, [advanced, *created.values()])) or None
    indexes = tuple(name for name, refusal in created.items() if refusal is None)
    return done._replace(advice=advice, indexes=indexes)


def migration_sql(dsn: str) -> str:
    """See `rowlease.store.engine.Engine`."""
    with _transaction(dsn) as connection:
        before = _read(connection)
        revision = before.revision if before else None
        missing = []
        if before is not None:
            is_newer = before.is_newer(redact(dsn))
            if revision == revisions()[-1] and not is_newer:
                missing = missing_indexes(_driver(connection))
            if not missing and (is_newer or before.is_current(ENGINE)):
                return NOTHING_TO_DO.format(revision)
        lines = [
            SCRIPT_TITLE.format(revision or "none"),
            "begin;",
            f"select pg_advisory_xact_lock({MIGRATION_LOCK});",
            # While the script waits for a table, other transactions that need the table wait, too.
            f"set local lock_timeout = {to_milliseconds(LOCK_TIMEOUT)};",
            upgrade_sql("postgresql", revision),
            *_routines(connection),
            "commit;",
            *(f"{statement};" for one in missing for statement in one.statements),
        ]
    return "\n".join(lines) + "\n"


def schema_differences(dsn: str) -> list[Difference]:
    """See `rowlease.store.engine.Engine`."""
    with _transaction(dsn) as connection:
        check_comparable(_read(connection), redact(dsn))
        expected, found = read_catalogue(ENGINE), catalogue.read(_driver(connection))
        recreated = {name for name in expected if is_recreated(name, expected, found.get(name))}
        return differences(expected, found, "rowlease.schema_info", recreated)


def _create(dsn: str, missing: list[Missing]) -> dict[str, str | None]:
    """Create indexes, unless another migration is creating them.

    Returns:
        The names of the indexes. For an index that rows of its table do not allow: why.
    """
    connector = Connector(libpq_dsn(dsn), "rowlease migrate", MIGRATE)
    created: dict[str, str | None] = {}
    try:
        with closing(_connection(connector)) as connection:
            if not connector.is_proxied:  # else the lock might stay in another client's session
                # Two sessions that create indexes of one table would wait for each other.
                locked = connection.execute("select pg_try_advisory_lock(%s)", [INDEX_LOCK])
                if locked.fetchone() != (True,):
                    return {}
            for one in missing:
                created[one.name] = None
                try:
                    for statement in one.statements:
                        connection.execute(statement.encode())
                except psycopg.IntegrityError as error:
                    text = ": ".join(
                        filter(None, [error.diag.message_primary, error.diag.message_detail])
                    )
                    created[one.name] = (
                        f"the index {one.name} was not created ({text}); correct the rows, and run "
                        "`rowlease migrate` again"
                    )
    except psycopg.Error as error:
        raise our_error(error, redact(dsn), migrating=True) from error
    return created


def _driver(connection: sa.Connection) -> psycopg.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


@contextmanager
def _transaction(dsn: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(
        "postgresql+psycopg://",
        # libpq reads the DSN, as it does for the store. SQLAlchemy would read it differently.
        creator=partial(_connection, Connector(libpq_dsn(dsn), "rowlease migrate", MIGRATE)),
        isolation_level="READ COMMITTED",
        poolclass=sa.NullPool,
    )
    try:
        with engine.begin() as connection:
            yield connection
    except (sa.exc.DBAPIError, psycopg.Error) as error:
        original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        assert isinstance(original, psycopg.Error)
        raise our_error(original, redact(dsn), migrating=True) from original


def _connection(connector: Connector) -> psycopg.Connection:
    connection = connector()
    connection.prepare_threshold = None  # a script has many statements and runs only once
    return connection


def _read(connection: sa.Connection) -> Installed | None:
    if connection.scalar(sa.text("select to_regclass('rowlease.alembic_version')")) is None:
        return None
    row = connection.execute(
        sa.text(
            "select v.version_num, i.oldest_client, i.release, i.routines_hash"
            "  from rowlease.alembic_version v left join rowlease.schema_info i on true"
        )
    ).one_or_none()
    return None if row is None else Installed(Schema(*row[:2]), *row[2:])


def _advance_ids(connection: sa.Connection) -> str | None:
    rows = connection.execute(
        sa.text("select sequence_name, was, next_id from rowlease.advance_ids()")
    )
    return "; ".join(str(Advanced(*row)) for row in rows) or None


def _put_routines(connection: sa.Connection) -> None:
    # This bypasses SQLAlchemy, which would take a % of format() for a placeholder.
    for statement in _routines(connection):
        _driver(connection).execute(statement.encode())


def _routines(connection: sa.Connection) -> list[str]:
    """The statements that replace the routines of the database by those of this release."""
    files = all_files(ENGINE)
    stale = connection.execute(
        sa.text(
            "select p.oid::regprocedure::text"
            "  from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname in ('rowlease', 'rowlease_internal')"
            "   and n.nspname || '.' || p.proname <> all(:names) order by 1"
        ),
        {"names": [f"{script.schema}.{script.name}" for script in files]},
    )
    return [
        # Routines call each other, so a body cannot be checked when it is created.
        "set local check_function_bodies = off;",
        "set local client_min_messages = warning;",
        *(script.body for script in files),
        *(f"drop routine {routine};" for (routine,) in stale.all()),
        *(
            f"comment on {name} is '{text.replace(QUOTE, QUOTE * 2)}';"
            for name, text in read_comments(ENGINE).items()
        ),
        "delete from rowlease.schema_info;",
        "insert into rowlease.schema_info (oldest_client, release, routines_hash, applied_time)"  # noqa: S608 - our own constants
        f" values ('{OLDEST_CLIENT}', '{own_version()}', '{scripts_hash(ENGINE)}', now());",
        # This creates today's history partition before the first request is finished.
        "select rowlease.maintain();",
    ]
