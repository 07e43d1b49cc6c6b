"""Finds problems of the queues and of their database."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby

from rowlease.embedded.security_releases import diagnose_embedded
from rowlease.errors import StoreError
from rowlease.model import Finding, SharedKind, WorkerState
from rowlease.store import engine_of, open_store
from rowlease.store.revisions import own_version


def examine(dsn: str) -> list[Finding]:
    """The findings: first the DSN and the server, then sessions, queues and the schema.

    Raises:
        StoreError: the database refused or failed a call.
    """
    engine = engine_of(dsn)
    with closing(open_store(dsn)) as store:
        store.check_schema()
        sessions = store.diagnose_sessions()
        server = store.diagnose_server(datetime.now(UTC))
        programs = [*engine.diagnose_dsn(), *diagnose_embedded(dsn)]
        older = old_workers(store.list_workers(), own_version())
        shared = shared_kinds(store.list_shared_kinds())
        findings = [*programs, *server, *sessions, *store.diagnose(), *older, *shared]
    try:
        different = engine.schema_differences()
    except StoreError as error:
        if error.transient:
            raise
        unknown = "the schema was not compared with this release"
        return [*findings, Finding("drift", "the schema", unknown, str(error))]
    return [
        *findings,
        *(
            Finding("drift", one.object, f"{one.object} differs from this release", one.advice)
            for one in different
        ),
    ]


def old_workers(workers: Iterable[WorkerState], version: str) -> list[Finding]:
    """A finding for each live worker of an older release than this version."""
    return [
        Finding(
            "old_worker",
            one.worker_id,
            f"the worker {one.worker_id} is of the release {one.version}, and this is {version}",
            f"stop it, and start a worker of {version}",
        )
        for one in workers
        if one.is_alive and () < numbers(one.version) < numbers(version)
    ]


def shared_kinds(rows: Iterable[SharedKind]) -> list[Finding]:
    """A finding for each kind that workers of a queue have for different tasks."""
    return [
        Finding(
            "shared_kind",
            kind,
            f'in the queue "{queue}" the kind "{kind}" is '
            + " and ".join(f"{one.task} of the worker {one.worker_id}" for one in group),
            'if these are two programs, give one task another name, @task("name"), or each program '
            "a queue",
        )
        for (queue, kind), group in groupby(rows, lambda one: (one.queue_name, one.kind))
    ]


def numbers(version: str) -> tuple[int, ...]:
    """The numbers at the beginning of a version; none if it has no such beginning."""
    found = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
