"""`rowlease spark-enqueue`."""

from __future__ import annotations

import click

from rowlease.cli.options import dsn_option, json_option, show_json
from rowlease.cli.say import say
from rowlease.counts import counted


@click.command("spark-enqueue")
@click.argument("kind")
@click.option(
    "--input",
    "source",
    required=True,
    help="A file, a folder or a URI that Spark can read. Each row becomes a request.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "csv", "json"]),
    required=True,
    help="For csv, a comma separates the values, the first line has the names of the columns, and "
    "the encoding is UTF-8. For json, each line is an object.",
)
@click.option("--queue", default="default", show_default=True, help="The name of the queue.")
@click.option(
    "--payload",
    metavar="COLUMN",
    help="The column with the payload, JSON text or a struct. Default: the whole row.",
)
@click.option("--priority", metavar="COLUMN", help="The column with the priority, an integer.")
@click.option("--dedup-key", metavar="COLUMN", help="The column with the dedup key.")
@click.option("--group-key", metavar="COLUMN", help="The column with the group key.")
@click.option("--due-time", metavar="COLUMN", help="The column with the due time, a timestamp.")
@click.option(
    "--headers", metavar="COLUMN", help="The column with the headers, JSON text or a struct."
)
@click.option("--load-id", help="A name for this load. Runs with the same load id enqueue once.")
@click.option(
    "--writers",
    type=click.IntRange(1),
    help="The maximum number of connections that write at once. Default: one for each running "
    "Spark task.",
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
    headers: str | None,
    load_id: str | None,
    writers: int | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Enqueue a request for each row of a file, by Spark.

    KIND is the task. Either all rows are enqueued, or none.

    The command starts a Spark session on this machine, which needs the extra rowlease[spark]. Under
    spark-submit, the command uses the session of spark-submit; see docs/spark.md.
    """
    from rowlease.cli.logs import set_up_logging
    from rowlease.client.database import connect, database

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
                    headers=headers,
                    load_id=load_id,
                    writers=writers,
                )
    if as_json:
        show_json(done._asdict())
        return
    line = f"{done.num_enqueued:,} of {counted(done.num_rows, 'row')} enqueued into {queue}"
    if done.num_duplicates:
        line += f"; {done.num_duplicates:,} have the dedup key of a live request or an earlier row"
    if done.num_clamped:
        line += f"; {done.num_clamped:,} had a priority above the queue's maximum"
    if done.outcome == "repeat":
        line += "; an earlier run with this load id has already enqueued them"
    say(line)
