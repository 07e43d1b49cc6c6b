"""Completes or snoozes a request in the caller's transaction, on the caller's connection.

A running task has no store, only the connection on which the task makes its changes. Connections
are recognised by their attributes, so that no library is imported that the task does not use.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from rowlease.model import Held, NewRequest
from rowlease.store.calls import leases, replace_unstorable, to_milliseconds
from rowlease.store.engine import engine_of_connection
from rowlease.store.finish import completing
from rowlease.store.transaction import (
    OutcomeReport,
    is_for_asyncio,
    refuse_autocommit,
    refuse_unless_ok,
)


def complete(
    connection: Any, held: Held, result: str | None, successor: tuple[str, NewRequest] | None
) -> Coroutine[Any, Any, None] | None:
    """Complete a request. On an asyncio connection, the return value must be awaited.

    Args:
        connection: a connection that `Client.bind` or `AsyncClient.bind` accepts.
        held: the request.
        result: the result of the task as JSON text, or None.
        successor: the queue and the request to enqueue in the same transaction.

    Raises:
        LeaseLost: the outcome is not `ok`.
        ConfigError: `bind` would not accept the connection, or it is in autocommit mode.
        Exception: any exception of the connection's library.
    """
    if successor is not None:
        arguments = completing(held, result, *successor)
        return _report(connection, OutcomeReport("complete_and_enqueue", held, arguments))
    return _report(
        connection, OutcomeReport("complete", held, {**leases([held]), "p_results": [result]})
    )


def snooze(
    connection: Any, held: Held, after: timedelta, reason: str
) -> Coroutine[Any, Any, None] | None:
    """Snooze a request. The same as `complete` in everything else."""
    waits = {"p_delays_ms": [to_milliseconds(after)], "p_reasons": [replace_unstorable(reason)]}
    return _report(connection, OutcomeReport("snooze", held, {**leases([held]), **waits}))


def _report(connection: Any, report: OutcomeReport) -> Coroutine[Any, Any, None] | None:
    if hasattr(connection, "run_sync"):  # SQLAlchemy's AsyncConnection or AsyncSession
        reported: Coroutine[Any, Any, None] = connection.run_sync(_call, report)
        return reported
    if is_for_asyncio(connection):
        return _call_async(connection, report)
    _call(connection, report)
    return None


def _call(connection: Any, report: OutcomeReport) -> None:
    refuse_autocommit(connection)
    outcome = engine_of_connection(connection).outcome_of(connection, report)
    refuse_unless_ok([report.held], [outcome])


async def _call_async(connection: Any, report: OutcomeReport) -> None:
    from rowlease.store.postgresql.transaction import execute_async, reporting

    refuse_autocommit(connection)
    ((outcome,),) = await execute_async(connection, reporting(report))
    refuse_unless_ok([report.held], [outcome])
