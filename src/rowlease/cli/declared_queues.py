"""The queues that code declares: `rowlease queue apply` and `rowlease worker --create-queues`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

import click

from rowlease.cli.options import (
    actor_option,
    dry_run_option,
    dsn_option,
    json_option,
    login_name,
)
from rowlease.cli.queue import open_queues, show_changes


@click.command()
@click.argument("tasks", nargs=-1, required=True)
@dry_run_option
@actor_option
@dsn_option
@json_option
def apply(
    tasks: tuple[str, ...], dry_run: bool, actor: str | None, dsn: str | None, as_json: bool
) -> None:
    """Create or change the queues that code declares.

    These are the queues that the modules TASKS declare, and the queues of their tasks.

    \b
      images = Queue("images", capacity=1000)      in myapp/tasks.py
      rowlease queue apply myapp.tasks

    Other queues, and settings that are not declared, stay as they are. --dry-run only shows the
    differences between the database and the code.
    """
    from rowlease.tasks.loading import load_queues

    sys.path.insert(0, "")
    declared = load_queues(*tasks)
    with open_queues(dsn) as queues:
        changes = queues.apply(declared, dry_run=dry_run, actor=actor)
    show_changes(changes, as_json, dry_run, "the queues are as the code declares them")


def create_missing(tasks: Iterable[str], named: Iterable[str] | None, dsn: str | None) -> None:
    """Create the missing queues of a worker, and log how the others differ from the code.

    Args:
        tasks: the modules of the worker's tasks.
        named: the queues that the worker's command names; if it names none, those of the modules.
    """
    from rowlease.declared_queues import Queue
    from rowlease.tasks.loading import load_queues

    sys.path.insert(0, "")
    declared = {str(queue): queue for queue in load_queues(*tasks)}
    wanted = [declared.get(name, Queue(name)) for name in named or declared]
    logger = logging.getLogger("rowlease")
    with open_queues(dsn) as queues:
        for change in queues.create_missing(wanted, actor=login_name()):
            if change.setting is None:
                logger.info("%s", change)
            else:
                logger.warning("%s in the code; to set it, use `rowlease queue apply`", change)
