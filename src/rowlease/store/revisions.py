"""The schema's revisions, and the upgrade of a database to the latest.

Every client checks the revision when it connects, without loading SQLAlchemy or Alembic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from rowlease.errors import SchemaMismatch
from rowlease.store.routines import packaged, scripts, scripts_hash

if TYPE_CHECKING:
    import sqlalchemy as sa
    from alembic.config import Config

#: Alembic keeps its state in globals, so one thread at a time may use it.
_alembic = Lock()

#: The revision of the release before this one, whose calls still work after this release has
#: migrated. It increases with each release that changes a table.
OLDEST_CLIENT = "0001"

#: The first line of the output of `rowlease migrate --sql`, and all of it if nothing is to do.
SCRIPT_TITLE = "-- rowlease migrate: from schema {} to this release's"
NOTHING_TO_DO = "-- rowlease migrate: schema {} and its routines are up to date, nothing to do\n"


class Migrated(NamedTuple):
    """The result of `migrate`.

    Attributes:
        from_revision: the schema before; None for an empty database.
        to_revision: the schema now.
        routines: how many files of sql/ there are.
        changed: did this call change anything?
        newer: was it left unchanged, because a newer release has migrated it?
    """

    from_revision: str | None
    to_revision: str
    routines: int
    changed: bool
    newer: bool = False


class Schema(NamedTuple):
    """The schema of a database, as every client can see it.

    Attributes:
        revision: of its tables.
        oldest_client: the oldest revision that a client must know; None if no routines were
            installed yet.
    """

    revision: str
    oldest_client: str | None


class Installed(NamedTuple):
    """The schema and routines of a database, for `migrate`.

    Attributes:
        schema: its tables.
        release: the release of its routines; None if none were installed yet.
        routines_hash: their fingerprint; None likewise.
    """

    schema: Schema
    release: str | None
    routines_hash: str | None

    @property
    def revision(self) -> str:
        return self.schema.revision

    def is_newer(self, where: str) -> bool:
        """Has a newer release migrated the database?

        Raises:
            SchemaMismatch: it is too new for this release.
        """
        newer = self.revision not in revisions() or is_older(self.release or "")
        if newer:
            check_schema(self.schema, where)
        return newer

    def is_current(self, engine: str) -> bool:
        """Does the database have this release's tables and routines?"""
        return self.revision == revisions()[-1] and self.routines_hash == scripts_hash(engine)


def check_schema(schema: Schema | None, where: str) -> None:
    """Raise SchemaMismatch unless this version works with a database's schema.

    It works with its own schema, and with a newer one that allows it: release N runs on the schemas
    of N and N+1.

    Args:
        schema: of the database; None if it has none.
        where: the DSN without the password, for messages.
    """
    known = revisions()
    if schema is None or (schema.revision in known and schema.revision != known[-1]):
        raise SchemaMismatch(
            f"the database at {where} is at schema {schema.revision if schema else 'none'}; "
            "run `rowlease migrate`"
        )
    # Revisions have four digits, so they can be compared as texts.
    oldest = schema.oldest_client or schema.revision
    if oldest > known[-1]:
        raise SchemaMismatch(
            f"the database at {where} is at schema {schema.revision}, which works with releases of "
            f"schema {oldest} or newer; this rowlease is of schema {known[-1]}: "
            "install a newer one"
        )


def check_comparable(installed: Installed | None, where: str) -> None:
    """Raise SchemaMismatch unless the database is at this release's schema."""
    if installed is not None and installed.is_newer(where):
        raise SchemaMismatch(
            f"the database at {where} was migrated by a newer release; compare it with that release"
        )
    check_schema(installed and installed.schema, where)


def is_older(release: str) -> bool:
    """Is this version older than the release whose routines a database has?"""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    ours = numbers(own_version())  # empty if rowlease is not installed as a package
    return bool(ours) and ours < numbers(release)


def own_version() -> str:
    """The version of rowlease that runs here."""
    try:
        return version("rowlease")
    except PackageNotFoundError:
        return "unknown"


def revisions() -> list[str]:
    """The revisions that this version knows, oldest first: the prefixes of their files.

    They are read from the folder, because loading Alembic would double the time of a start.
    """
    files = (packaged("migrations") / "versions").glob("[!_]*.py")
    return sorted(file.stem.partition("_")[0] for file in files)


def bring_up(
    connection: sa.Connection,
    engine: str,
    where: str,
    read: Callable[[sa.Connection], Installed | None],
    put_routines: Callable[[sa.Connection], None],
) -> Migrated:
    """Upgrade a database to this release: tables by Alembic, then routines, if any differ.

    Args:
        connection: in the transaction that holds the migration's lock.
        engine: "postgresql" or "sqlserver".
        where: the DSN without the password, for messages.
        read: reads the schema and routines of the database; None if it has no schema.
        put_routines: replaces the routines of the database by those of this release.
    """
    files = len(scripts(engine))
    before = read(connection)
    if before is not None and before.is_newer(where):
        return Migrated(before.revision, before.revision, files, changed=False, newer=True)
    upgrade(connection)
    after = read(connection)
    assert after is not None
    from_revision = before.revision if before else None
    # A new table gets its owner and grants from the scripts.
    changed = from_revision != after.revision or not after.is_current(engine)
    if changed:
        put_routines(connection)
    return Migrated(from_revision, after.revision, files, changed)


def upgrade(connection: sa.Connection) -> None:
    """Run Alembic's revisions on this connection, in its transaction."""
    from alembic import command

    with _alembic:
        command.upgrade(_config(connection=connection), "head")


def upgrade_sql(dialect: str, revision: str | None) -> str:
    """The script that `upgrade` would execute on a database of this revision.

    Args:
        dialect: "postgresql" or "mssql", whose batches end in a line GO.
        revision: of the database; None for an empty one.
    """
    from alembic import command

    if revision == revisions()[-1]:
        return ""
    script = StringIO()
    config = _config(dialect=dialect)
    config.output_buffer = script
    with _alembic:
        command.upgrade(config, f"{revision or 'base'}:head", sql=True)
    return script.getvalue()


def _config(**attributes: Any) -> Config:
    from alembic.config import Config

    config = Config(attributes=attributes)
    config.set_main_option("script_location", str(packaged("migrations")).replace("%", "%%"))
    return config


def run_script(revision: str) -> None:
    """Execute the SQL script beside a revision's file, from within that revision.

    `0001_baseline.py` has `0001_baseline_postgresql.sql` and `0001_baseline_sqlserver.sql`. A T-SQL
    script is executed in batches that end in a line `go`, as sqlcmd does.

    Args:
        revision: the revision's `__file__`.
    """
    from alembic import op

    context = op.get_context()
    is_mssql = context.dialect.name == "mssql"
    file = Path(revision)
    file = file.with_name(f"{file.stem}_{'sqlserver' if is_mssql else 'postgresql'}.sql")
    text = file.read_text(encoding="utf-8")
    if context.as_sql:
        context.impl.static_output(text.rstrip() + ("\nGO\n" if is_mssql else "\n"))
        return
    connection = op.get_bind()
    if is_mssql:
        for batch in text.split("\ngo\n"):
            connection.exec_driver_sql(batch)
    else:
        # Directly on the driver, because SQLAlchemy would take a % for a placeholder.
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute(text)
