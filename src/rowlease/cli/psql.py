"""`rowlease url` and `rowlease psql`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import click

from rowlease.cli.options import dsn_option
from rowlease.cli.say import say


@click.command()
@dsn_option
def url(dsn: str | None) -> None:
    """Print the URL of the database, with its password.

    The other commands use the same database. The URL of the embedded server is usually the same at
    each start. The server runs only while a program uses it, so keep `rowlease up` running.
    """
    from rowlease.client.database import database, log_start

    def starting(home: str, is_first: bool) -> None:
        log_start(home, is_first)
        hint = "The server runs only while a program uses it; `rowlease up` keeps it up."
        say(hint, err=True)

    with database(dsn, starting=starting) as found:
        click.echo(found)  # noqa: TID251


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@dsn_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(dsn: str | None, arguments: tuple[str, ...]) -> None:
    """Open the database in psql.

    The other commands use the same database.

    \b
    ARGUMENTS are passed to psql:
      rowlease psql -c "select * from rowlease.depth()"
    """
    from rowlease.client.database import database
    from rowlease.embedded.binaries import psql as program
    from rowlease.store import engine_of

    with database(dsn) as found:
        connection, variables = engine_of(found).psql_connection()
        # Ctrl-C cancels the query in psql, and must not end this process. Use a handler instead of
        # SIG_IGN, because psql would inherit SIG_IGN.
        before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
        try:
            done = subprocess.run(
                [program(), *arguments, "--dbname", connection],
                env={**os.environ, **variables},
                check=False,
            )
        finally:
            signal.signal(signal.SIGINT, before)
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
