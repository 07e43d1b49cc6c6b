"""The revisions of the schema, and the upgrade of a database to the latest one.

Every client checks the revision when it connects, without loading SQLAlchemy or Alembic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from rowlease.errors import SchemaMismatch
from rowlease.store.routines import all_files, packaged_folder, scripts_hash

if TYPE_CHECKING:
    import sqlalchemy as sa
    from alembic.config import Config

#: Alembic keeps its state in globals, so one thread at a time may use it.
_alembic = Lock()

#: The revision of the previous release. Clients of that release still work after this release has
#: migrated the database. Each release that changes a table increases this number.
OLDEST_CLIENT = "0001"

#: The first line of the output of `rowlease migrate --sql`.
SCRIPT_TITLE = "-- rowlease migrate: from schema {} to this release's"
#: The whole output if there is nothing to do.
NOTHING_TO_DO = "-- rowlease migrate: schema {} and its routines are up to date, nothing to do\n"


class Migrated(NamedTuple):
    """The result of `migrate`.

    Attributes:
        from_revision: the revision before the call; None for an empty database.
        to_revision: the revision now.
        routines: the number of files in sql/ for this engine.
        changed: whether this call changed anything.
        newer: whether the database was left unchanged because a newer release has migrated it.
        advice: a setting of the database that should be changed, sequences that were advanced
            because they were behind, and indexes that could not be created; None if there is none.
        indexes: the missing indexes that this call has created; only on PostgreSQL.
    """

    from_revision: str | None
    to_revision: str
    routines: int
    changed: bool
    newer: bool = False
    advice: str | None = None
    indexes: Sequence[str] = ()


class Schema(NamedTuple):
    """The schema of a database, as every client can see it.

    Attributes:
        revision: the revision of the tables.
        oldest_client: the oldest revision whose clients still work; None if no routines are
            installed yet.
    """

    revision: str
    oldest_client: str | None


class Installed(NamedTuple):
    """The schema and routines of a database, for `migrate`.

    Attributes:
        schema: the schema of the tables.
        release: the release of the routines; None if none are installed yet.
        routines_hash: a hash of the routines; None if none are installed yet.
    """

    schema: Schema
    release: str | None
    routines_hash: str | None

    @property
    def revision(self) -> str:
        return self.schema.revision

    def is_newer(self, where: str) -> bool:
        """Whether a newer release has migrated the database.

        Raises:
            SchemaMismatch: the database is too new for this release.
        """
        newer = self.revision not in revisions() or is_older(self.release or "")
        if newer:
            check_schema(self.schema, where)
        return newer

    def is_current(self, engine: str) -> bool:
        """Whether the database has the tables and routines of this release."""
        return self.revision == revisions()[-1] and self.routines_hash == scripts_hash(engine)


def check_schema(schema: Schema | None, where: str) -> None:
    """Raise SchemaMismatch unless this version works with a database's schema.

    A version works with its own schema, and with a newer schema that still allows this version:
    release N runs on the schemas of releases N and N+1.

    Args:
        schema: the schema of the database; None if there is none.
        where: the DSN without the password, for messages.
    """
    known = revisions()
    if schema is None or (schema.revision in known and schema.revision != known[-1]):
        raise SchemaMismatch(
            f"the database at {where} is at schema {schema.revision if schema else 'none'}; "
            "run `rowlease migrate`"
        )
    # Revisions have four digits, so they can be compared as strings.
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
    """Whether this version is older than the release whose routines a database has."""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    ours = numbers(own_version())  # empty if rowlease is not installed as a package
    return bool(ours) and ours < numbers(release)


def own_version() -> str:
    """The version of this rowlease."""
    try:
        return version("rowlease")
    except PackageNotFoundError:
        return "unknown"


def revisions() -> list[str]:
    """The revisions that this version knows, oldest first: the prefixes of the files' names.

    The names are read from the folder, because importing Alembic would double the start-up time.
    """
    files = (packaged_folder("migrations") / "versions").glob("[!_]*.py")
    return sorted(file.stem.partition("_")[0] for file in files)


def bring_up(
    connection: sa.Connection,
    engine: str,
    where: str,
    read: Callable[[sa.Connection], Installed | None],
    put_routines: Callable[[sa.Connection], None],
) -> Migrated:
    """Upgrade a database to this release: first the tables by Alembic, then the routines.

    Args:
        connection: a connection whose transaction holds the migration's lock.
        engine: "postgresql" or "sqlserver".
        where: the DSN without the password, for messages.
        read: a function that reads what is installed in the database; None if it has no schema.
        put_routines: a function that installs the routines of this release in the database.
    """
    files = len(all_files(engine))
    before = read(connection)
    if before is not None and before.is_newer(where):
        return Migrated(before.revision, before.revision, files, changed=False, newer=True)
    upgrade(connection)
    after = read(connection)
    assert after is not None
    from_revision = before.revision if before else None
    # The scripts of the routines also set the owners and grants of new tables.
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
        dialect: "postgresql" or "mssql". Each batch for "mssql" ends in a line GO.
        revision: the revision of the database; None if it is empty.
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
    config.set_main_option("script_location", str(packaged_folder("migrations")).replace("%", "%%"))
    return config


def run_script(revision: str) -> None:
    """Execute the SQL script beside a revision's file. Only the revision calls this.

    Beside `0001_tables.py` are `0001_tables_postgresql.sql` and `0001_tables_sqlserver.sql`.
    As in sqlcmd, a T-SQL script is executed in batches, each of which ends in a line `go`.

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
        # This bypasses SQLAlchemy, which would take a % for a placeholder.
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute(text)
