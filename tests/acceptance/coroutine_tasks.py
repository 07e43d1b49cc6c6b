"""Coroutines for every outcome; child processes import this module."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from rowlease.context import current
from rowlease.errors import DeadLetter, Retry, Snooze
from rowlease.tasks.task import task

crowd: list[int] = []


@task
async def act(do: str = "ok", **given: Any) -> object:
    await asyncio.sleep(0)
    match do:
        case "fail":
            raise ValueError("no luck today")
        case "retry":
            raise Retry("come back later", after=timedelta(hours=1))
        case "snooze":
            raise Snooze(timedelta(hours=1), "not ready")
        case "dead":
            raise DeadLetter("never again")
        case "leave":
            raise SystemExit("left")
        case "cancel":
            raise asyncio.CancelledError
        case "object":
            return object()
        case "obey":
            while not current().should_stop:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            raise RuntimeError("stopped, as asked")
        case "stay":
            await asyncio.Event().wait()
        case "clean up":
            try:
                await asyncio.Event().wait()
            finally:
                crowd.append(1)
    return {"did": do, "attempt": current().attempt, **given}


@task
async def meet(count: int) -> int:
    """Return when `count` tasks have called it."""
    crowd.append(current().request_id)
    while len(crowd) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return len(set(crowd))


@task(time_limit=timedelta(seconds=0.1))
async def endless() -> None:
    await asyncio.Event().wait()


@task(soft_time_limit=timedelta(seconds=0.05), retry_on=OSError)
async def slow() -> None:
    await asyncio.Event().wait()


TASKS: list[Any] = [act, meet, endless, slow]
