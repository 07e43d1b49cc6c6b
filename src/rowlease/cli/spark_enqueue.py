"""`rowlease spark-enqueue`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option, show_json


@click.command("spark-enqueue")
@click.argument("kind")
@click.option(
    "--input",
    "source",
    required=True,
    help="A file, a folder or a URI that Spark reads; each row becomes one request.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "json"]),
    required=True,
    help="csv: the first line names the columns. json: one object per line.",
)
@click.option("--queue", default="default", show_default=True)
@click.option("--payload", metavar="COLUMN", help="JSON text or a struct. Default: the whole row.")
@click.option("--priority", metavar="COLUMN", help="Whole numbers; bigger is more urgent.")
@click.option("--dedup-key", metavar="COLUMN", help="A row whose key is live is left out.")
@click.option("--group-key", metavar="COLUMN", help="Requests of a group run one at a time.")
@click.option("--due-time", metavar="COLUMN", help="Timestamps; not claimed before them.")
@click.option(
    "--load-id", help="Each load id enqueues once: with one, a failed run can be repeated."
)
@dsn_option
@json_option
def spark_enqueue(
    kind: str,
    source: str,
    form: str,
    queue: str,
    payload: str | None,
    priority: str | None,
    dedup_key: str | None,
    group_key: str | None,
    due_time: str | None,
    load_id: str | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Enqueue the rows of a file for the task KIND, by the million, all or none.

    It starts a Spark session on this machine (needs the extra rowlease[spark]). Under spark-submit
    it uses the submitted one; see docs/spark.md.
    """
    from rowlease.cli.logs import set_up_logging
    from rowlease.database import connect, database

    set_up_logging("text", "info")

    with database(dsn) as found:
        with connect(found):
            pass  # check the schema before Spark starts
        from rowlease.spark import enqueue
        from rowlease.spark.files import file_errors, read_files
        from rowlease.spark.session import a_session

        with a_session("rowlease spark-enqueue", found) as session:
            frame = read_files(session, source, form)
            with file_errors(source, form):
                done = enqueue(
                    frame,
                    found,
                    queue=queue,
                    kind=kind,
                    payload=payload,
                    priority=priority,
                    dedup_key=dedup_key,
                    group_key=group_key,
                    due_time=due_time,
                    load_id=load_id,
                )
    if as_json:
        show_json(done._asdict())
        return
    line = f"{done.num_enqueued:,} of {done.num_rows:,} rows enqueued into {queue}"
    if done.num_duplicates:
        line += f"; {done.num_duplicates:,} have a dedup key that is live or came before"
    if done.outcome == "repeat":
        line += "; an earlier run of this load id has enqueued them"
    click.echo(line)
