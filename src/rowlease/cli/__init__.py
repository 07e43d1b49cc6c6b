"""The command line: a module for each command.

A command imports what it needs when it runs, so `--help` is instant.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from rowlease.cli.demo import demo
from rowlease.cli.depth import depth
from rowlease.cli.enqueue import enqueue
from rowlease.cli.migrate import migrate
from rowlease.cli.psql import psql, url
from rowlease.cli.queue import queue
from rowlease.cli.report import report
from rowlease.cli.schedule import schedule
from rowlease.cli.spark_enqueue import spark_enqueue
from rowlease.cli.top import top
from rowlease.cli.worker import worker
from rowlease.errors import RowleaseError

EXIT_CODES = """\b
Exit codes:
  0    done (worker: drained, or stopped as asked)
  1    failed (demo: rows differ; else see the message)
  2    wrong usage, settings or input
  3    the database cannot be reached, or its schema or grants do not fit
  4    refused: the queue is full
  130  interrupted; run it again to continue
"""


@click.group(epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rowlease")
def cli() -> None:
    """The job queue that lives in one SQL table.

    \b
    Without any set-up:
      rowlease demo --rows 20000
    With your own tasks:
      rowlease migrate                          make or update the tables
      rowlease queue create images              queues: create, set, list, pause, delete
      rowlease enqueue resize --payload '{"image": "a.png"}'
      rowlease spark-enqueue resize --input a.parquet --format parquet
      rowlease worker myapp.tasks               lease requests and run them
      rowlease depth                            requests that wait, run or have failed
      rowlease top                              queues and workers, live
      rowlease report                           throughput, waits, failures: tables, a chart
      rowlease schedule list                    schedules, and when they fire next
      rowlease psql                             the same database in psql; rowlease url: its URL
    """


for command in (
    migrate,
    queue,
    enqueue,
    spark_enqueue,
    worker,
    depth,
    top,
    report,
    schedule,
    psql,
    url,
    demo,
):
    cli.add_command(command)


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
        say("Interrupted; run it again to continue.")
        sys.exit(130)


def say(sentence: str) -> None:
    """Print one line on stderr; the message of a driver may have several."""
    click.echo(" ".join(sentence.split()), err=True)
