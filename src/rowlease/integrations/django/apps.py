"""The application: creates and upgrades rowlease's schema in `manage.py migrate` and in tests."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from django.apps import AppConfig
from django.core.management.base import CommandError
from django.db.models.signals import post_migrate, pre_migrate

from rowlease.client.operations import Requests
from rowlease.client.queues import Queues
from rowlease.declared_queues import Queue
from rowlease.errors import RowleaseError
from rowlease.integrations.django.backend import dsn_of, rowlease_backends
from rowlease.model.verbs import VERBS
from rowlease.store import migrate, open_store


class RowleaseConfig(AppConfig):
    name = "rowlease.integrations.django"
    label = "rowlease"
    verbose_name = "rowlease"

    def ready(self) -> None:
        # Before the migrations of all applications, because these may enqueue tasks; and in each
        # run, because a release may have other routines without having another table.
        pre_migrate.connect(create_schema, sender=self)
        post_migrate.connect(purge_requests, sender=self)


def create_schema(*, using: str, verbosity: int = 1, stdout: Any = None, **_: Any) -> None:
    """Do what `rowlease migrate` does, and create missing queues of the setting TASKS."""
    names = queues_in(using)
    if not names:
        return
    try:
        dsn = dsn_of(using)
        done = migrate(dsn)
        with closing(open_store(dsn, application_name="django")) as store:
            Queues(store).create_missing(map(Queue, names), actor="manage.py migrate")
    except RowleaseError as error:
        raise CommandError(str(error)) from error
    if done.changed and verbosity >= 1 and stdout is not None:
        verb = "upgraded to" if done.from_revision else "created"
        stdout.write(f"rowlease: {verb} schema {done.to_revision}\n")


def purge_requests(*, using: str, **given: Any) -> None:
    """Delete all requests that do not run after `flush`, with which a TransactionTestCase ends."""
    names = queues_in(using)
    if "plan" in given or not names:  # `migrate` sends the same signal, with its plan
        return
    with closing(open_store(dsn_of(using), application_name="django")) as store:
        for name in names:
            Requests(store).purge(queue=name, status=VERBS["purge"].takes, actor="manage.py flush")


def queues_in(database: str) -> list[str]:
    """The queues of the setting TASKS in the database with this alias."""
    backends = [one for one in rowlease_backends() if one.database == database]
    return sorted({name for one in backends for name in one.queues})
