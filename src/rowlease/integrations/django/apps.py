"""The application: creates and upgrades rowlease's schema in `manage.py migrate` and in tests."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from django.apps import AppConfig
from django.core.management.base import CommandError
from django.db.models.signals import pre_migrate

from rowlease.client.queues import Queues
from rowlease.declared_queues import Queue
from rowlease.errors import RowleaseError
from rowlease.integrations.django.backend import dsn_of, rowlease_backends
from rowlease.store import migrate, open_store


class RowleaseConfig(AppConfig):
    name = "rowlease.integrations.django"
    label = "rowlease"
    verbose_name = "rowlease"

    def ready(self) -> None:
        # Before the migrations of all applications, because these may enqueue tasks; and in each
        # run, because a release may have other routines without having another table.
        pre_migrate.connect(create_schema, sender=self)


def create_schema(*, using: str, verbosity: int = 1, stdout: Any = None, **_: Any) -> None:
    """Do what `rowlease migrate` does, and create missing queues of the setting TASKS."""
    backends = [one for one in rowlease_backends() if one.database == using]
    if not backends:
        return
    names = sorted({name for one in backends for name in one.queues})
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
