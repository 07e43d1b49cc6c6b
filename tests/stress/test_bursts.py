"""Bursts that begin when a request is due, while their own `maintain` makes it claimable.

Bounded for everyday runs: `ROWLEASE_STRESS_BURSTS` is how many.
"""

from __future__ import annotations

import os
from datetime import timedelta

from rowlease import task
from rowlease.client.client import Client
from rowlease.events import Events
from rowlease.testing import frozen
from rowlease.worker import Worker

BURSTS = int(os.environ.get("ROWLEASE_STRESS_BURSTS", "20"))


@task
async def answer() -> None:
    """Do nothing."""


def test_every_burst_runs_the_request_that_is_due(dsn: str) -> None:
    finished = []
    with Client(dsn) as client, frozen(client) as clock:
        for _ in range(BURSTS):
            client.enqueue(answer.with_options(delay=timedelta(seconds=10)))
            clock.advance(seconds=10)
            burst = Worker(client.store, [answer], burst=True, events=Events())
            finished.append(burst.run().finished)
    assert finished == [1] * BURSTS
