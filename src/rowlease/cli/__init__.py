"""The command line: a module for each command.

A command imports other modules only when it runs, so that `--help` is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from rowlease.cli.batch import batch
from rowlease.cli.change_requests import CHANGES
from rowlease.cli.config import commands, config, defaults, name_variables, place_of_error
from rowlease.cli.dashboard import dashboard
from rowlease.cli.declared_queues import apply
from rowlease.cli.demo import demo
from rowlease.cli.depth import depth
from rowlease.cli.doctor import doctor
from rowlease.cli.engines import engines
from rowlease.cli.enqueue import enqueue
from rowlease.cli.exporter import exporter
from rowlease.cli.loads import loads
from rowlease.cli.migrate import migrate
from rowlease.cli.operations import operations
from rowlease.cli.psql import psql, url
from rowlease.cli.queue import queue
from rowlease.cli.report import report
from rowlease.cli.requests import requests
from rowlease.cli.say import say
from rowlease.cli.schedule import schedule
from rowlease.cli.spark_enqueue import spark_enqueue
from rowlease.cli.top import top
from rowlease.cli.up import up
from rowlease.cli.worker import worker
from rowlease.cli.workers import workers
from rowlease.errors import RowleaseError, WrongFilter

EXIT_CODES = """\b
Exit codes:
  0    done (a worker: it has drained, or was stopped by a signal)
  1    failed; see the message (demo: rows differ)
  2    wrong usage, settings or input
  3    the database cannot be reached, or has a wrong schema or wrong grants
  4    refused: the queue is full
  130  interrupted; run it again to continue
"""


HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


@click.group(epilog=EXIT_CODES, context_settings=HELP)
@click.version_option(package_name="rowlease")
@click.pass_context
def cli(context: click.Context) -> None:
    """A job queue in one SQL table.

    \b
    With your own tasks, in myapp/tasks.py:
      rowlease queue create images capacity=1000
      rowlease enqueue resize --queue images --payload '{"image": "a.png"}'
      rowlease worker myapp.tasks
      rowlease requests list 'queue:images status:failed'
    First, on your own database (ROWLEASE_DSN):
      rowlease migrate
    With Spark, after `pip install 'rowlease[demo]'`:
      rowlease demo --rows 20000
    """
    context.default_map = defaults(cli)


for command in (
    migrate,
    queue,
    enqueue,
    spark_enqueue,
    worker,
    depth,
    requests,
    batch,
    loads,
    workers,
    operations,
    top,
    dashboard,
    report,
    doctor,
    engines,
    exporter,
    schedule,
    psql,
    url,
    up,
    demo,
    config,
):
    cli.add_command(command)
queue.add_command(apply)
for change in CHANGES:
    requests.add_command(change)
for _, command in commands(cli):
    command.context_settings.update(HELP)  # click keeps the names of the first context for good
name_variables(cli)


def main(arguments: Sequence[str] | None = None, again: Sequence[str] | None = None) -> NoReturn:
    """Run the command line. An expected error is printed on stderr as one line.

    Args:
        arguments: None means those of this process.
        again: the command line of one of the workers of `--processes`, for a program with another
            command line than `rowlease`; "{}" in it is replaced by a descriptor.
    """
    try:
        sys.exit(cli(arguments, prog_name="rowlease", standalone_mode=False, obj=again))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "rowlease"
        place = place_of_error(error) if isinstance(error, click.BadParameter) else ""
        seen = f"; see `{command} --help`" if isinstance(error, click.UsageError) else ""
        message = error.format_message().rstrip(".")
        if "://" in message:  # a DSN in the place of another value
            from rowlease.store import mask_passwords

            message = mask_passwords(message)
        fail(f"Error: {message}{place}{seen}")
        sys.exit(error.exit_code)
    except WrongFilter as error:
        for line in f"Error: {error}".split("\n"):  # the last two of three point at a part
            say(line, err=True)
        sys.exit(error.exit_code)
    except RowleaseError as error:
        fail(f"Error: {error}")
        sys.exit(error.exit_code)
    except OSError as error:  # such as a full disk
        sys.stdout = None  # or Python would flush it once more
        fail(f"Error: {error}")
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        fail("Interrupted; run it again to continue.")
        sys.exit(130)


def fail(sentence: str) -> None:
    """Print a message on stderr, as one line."""
    say(" ".join(sentence.split()), err=True)
