"""`rowlease report`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click

from rowlease.cli.options import dsn_option, duration, json_option, needs_extra, show_json
from rowlease.cli.say import say


def parse_moment(text: str) -> datetime | timedelta:
    """Parse a time: `2026-11-21`, `2026-11-21T08:00+01:00`, or `24h` for 24 hours ago."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        try:
            return duration(text)
        except click.BadParameter:
            raise click.BadParameter(
                f"{text!r} is not a time; write 2026-11-21, 2026-11-21T08:00 (UTC) or 24h (ago)"
            ) from None


@click.command()
@click.option(
    "--queue", "queues", multiple=True, help="Only this queue. May be given several times."
)
@click.option(
    "--since",
    type=parse_moment,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="The start: 2026-11-21, 2026-11-21T08:00 (UTC unless it has a zone), or a duration before "
    "now: 90m, 7d.",
)
@click.option(
    "--until",
    type=parse_moment,
    default="0s",
    metavar="TIME",
    help="The end, in the same form. Default: now.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="rowlease-report",
    show_default=True,
    help="The folder for the tables and the chart, report.png.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "json", "parquet"]),
    default="csv",
    show_default=True,
    help="The format of the tables; json has one object per line.",
)
@dsn_option
@json_option
def report(
    queues: tuple[str, ...], since: datetime | timedelta, until: datetime | timedelta,
    output: Path, form: str, dsn: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Report throughput, waits, runs and failures.

    Spark reads the history and the queue. It counts the requests that were completed, cancelled or
    became dead letters between two times of the database's clock.

    \b
    wait  from when the request was enqueued and due until it was last leased;
          each retry has a new due time
    run   from when the request was last leased until it was completed

    Times are rounded to 0.1 ms, and percentiles of the rounded times are exact. The command needs
    the role rowlease_reader, and works only with PostgreSQL.
    """
    from rich.console import Console

    needs_extra("report", "pyspark", "matplotlib")
    from rowlease.client.database import database
    from rowlease.report import make_report
    from rowlease.report.tables import as_json as data_of
    from rowlease.report.tables import show

    with database(dsn) as found:
        made = make_report(found, queues=queues, since=since, until=until, output=output, form=form)
    if as_json:
        show_json(data_of(made.figures, made.files))
        return
    window = f"{made.figures.since:%Y-%m-%d %H:%M} and {made.figures.until:%Y-%m-%d %H:%M} UTC"
    if not made.files:
        where = f" in {' or '.join(queues)}" if queues else ""
        say(
            f"no request was completed or failed{where} between {window}; look further back with "
            "--since 30d, or count waiting requests with `rowlease depth`"
        )
        return
    console = Console()
    console.print(f"Between {window}, by the database's clock", highlight=False)
    console.print()
    show(made.figures, console)
    console.print(f"Files: {', '.join(map(str, made.files))}", highlight=False, soft_wrap=True)
