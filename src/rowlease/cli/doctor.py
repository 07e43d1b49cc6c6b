"""`rowlease doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rowlease.cli.options import dsn_option, json_option, show_json

if TYPE_CHECKING:
    from rowlease.model import Finding


@click.command()
@dsn_option
@json_option
def doctor(dsn: str | None, as_json: bool) -> None:
    """Find what is wrong with the queues and their database.

    Each finding is a sentence with an action. The exit code is 1 if there are findings. The command
    needs the role rowlease_reader. To see the sessions of other users in full, it also needs
    PostgreSQL's role pg_read_all_stats.
    """
    from rowlease.database import database
    from rowlease.store import redact

    with database(dsn) as found:
        where = redact(found)
        findings = examine(found)
    if as_json:
        show_json({"database": where, "findings": [each._asdict() for each in findings]})
    else:
        for each in findings:
            click.echo(f"{each.finding}: {each.message}; {each.action}")
        count = "1 finding" if len(findings) == 1 else f"{len(findings) or 'no'} findings"
        click.echo(f"{where}: {count}")
    if findings:
        raise click.exceptions.Exit(1)


def examine(dsn: str) -> list[Finding]:
    """The findings: first the server, then sessions, queues and the schema."""
    from contextlib import closing
    from datetime import UTC, datetime

    from rowlease.errors import AccessDenied
    from rowlease.model import Finding
    from rowlease.store import open_store, schema_differences

    with closing(open_store(dsn)) as store:
        store.check_schema()
        sessions = store.diagnose_sessions()
        findings = [*store.diagnose_server(datetime.now(UTC)), *sessions, *store.diagnose()]
    try:
        different = schema_differences(dsn)
    except AccessDenied as error:
        unknown = "the schema was not compared with this release"
        return [*findings, Finding("drift", "the schema", unknown, str(error))]
    return [
        *findings,
        *(
            Finding("drift", one.object, f"{one.object} is not as in this release", one.advice)
            for one in different
        ),
    ]
