"""`rowlease worker`."""

from __future__ import annotations

import sys
from typing import Any

import click

from rowlease.cli.options import dsn_option, duration, json_option, show_json


@click.command()
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
