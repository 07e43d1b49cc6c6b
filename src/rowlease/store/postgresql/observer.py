"""Asks PostgreSQL for its version and settings, and stages rows of a load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from rowlease.store.observing import Observer

SETTINGS = "select name, setting from pg_settings where name = any(%s) order by 1"
SETTING_NAMES = ["server_version", "fsync", "synchronous_commit", "default_transaction_isolation"]
STAGED_QUERY = """
    insert into rowlease.load_inbox (run_number, part, ends_part, priority, kind, payload, due_time)
    select %s, 0, n = 0, 0, 'verify', '{}', now() from generate_series(0, %s - 1) as n"""


class PostgresObserver(Observer):
    """See `rowlease.store.observing.Observer`. Other tests look at PostgreSQL's locks and plans."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def server(self) -> dict[str, str]:
        with closing(psycopg.connect(self._dsn)) as connection:
            return dict(connection.execute(SETTINGS, [SETTING_NAMES]).fetchall())

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with closing(psycopg.connect(self._dsn)) as connection:
            yield connection

    def stage(self, run_number: int, num_rows: int) -> None:
        with closing(psycopg.connect(self._dsn, autocommit=True)) as connection:
            connection.execute(STAGED_QUERY, [run_number, num_rows])
