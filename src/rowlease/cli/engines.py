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
@click.option(
    "--blocking-dsn",
    metavar="DSN",
    help="On SQL Server: a second database, with READ_COMMITTED_SNAPSHOT off, for all checks.",
)
@click.option(
    "--role-dsn",
    "role_dsns",
    multiple=True,
    metavar="ROLE=DSN",
    callback=lambda _context, _option, given: _role_dsns(given),
    help="A user who is a member of rowlease_ROLE alone: producer, worker, operator or reader.",
)
def verify(
    dsn: str | None,
    as_json: bool,
    num_requests: int,
    blocking_dsn: str | None,
    role_dsns: dict[str, str],
) -> None:
    """Check the main promises, and the server's locks, waits and plans.

    The checks use a queue that is deleted at the end.

    Use a test database that `rowlease migrate` has prepared, and a user with all four roles. On SQL
    Server, locks and plans need VIEW SERVER STATE and SHOWPLAN. The report names the host and the
    database; it has no data and no password. The exit code is 1 if a check did not pass.
    """
    from rowlease.client.database import database
    from rowlease.verify import verify as verified

    with database(dsn) as found:
        report = verified(
            found,
            num_requests,
            lambda r: say(f"{r.outcome}: {r.check}", err=True),
            blocking_dsn=blocking_dsn,
            role_dsns=role_dsns,
        )
    if as_json:
        results = [each._asdict() for each in report.results]
        show_json({**report._asdict(), "results": results})
    else:
        click.echo(report.text(), nl=False)  # noqa: TID251
    if not report.is_sound:
        raise click.exceptions.Exit(1)


def _role_dsns(given: tuple[str, ...]) -> dict[str, str]:
    found = dict(each.split("=", 1) for each in given if "=" in each)
    if len(found) < len(given) or not found.keys() <= {"producer", "worker", "operator", "reader"}:
        raise click.BadParameter("write producer=DSN, worker=DSN, operator=DSN or reader=DSN")
    return found
