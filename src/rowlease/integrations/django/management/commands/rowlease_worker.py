"""`manage.py rowlease_worker`: runs Django's tasks, with the options of `rowlease worker`."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError

from rowlease.cli import main
from rowlease.errors import RowleaseError
from rowlease.integrations.django.backend import COMMAND, dsn_of, rowlease_backends

#: The module of the tasks.
TASKS = "rowlease.integrations.django.worker_tasks"


class Command(BaseCommand):
    help = "Runs tasks. It has the options of `rowlease worker`; --help shows them."

    def run_from_argv(self, argv: list[str]) -> NoReturn:
        # Django itself has read these two options.
        of_django = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        of_django.add_argument("--settings")
        of_django.add_argument("--pythonpath")
        _, options = of_django.parse_known_args(argv[2:])
        place = sys.orig_argv.index(COMMAND) + 1
        again = [sys.executable, *sys.orig_argv[1:place], "--supervised", "{}"]
        main(
            ["worker", TASKS, *_place_of_tasks(options), *options],
            again=[*again, *sys.orig_argv[place:]],
        )

    def handle(self, *_: Any, **__: Any) -> NoReturn:
        raise CommandError(
            f"{COMMAND} runs as a command only; in tests, use "
            "rowlease.integrations.django.testing.run_tasks"
        )


def _place_of_tasks(options: list[str]) -> list[str]:
    """The options for the database and the queues of the setting TASKS."""
    backends = rowlease_backends()
    databases = sorted({one.database for one in backends})
    if len(databases) != 1:
        sys.exit(
            f"Error: the backends of rowlease in the setting TASKS have {len(databases)} databases "
            f"({', '.join(databases)}); a worker needs one"
        )
    try:
        place = ["--dsn", dsn_of(databases[0])]
    except RowleaseError as error:
        sys.exit(f"Error: {error}")
    if any(each.partition("=")[0] == "--queue" for each in options):
        return place
    queues = sorted({name for one in backends for name in one.queues})
    return place + [part for name in queues for part in ("--queue", name)]
