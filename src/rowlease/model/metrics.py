"""The measurements of a database."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """One measurement of the routines `metrics` and `metrics_server`, in their column order.

    Attributes:
        metric: the name of the measurement.
        subject: the queue, the schedule or the table; empty if there is none.
    """

    metric: str
    subject: str
    value: float
