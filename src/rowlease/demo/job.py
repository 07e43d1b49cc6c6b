"""The requests of the demo's input, and the results that they must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rowlease.model import Begun
from rowlease.spark.load import stage
from rowlease.spark.promotion import Staged

QUEUE = "demo"


@dataclass(frozen=True, kw_only=True)
class Job:
    """The requests of an input, and their expected results.

    Attributes:
        kind: the name of the task.
        rows: a DataFrame with a row for each request.
        payload, priority: columns of these rows, as for `rowlease.spark.enqueue`.
        labels: the meaning of each priority, for tables and charts.
        expected: a DataFrame with the columns `row_id` and `result`: for each row the text that the
            result must have.
        comparable: converts the column of the workers' results to that text.
    """

    kind: str
    rows: Any
    payload: Any
    priority: Any
    labels: Mapping[int, str]
    expected: Any
    comparable: Callable[[Any], Any]

    def stage(self, dsn: str, load_id: str, run: Begun) -> Staged:
        """Stage a request for each row; see `rowlease.spark.enqueue`."""
        return stage(
            self.rows,
            dsn,
            load_id=load_id,
            run=run,
            kind=self.kind,
            payload=self.payload,
            priority=self.priority,
        )
