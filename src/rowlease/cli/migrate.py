"""`rowlease migrate`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option, show_json


@click.command()
@dsn_option
@json_option
def migrate(dsn: str | None, as_json: bool) -> None:
    """Bring a database to this version's tables and routines.

    Safe to run again, and from several hosts at once; workers may go on meanwhile. It only ever
    adds, and does all of it or nothing.
    """
    from rowlease.store import database, redact
    from rowlease.store.migrate import migrate as bring_up

    with database(dsn) as found:
        done = bring_up(found)
    where = redact(found)
    if as_json:
        show_json({**done._asdict(), "database": where})
    elif done.changed:
        before = done.from_revision or "an empty database"
        click.echo(f"{where}: from {before} to schema {done.to_revision}, {done.routines} routines")
    else:
        click.echo(f"{where}: schema {done.to_revision} is up to date")
