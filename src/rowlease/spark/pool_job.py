"""A Spark job with a task on each executor. Waiting for the job does not block signals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rowlease.errors import ConfigError, RowleaseError
from rowlease.spark.executor_worker import Plan
from rowlease.spark.executors import Executors
from rowlease.worker import Summary

#: Seconds to wait until Spark has ended a job that was cancelled.
CANCEL_SECONDS = 10.0
#: The start of Python's error on an executor that lacks rowlease or one of its modules.
LACKING = "No module named 'rowlease"


class SparkJob:
    """Runs the job in a thread, because a main thread that waits for Spark handles no signals.

    Args:
        function: `check` or `run` of `rowlease.spark.executor_worker`.
    """

    def __init__(
        self, sc: Any, plan: Plan, executors: Executors, title: str, function: Callable[..., Any]
    ) -> None:
        from pyspark import InheritableThread

        self._sc = sc
        self._pool_id = plan.pool_id
        self._rdd = executors.job(sc, partial(function, plan))
        self._title = title
        self._results: list[Summary | RowleaseError] = []
        self._error: Exception | None = None
        self._thread = InheritableThread(target=self._run, name="rowlease-pool", daemon=True)
        self._thread.start()

    def ends_within(self, seconds: float) -> bool:
        """Wait up to `seconds` for the end of the job; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Have Spark kill the job if it is still running."""
        if self._thread.is_alive():
            self._sc.cancelJobGroup(self._pool_id)
            self._thread.join(CANCEL_SECONDS)

    def results(self) -> tuple[list[Summary], list[RowleaseError]]:
        """The summaries of the executors' workers, and the errors of executors that could not work.

        Raises:
            ConfigError: executors cannot import rowlease.
            RowleaseError: Spark ended the job.
        """
        if self._error is not None:
            why = reason(self._error)
            if LACKING in why:
                raise ConfigError(
                    f"executors cannot import rowlease ({why}); install it there, or ship it with "
                    "spark-submit --archives"
                ) from self._error
            raise RowleaseError(
                f"Spark ended the pool's job: {why}; the requests that the pool had leased run "
                "again when their leases have run out"
            ) from self._error
        return (
            [one for one in self._results if isinstance(one, Summary)],
            [one for one in self._results if isinstance(one, RowleaseError)],
        )

    def _run(self) -> None:
        try:
            self._sc.setJobGroup(self._pool_id, self._title)
            self._results = self._rdd.collect()
        except Exception as error:
            self._error = error


def reason(error: Exception) -> str:
    """The main line of an exception of PySpark: a task's Python error, or else Spark's error."""
    thrown = getattr(error, "java_exception", None)
    text = str(thrown.getMessage() if thrown is not None else error).strip()
    lines = [line for line in text.partition("\n\tat ")[0].splitlines() if line.strip()]
    return (
        lines[-1 if "Traceback (most" in text else 0] if lines else type(error).__name__
    ).strip()
