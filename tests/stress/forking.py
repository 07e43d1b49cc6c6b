"""A program that forks while its client is in use; `test_forks` runs it.

    python -m tests.stress.forking DSN FOLDER HOW TIMES CALLS

Each process writes what it enqueued into a file of FOLDER: a JSON object of payload to request id,
and the seconds of its longest call.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from rowlease import AsyncClient, Client
from rowlease.client.handle import Handle

#: Connections that the parent has idle when it forks.
IDLE = 5
CHILDREN = 4


def main(dsn: str, folder: str, how: str, times: str, calls: str) -> None:
    report = Report(Path(folder), int(calls))
    for time_number in range(int(times)):
        if how == "async":
            asyncio.run(in_asyncio(dsn, report, time_number))
        else:
            with Client(dsn) as client, UsedByThreads(client):
                fork = by_multiprocessing if how == "multiprocessing" else by_os
                everybody_calls(fork, lambda name: report.calls(client, name), time_number)


class Report:
    """Makes the calls of one process, and writes them down."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.number = number

    def calls(self, client: Client, name: str) -> None:
        done, longest = {}, 0.0
        for payload in (f"{name}.{call}" for call in range(self.number)):
            began = time.monotonic()
            done[payload] = client.enqueue_untyped("work", {"call": payload}).request_id
            longest = max(longest, time.monotonic() - began)
        self.write(name, done, longest)

    async def calls_async(self, client: AsyncClient, name: str) -> None:
        done, longest = {}, 0.0

        async def call(payload: str) -> None:
            nonlocal longest
            began = time.monotonic()
            done[payload] = (await client.enqueue_untyped("work", {"call": payload})).request_id
            longest = max(longest, time.monotonic() - began)

        names = [f"{name}.{call}" for call in range(self.number)]
        for first in range(0, self.number, IDLE):
            await asyncio.gather(*map(call, names[first : first + IDLE]))
        self.write(name, done, longest)

    def write(self, name: str, done: dict[str, int], longest: float) -> None:
        (self.folder / name).write_text(json.dumps({"done": done, "longest": longest}))


class UsedByThreads:
    """Idle connections, a thread that calls all the time, and one that waits for a result."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self.call), threading.Thread(target=self.wait)]

    def __enter__(self) -> None:
        together = threading.Barrier(IDLE)

        def call() -> None:
            together.wait()
            self.client.store._call("schema_version")

        first = [threading.Thread(target=call) for _ in range(IDLE)]
        for each in [*first, *self.threads]:
            each.start()
        for each in first:
            each.join()

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        for each in self.threads:
            each.join()

    def call(self) -> None:
        while not self.ends.is_set():
            self.client.store.depth()

    def wait(self) -> None:
        handle: Handle[Any] = self.client.enqueue_untyped("never", None)
        while not self.ends.is_set():
            with suppress(TimeoutError):
                handle.result(timedelta(seconds=0.2))


def everybody_calls(fork: Fork, calls: Callable[[str], None], number: int) -> None:
    """The parent and its children call at the same time."""
    read, write = os.pipe()

    def child(name: str) -> None:
        os.close(write)
        os.read(read, 1)  # ends when the parent has closed its end
        calls(name)

    waits = [fork(child, f"{number}.{each}") for each in range(CHILDREN)]
    os.close(write)
    calls(f"{number}.parent")
    for wait in waits:
        wait()
    os.close(read)


#: Runs a function with a name in a child; returns what waits for the child.
Fork = Callable[[Callable[[str], None], str], Callable[[], object]]


def by_os(run: Callable[[str], None], name: str) -> Callable[[], object]:
    pid = os.fork()
    if pid:
        return lambda: os.waitpid(pid, 0)
    try:
        run(name)
        os._exit(0)
    finally:
        os._exit(1)


def by_multiprocessing(run: Callable[[str], None], name: str) -> Callable[[], object]:
    child = multiprocessing.get_context("fork").Process(target=run, args=(name,))
    child.start()
    return child.join


async def in_asyncio(dsn: str, report: Report, number: int) -> None:
    async with AsyncClient(dsn) as client:
        await asyncio.gather(*(client.enqueue_untyped("other", None) for _ in range(IDLE)))
        waiting = asyncio.create_task((await client.enqueue_untyped("never", None)).result())

        def calls(name: str) -> None:
            if name.endswith("parent"):
                asyncio.run_coroutine_threadsafe(report.calls_async(client, name), loop).result()
            else:
                asyncio.run(report.calls_async(client, name))

        loop = asyncio.get_running_loop()
        await asyncio.to_thread(everybody_calls, by_multiprocessing, calls, number)
        waiting.cancel()


if __name__ == "__main__":
    main(*sys.argv[1:])
