"""Tasks that log and print; child processes import this module."""

from __future__ import annotations

import logging
import os
import signal
import sys
from datetime import timedelta

from rowlease.tasks.task import task

log = logging.getLogger("shop")


@task
def count(name: str, lines: int) -> None:
    for number in range(lines):
        log.info("line %d of %s", number, name, extra={"number": number})


@task
def say() -> None:
    log.debug("hidden")
    log.info("sold %d", 7, extra={"order": 7, "took": timedelta(seconds=2)})
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        log.exception("not sold")


@task
async def say_async() -> None:
    say()


@task
def show() -> None:
    print("one", 1)  # noqa: T201
    print("two\nthree")  # noqa: T201
    sys.stderr.write("four\n")
    os.write(1, b"directly\n")
    print("no end", end="")  # noqa: T201


@task(max_attempts=1)
def die() -> None:
    log.info("before")
    print("last words", end="")  # noqa: T201
    os.kill(os.getpid(), signal.SIGKILL)
