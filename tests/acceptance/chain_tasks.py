"""Tasks that are links of chains; child processes import this module."""

from __future__ import annotations

import os

import psycopg

from rowlease import DeadLetter, current
from rowlease.tasks.task import task


@task
def shrink(image: str, width: int = 100) -> int:
    return len(image) * width


@task
async def publish(size: int, place: str = "here") -> str:
    return f"{size} {place}"


@task
def announce(text: str) -> str:
    return f"{text}!"


@task
def die_once(text: str) -> str:
    if current().attempt == 1:
        os._exit(1)
    return text


@task
def refuse(text: str) -> None:
    raise DeadLetter("never")


@task
def pay(dsn: str, amount: int) -> int:
    with psycopg.connect(dsn) as connection:
        current().complete(connection, amount)
    return -1


@task
def total(sizes: list[int], unit: str = "bytes") -> str:
    return f"{sizes} {unit}"


@task
def fail_if(text: str) -> str:
    if text == "bad":
        raise DeadLetter("bad")
    return text


@task
def joined(texts: list[str]) -> str:
    return "".join(texts)
