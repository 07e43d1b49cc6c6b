"""Tasks as a user writes them, for the calls beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from rowlease import Middleware, Snooze, Task, task
from rowlease.context import Context
from rowlease.middleware import NewRequestHeaders


class Colour(StrEnum):
    GREY = "grey"
    FULL = "full"


@dataclass
class Size:
    width: int
    height: int


class Mail(BaseModel):
    to: str
    subject: str = "hello"


@task(max_attempts=3, queue="images")
def resize(image: str, width: int, *, colour: Colour = Colour.FULL) -> Size:
    return Size(width, width // 2)


@task
def crop(image: str, size: Size, corners: list[tuple[int, int]] | None = None) -> None: ...


@task
async def send(mail: Mail, at: datetime | None = None) -> bool:
    return bool(mail.to)


@task("billing.charge", retry_base=timedelta(seconds=5))
def charge(order: UUID, amount: Decimal, note: bytes = b"") -> Decimal:
    return amount


@task
def clean_up() -> int:
    return 0


@task
def odd_names(task: str, queue: str, priority: int, receipt: str, self: int = 0) -> str:
    return task + queue


@task
def tag(image: str, **tags: int) -> dict[str, int]:
    return tags


def plain(image: str) -> None:
    """It has no decorator."""


@task
def send_later(to: str, after: timedelta) -> str:
    raise Snooze(after, f"{to} sleeps")


class Tenants(Middleware):
    @contextmanager
    def around_enqueue(self, requests: Sequence[NewRequestHeaders]) -> Iterator[None]:
        for request in requests:
            request.headers.setdefault("tenant", "acme")
        yield


class Timer(Middleware):
    def __init__(self, runs: dict[str, int]) -> None:
        self.runs = runs

    @contextmanager
    def around_run(self, task: Task[..., Any], context: Context) -> Iterator[None]:
        yield
        self.runs[task.name] = context.attempt


def context_of() -> Context:
    """The context of a run, for its type."""
    raise NotImplementedError
