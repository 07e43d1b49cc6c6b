"""For tests of a Django project: run the waiting tasks in the thread of the test."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from django.db import connections

from rowlease.errors import InvalidRequest
from rowlease.integrations.django.backend import dsn_of, find_tasks
from rowlease.store import open_store
from rowlease.testing.draining import Ran, drain


def run_tasks(database: str = "default", **options: Any) -> list[Ran]:
    """Run the waiting requests of Django's tasks one after the other, until none is pending.

    Call it in a TransactionTestCase: a TestCase never commits, so that no worker could see what it
    enqueues.

    Args:
        database: the alias of the database of the backend.
        options: the other arguments of `rowlease.testing.drain`.

    Raises:
        InvalidRequest: a transaction is open.
        Exception: any exception of a task, unless `reraise=False` is given.
    """
    if connections[database].in_atomic_block:
        raise InvalidRequest(
            "a transaction is open, so nothing that it enqueues can run yet; call run_tasks after "
            "it, in a test of the class TransactionTestCase"
        )
    with closing(open_store(dsn_of(database), application_name="django")) as store:
        return drain(store, find_tasks(), **options)
