"""`rowlease engines`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option, show_json
from rowlease.cli.say import say


@click.group()
def engines() -> None:
    """Test whether a server keeps rowlease's promises."""


@engines.command()
@dsn_option
@json_option
@click.option(
    "--requests",
    "num_requests",
    type=click.IntRange(100, 1_000_000),
    default=5_000,
    show_default=True,
    help="How many requests the first check enqueues, claims and finishes.",
)
def verify(dsn: str | None, as_json: bool, num_requests: int) -> None:
    """Check the main promises, and the server's locks and plans.

    The checks use a queue that is deleted at the end.

    Use a test database that `rowlease migrate` has prepared, and a user with all four roles. On SQL
    Server, locks and plans need VIEW SERVER STATE. The report names the host and the database; it
    has no data and no password. The exit code is 1 if a check did not pass.
    """
    from rowlease.client.database import database
    from rowlease.verify import verify as verified

    with database(dsn) as found:
        report = verified(found, num_requests, lambda r: say(f"{r.outcome}: {r.check}", err=True))
    if as_json:
        results = [each._asdict() for each in report.results]
        show_json({**report._asdict(), "results": results})
    else:
        click.echo(report.text(), nl=False)  # noqa: TID251
    if not report.is_sound:
        raise click.exceptions.Exit(1)
