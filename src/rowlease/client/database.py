"""Finds the database: the configured one, or the database of the embedded server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from rowlease.config import configured_dsn
from rowlease.store import Store, migrate, open_store


def log_start(home: str, is_first: bool) -> None:
    """Log that the embedded server is started."""
    logging.getLogger("rowlease").warning(
        "ROWLEASE_DSN is not set: starting PostgreSQL in %s%s",
        home,
        "; the first start takes a few seconds" if is_first else "",
    )


@contextmanager
def database(
    dsn: str | None = None, *, starting: Callable[[str, bool], object] = log_start
) -> Iterator[str]:
    """The DSN of the database: the argument, or else the configured DSN.

    If no DSN is configured, the embedded server runs until the end of the block. This function
    migrates only the embedded server. For any other server, run `rowlease migrate`.

    Args:
        dsn: the DSN that the caller was given.
        starting: called before the embedded server is started; see `rowlease.embedded.embedded`.

    Raises:
        ConfigError, StoreUnavailable, SchemaMismatch: for the same reasons as
            `rowlease.embedded.embedded`.
    """
    configured = configured_dsn(dsn)
    if configured is not None:
        yield configured
        return
    from rowlease.embedded import embedded

    with embedded(starting=starting) as own:
        migrate(own)
        yield own


@contextmanager
def connect(dsn: str | None = None, *, application_name: str = "rowlease") -> Iterator[Store]:
    """A store for `database(dsn)`, after a check of its schema. It is closed after the block.

    Raises:
        RowleaseError: the same errors as from `database` and `Store.check_schema`.
    """
    with database(dsn) as found, closing(open_store(found, application_name=application_name)) as s:
        s.check_schema()
        yield s
