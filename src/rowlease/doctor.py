"""Finds problems of the queues and of their database."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

from rowlease.embedded.security_releases import diagnose_embedded
from rowlease.errors import StoreError
from rowlease.model import Finding
from rowlease.store import diagnose_dsn, open_store, schema_differences


def examine(dsn: str) -> list[Finding]:
    """The findings: first the DSN and the server, then sessions, queues and the schema.

    Raises:
        StoreError: the database refused or failed a call.
    """
    with closing(open_store(dsn)) as store:
        store.check_schema()
        sessions = store.diagnose_sessions()
        server = store.diagnose_server(datetime.now(UTC))
        programs = [*diagnose_dsn(dsn), *diagnose_embedded(dsn)]
        findings = [*programs, *server, *sessions, *store.diagnose()]
    try:
        different = schema_differences(dsn)
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
