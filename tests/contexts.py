"""What a task knows of its request, without a worker that runs it."""

from __future__ import annotations

import math

from rowlease.context import AttemptedRequest, Context
from rowlease.lifespans import Shared


class NoLink:
    """No executor: the task is not stopped, and its lease is not renewed."""

    shared = Shared("")

    def is_asked_to_stop(self, number: int) -> bool:
        return False

    def lease_ends(self, number: int) -> float | None:
        return None

    def report_progress(self, number: int, fraction: float, note: str) -> None: ...


def context_of(held: AttemptedRequest) -> Context:
    """What the task that runs this request is given."""
    return Context(held, 1, math.inf, NoLink())
