"""`rowlease worker`."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from rowlease.cli.options import dsn_option, duration, json_option, show_json


def named_queues(
    _context: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> list[str] | dict[str, int]:
    """The names in order; or, if one has a weight, every name with its weight (1 if it has none).

    A name that has a = and digits at its end is written with a weight of its own.
    """
    split = [re.fullmatch(r"(.+?)(?:=([0-9]+))?", one, re.DOTALL) for one in given]
    if not any(match and match[2] for match in split):
        return list(given)
    weights = {match[1]: int(match[2] or 1) for match in split if match}
    if len(weights) < len(given):
        raise click.BadParameter("a queue is named twice")
    return weights


@click.command()
@click.argument("tasks")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    default=["default"],
    metavar="NAME[=WEIGHT]",
    callback=named_queues,
    help="May be given several times. Earlier ones are served first; with weights (1 to 1000) each "
    "gets its share: --queue fast=3 --queue slow=1. Default: default.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    help="Slots. Default: the usable cores; 32 threads; 100 coroutines.",
)
@click.option(
    "--executor",
    type=click.Choice(["process", "thread", "coroutine"]),
    help="What a slot runs its tasks in. Default: process; coroutine if all are `async def`.",
)
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

    TASKS is `package.module` (every task in it) or `package.module:name`.
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
