"""Tasks that complete their requests themselves; child processes import this module."""

from __future__ import annotations

from pathlib import Path

import psycopg

from rowlease import LeaseLost, current
from rowlease.tasks.task import task

EFFECT = "insert into payment (request_id, by) values (%s, %s)"


#: What a task may do after it has completed its request, before it returns or raises.
ENDS = ("commit, return", "commit, raise", "roll back, return", "roll back, raise", "raise inside")


@task
def pay(dsn: str, end: str = ENDS[0], wait: str | None = None) -> str | dict[str, int]:
    attempt = current()
    with psycopg.connect(dsn) as connection:
        connection.execute(EFFECT, (attempt.request_id, attempt.lock_token))
        attempt.complete(connection, {"paid": 5})
        finish(connection, end)
    if wait:
        Path(wait).read_text()
    return printed(end)


@task
async def pay_later(dsn: str, end: str) -> str:
    attempt = current()
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute(EFFECT, (attempt.request_id, attempt.lock_token))
        await attempt.complete(connection, {"paid": 5})
        if end == "raise inside":
            raise RuntimeError("no luck today")
        if end.startswith("roll back"):
            await connection.rollback()
    return printed(end)


@task
def pay_slowly(dsn: str, gate: str, done: str) -> None:
    """The first attempt waits with its effect not committed, and tells how it ended."""
    attempt = current()
    reported = "committed"
    try:
        with psycopg.connect(dsn) as connection:
            connection.execute(EFFECT, (attempt.request_id, attempt.lock_token))
            if attempt.attempt == 1:
                Path(gate).read_text()
            attempt.complete(connection, attempt.attempt)
    except LeaseLost as error:
        reported = error.outcome
        raise
    finally:
        if attempt.attempt == 1:
            Path(done).write_text(reported)


def finish(connection: psycopg.Connection, end: str) -> None:
    if end == "raise inside":
        raise RuntimeError("no luck today")
    if end.startswith("roll back"):
        connection.rollback()


def printed(end: str) -> str:
    if end.endswith("raise"):
        raise RuntimeError("no luck today")
    return "returned"
