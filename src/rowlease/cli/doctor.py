"""`rowlease doctor`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option, show_json
from rowlease.cli.say import say
from rowlease.counts import counted


@click.command()
@dsn_option
@json_option
def doctor(dsn: str | None, as_json: bool) -> None:
    """Find problems of the queues and of their database.

    Each finding is a sentence with an action. The exit code is 1 if there are findings. The command
    needs the role rowlease_reader. To see the sessions of other users in full, it also needs
    PostgreSQL's role pg_read_all_stats.
    """
    from rowlease.client.database import database
    from rowlease.doctor import examine
    from rowlease.store import redact

    with database(dsn) as found:
        where = redact(found)
        findings = examine(found)
    if as_json:
        show_json({"database": where, "findings": [each._asdict() for each in findings]})
    else:
        for each in findings:
            say(f"{each.finding}: {each.message}; {each.action}")
        count = counted(len(findings), "finding") if findings else "no findings"
        say(f"{where}: {count}")
    if findings:
        raise click.exceptions.Exit(1)
