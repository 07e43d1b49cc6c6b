"""Tasks of two queues, in a module that imports little: commands import it."""

from __future__ import annotations

from rowlease.tasks.task import task


@task
async def plain() -> str:
    return "plain"


@task(queue="web")
async def ping(host: str = "a") -> str:
    return host


@task(queue="web")
async def fetch(url: str = "b") -> str:
    return url
