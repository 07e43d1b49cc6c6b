"""The smallest client of rowlease's routines: three threads claim, run and complete.

It has no leases to renew, no time limits, no retries and no shutdown. So it is a limit of what a
worker in Python can reach, and no worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from threading import Thread
from typing import Any

import msgspec
import psycopg

CLAIM = "select request_id, lock_token, payload from rowlease.dequeue('smallest', '{default}', %s)"
COMPLETE = "select count(*) from rowlease.complete(%s, %s)"
#: Claims that wait to be run, and outcomes that wait to be delivered.
AHEAD = 2

Rows = list[tuple[Any, ...]]


def drain(dsn: str, task: Callable[..., Coroutine[Any, Any, object]], batch: int) -> None:
    """Run a coroutine for each request of the queue `default`, until none is left."""
    claimed: SimpleQueue[Rows] = SimpleQueue()
    done: SimpleQueue[Rows] = SimpleQueue()
    room: SimpleQueue[None] = SimpleQueue()
    for _ in range(AHEAD):
        room.put(None)

    def claim() -> None:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as sql:
            while rows := sql.execute(CLAIM, [batch], binary=True).fetchall()[:-1]:
                claimed.put(rows)
                room.get()
        claimed.put([])

    async def each(rows: Rows) -> None:
        for _, _, payload in rows:
            await task(**msgspec.json.decode(payload))

    def run() -> None:
        with asyncio.Runner() as runner:
            while rows := claimed.get():
                room.put(None)
                runner.run(each(rows))
                done.put(rows)
        done.put([])

    def complete() -> None:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as sql:
            while rows := done.get():
                ids, tokens, _ = zip(*rows, strict=True)
                sql.execute(COMPLETE, [list(ids), list(tokens)], binary=True)

    threads = [Thread(target=target) for target in (claim, run, complete)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
