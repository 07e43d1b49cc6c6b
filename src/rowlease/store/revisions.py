"""The schema's revisions: which there are, and how a database gets to the latest.

Every client asks about them when it connects; none needs to load SQLAlchemy or Alembic for it.
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

#: Alembic keeps what it is doing in globals of its own: one thread at a time.
_alembic = Lock()

#: The revision of the last release before this one: what it calls still works after this release
#: has migrated. It moves up with each release that changes a table.
OLDEST_CLIENT = "0001"

#: The first line of what `rowlease migrate --sql` prints, and all of it where there is no more.
SCRIPT_TITLE = "-- rowlease migrate: from schema {} to this release's"
NOTHING_TO_DO = "-- rowlease migrate: schema {} and its routines are up to date, nothing to do\n"


class Migrated(NamedTuple):
    """What `migrate` found and did.

    Attributes:
        from_revision: the schema before; None for an empty database.
        to_revision: the schema now.
        routines: how many files of sql/ there are.
        changed: did this call change anything?
        newer: was the database migrated by a newer release, and so left as it is?
    """

    from_revision: str | None
    to_revision: str
    routines: int
    changed: bool
    newer: bool = False


class Difference(NamedTuple):
    """One object that is not as this release makes it.

    Attributes:
        object: its kind and name, such as `column rowlease.queue.kind`.
        expected: its definition in this release; None where the release has no such object.
        found: its definition in the database; None where it is missing there.
    """

    object: str
    expected: str | None
    found: str | None


class Schema(NamedTuple):
    """What a database says of its schema to every client.

    Attributes:
        revision: of its tables.
        oldest_client: the revision that a client must know at least; None if no release has yet
            put its routines into these tables.
    """

    revision: str
    oldest_client: str | None


class Installed(NamedTuple):
    """What a database has, for those who may change it.

    Attributes:
        schema: its tables.
        release: whose routines these are; None if no release has yet put any into these tables.
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
            SchemaMismatch: it is so new that this release does not work with it.
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

    It works with its own, and with a newer one whose release says so: release N runs on the schemas
    of N and N+1.

    Args:
        schema: what the database says of itself; None if it has no schema.
        where: the database's name for people, without a password.
    """
    known = revisions()
    if schema is None or (schema.revision in known and schema.revision != known[-1]):
        raise SchemaMismatch(
            f"the database at {where} is at schema {schema.revision if schema else 'none'}; "
            "run `rowlease migrate`"
        )
    # Revisions are numbers of four digits, so their order is that of their names.
    oldest = schema.oldest_client or schema.revision
    if oldest > known[-1]:
        raise SchemaMismatch(
            f"the database at {where} is at schema {schema.revision}, which works with releases of "
            f"schema {oldest} or newer; this rowlease is of schema {known[-1]}: "
            "install a newer one"
        )


def is_older(release: str) -> bool:
    """Is this version older than the release whose routines a database has?"""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    ours = numbers(own_version())  # none where rowlease runs without having been installed
    return bool(ours) and ours < numbers(release)


def own_version() -> str:
    """The version of rowlease that runs here."""
    try:
        return version("rowlease")
    except PackageNotFoundError:
        return "unknown"


def revisions() -> list[str]:
    """The revisions this version knows, oldest first: what the names of their files begin with.

    Read from the folder: to load Alembic takes as long as all the rest.
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
    """Bring a database to this release: tables by Alembic, then routines, if anything differs.

    Args:
        connection: in the transaction that holds the migration's lock.
        engine: "postgresql" or "sqlserver".
        where: the database's name for people, without a password.
        read: what the database has; None if it has no schema.
        put_routines: puts this release's routines in place of those that are there.
    """
    files = len(scripts(engine))
    before = read(connection)
    if before is not None and before.is_newer(where):
        return Migrated(before.revision, before.revision, files, changed=False, newer=True)
    upgrade(connection)
    after = read(connection)
    assert after is not None
    from_revision = before.revision if before else None
    # A new table has no owner and no grants before the scripts have run.
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
    """What `upgrade` executes on a database of this revision, as a script.

    Args:
        dialect: "postgresql" or "mssql", whose batches end in a line GO.
        revision: what the database is at; None for an empty one.
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
    script is executed batch by batch, each up to a line `go` by itself, as sqlcmd does.

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
        # Straight to the driver: SQLAlchemy would look for placeholders, of which % is one.
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute(text)
