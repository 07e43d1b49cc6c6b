"""Tasks as a user writes them, for the calls beside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from pydantic import BaseModel

from rowlease import task


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
