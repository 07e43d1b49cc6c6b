"""Tasks of schedules; workers and child processes import this module."""

from __future__ import annotations

from rowlease.tasks.task import task


@task(cron="0 * * * *", queue="bounded")
def tick(scheduled_time: str) -> str:
    return scheduled_time


@task
def idle() -> None: ...
