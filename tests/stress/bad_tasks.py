"""What no task should do; a module of its own that child processes import quickly."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from rowlease import task

MIB = 2**20
AT_ONCE = timedelta(milliseconds=1)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@task(max_attempts=2, time_limit=timedelta(seconds=0.4), retry_base=AT_ONCE)
def endless(do: str) -> None:
    """What ends only by its time limit."""
    match do:
        case "endless loop":
            while True:
                pass
        case "endless fork":
            while os.fork() == 0:  # each child forks the next, and none ends
                pass
            signal.pause()


@task("poison", max_attempts=2, retry_base=AT_ONCE)
def poison(do: str) -> object:
    """Everything that a task should not do."""
    match do:
        case "segfault":
            ctypes.string_at(0)
        case "os._exit":
            os._exit(0)
        case "out of memory":
            exhaust(64 * MIB)
        case "huge result":
            return "x" * (2 * MIB)
        case "unpicklable result":
            return lambda: None
        case "unprintable exception":
            raise Unprintable
        case "closed stdout":
            sys.stdout.close()
            os.close(1)
            os.close(2)
            raise RuntimeError("nowhere to say it")
    return None


def exhaust(spare: int) -> None:
    """Take memory until there is none: the kernel refuses more than so many bytes beyond now's."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, before[1]))
    taken = []
    try:
        while True:
            taken.append(bytearray(MIB))
    finally:
        taken.clear()
        resource.setrlimit(resource.RLIMIT_AS, before)


@task
def harmless() -> int:
    return os.getpid()


@task
def brief() -> None:
    time.sleep(random.uniform(0.0, 0.01))


@task
def long(seconds: float, starts: str) -> None:
    """Writes down that it was started, and takes its time."""
    with open(starts, "a") as file:
        file.write("x")
    time.sleep(seconds)
