"""`rowlease migrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rowlease.cli.options import dsn_option, json_option, show_json
from rowlease.cli.say import say
from rowlease.counts import counted

if TYPE_CHECKING:
    from rowlease.store import Difference


WAITS_FOR_A_LOCK = "another session holds a table that the migration needs; trying again …"


@click.command()
@dsn_option
@json_option
@click.option(
    "--sql",
    "as_sql",
    is_flag=True,
    help="Only print the script, which a DBA can review and run with psql or sqlcmd.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Only compare the database with this release. Print each difference with advice, and exit "
    "with 1 if there is any.",
)
@click.option(
    "--allow-blocking-reads",
    is_flag=True,
    help="On SQL Server, accept a database whose READ_COMMITTED_SNAPSHOT is off: readers of a row "
    "wait for its writers.",
)
def migrate(
    dsn: str | None, as_json: bool, as_sql: bool, check: bool, allow_blocking_reads: bool
) -> None:
    """Create or update the tables and routines of this version.

    You may repeat this command, run it on several hosts at once, and run it while workers work. All
    changes are made in one transaction. Tables and data are kept. Routines are replaced, and
    routines that this version no longer has are dropped. Then missing indexes are created one by
    one, without locking out writers.
    """
    from rowlease.client.database import database
    from rowlease.store import engine_of, redact
    from rowlease.store import migrate as bring_up

    if as_sql and (as_json or check):
        raise click.UsageError(
            "--sql prints a script; it cannot be combined with --json or --check"
        )
    if check:
        with database(dsn) as found:
            differences = engine_of(found).schema_differences()
            show_differences(differences, redact(found), as_json)
        return
    if as_sql:
        with database(dsn) as found:
            click.echo(engine_of(found).migration_sql(), nl=False)  # noqa: TID251
        return
    with database(dsn) as found:
        done = bring_up(
            found,
            allow_blocking_reads=allow_blocking_reads,
            on_retry=lambda _: say(WAITS_FOR_A_LOCK, err=True),
        )
    where = redact(found)
    if done.advice:
        say(f"{where}: {done.advice}", err=True)
    if as_json:
        show_json({**done._asdict(), "database": where})
        return
    for index in done.indexes:
        say(f"{where}: created the missing index {index}")
    if done.changed:
        before = done.from_revision or "an empty database"
        say(f"{where}: from {before} to schema {done.to_revision}, {done.routines} routines")
    elif done.newer:
        say(
            f"{where}: schema {done.to_revision} is from a newer release, and works with this one; "
            "nothing to do"
        )
    else:
        say(f"{where}: schema {done.to_revision} is up to date")


def show_differences(found: list[Difference], where: str, as_json: bool) -> None:
    """Print one line for each difference; exit with 1 if there is any."""
    if as_json:
        show_json({"database": where, "differences": [one._asdict() for one in found]})
    else:
        for one in found:
            if one.found is None:
                say(f"missing: {one.object}; {one.advice}")
            elif one.expected is None:
                say(f"not part of rowlease: {one.object}; {one.advice}")
            else:
                say(f"changed: {one.object}: {one.found or 'the default'}; {one.advice}")
        count = counted(len(found), "difference") if found else "no differences"
        say(f"{where}: {count} from this release")
    if found:
        raise click.exceptions.Exit(1)
