"""What every peer's program in Python shares: its orders, and the lines it answers with.

    PEER_DSN=... PEER_SETTINGS='{...}' python <program> <order>

The orders are `install`, `enqueue COUNT SIZE`, `send RATE SECONDS` and `work`.
`work` runs until it is killed and prints `ready`, then `first <time of the first task>`, `ran
<how many tasks ran so far>` every 10 ms, and `late <ms>` for each task that was sent with a time.
`enqueue` prints `took <seconds>`. The programs in other languages do the same.

For the drills, three have the orders `drill`, which works until it is killed, and `stream RATE
SECONDS`, which enqueues numbers and prints `sent <n>` for each call that returned. Their task adds
`began <n>` and `ended <n>` to the file PEER_LEDGER, which no fault reaches.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

DSN = os.environ["PEER_DSN"]
SETTINGS: dict[str, Any] = json.loads(os.environ.get("PEER_SETTINGS", "{}"))
EVERY = 0.01


def say(word: str, what: object = "") -> None:
    print(word, what, flush=True)


class Reporter:
    """Counts the tasks that ran in this process."""

    def __init__(self) -> None:
        self.ran = 0

    def began(self, at: float | None = None) -> None:
        """A task runs; it was sent at this time, where that matters."""
        if not self.ran:
            say("first", time.time())
        self.ran += 1
        if at is not None:
            say("late", 1000 * (time.time() - at))

    async def report(self) -> None:
        printed = 0
        while True:
            await asyncio.sleep(EVERY)
            if self.ran != printed:
                printed = self.ran
                say("ran", printed)


async def timed(count: int, size: int, send: Callable[[int], Awaitable[object]]) -> None:
    """Enqueue so many in batches of a size, and say how long that took."""
    began = time.perf_counter()
    for start in range(0, count, size):
        await send(min(size, count - start))
    say("took", time.perf_counter() - began)


async def steadily(rate: float, seconds: float, send: Callable[[float], Awaitable[object]]) -> None:
    """Send so many a second, each with the time before the call."""
    start = time.time() + 0.1
    for turn in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, start + turn / rate - time.time()))
        await send(time.time())


def note(word: str, n: int) -> None:
    with Path(os.environ["PEER_LEDGER"]).open("a") as ledger:
        ledger.write(f"{word} {n} {os.getpid()} {time.time()}\n")


async def effect(n: int) -> None:
    """The task of the drills."""
    note("began", n)
    await asyncio.sleep(SETTINGS["seconds"])
    note("ended", n)


async def numbers(
    rate: float,
    seconds: float,
    connect: Callable[[], Awaitable[Callable[[int], Awaitable[object]]]],
) -> None:
    """Send numbers, and connect again after an error."""
    send, ends = None, time.time() + seconds
    for n in itertools.takewhile(lambda _: time.time() < ends, itertools.count()):
        await asyncio.sleep(1 / rate)
        try:
            send = send or await connect()
            await send(n)
        except Exception:  # the call was not acknowledged
            send = None
        else:
            say("sent", f"{n} {time.time()}")


def main(
    orders: Mapping[str, Callable[..., Awaitable[None]]],
    run: Callable[..., object] = asyncio.run,
) -> None:
    word, *numbers = sys.argv[1:]
    run(orders[word](*(float(each) if "." in each else int(each) for each in numbers)))
