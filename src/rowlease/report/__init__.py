"""The report: throughput, waits, runs and failures of the queues.

Spark reads history and queue in ranges and sums them up; the figures go to the terminal, to files
and to a chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rowlease.errors import ConfigError
from rowlease.report.figures import Figures, figures
from rowlease.store import bulk_store, is_sqlserver, redact

__all__ = ["Figures", "Report", "make_report"]

#: Ranges of history and queue for each core.
RANGES_PER_CORE = 2
PICTURE = "report.png"


class Report(NamedTuple):
    """The figures, and the files with them; no files if no request was found."""

    figures: Figures
    files: list[Path]


def make_report(
    dsn: str,
    *,
    queues: Sequence[str] = (),
    since: datetime | timedelta = timedelta(days=1),
    until: datetime | timedelta = timedelta(0),
    output: Path,
    form: str = "csv",
) -> Report:
    """Sum up the requests that ended or failed in a window, and write tables and a chart.

    It uses the running Spark session, or starts a local one. Reading takes no locks; each range is
    read in its own snapshot. Nothing is written if no request is found.

    Args:
        dsn: a reachable, migrated PostgreSQL; the role reader is enough.
        queues: only these; empty takes all.
        since, until: the window: times, or durations before now by the database's clock. A time
            without a zone is UTC.
        output: a folder, created if needed, for `work`, `failures`, `throughput` and `report.png`.
        form: of the tables: csv, json (one object per line) or parquet.

    Raises:
        ConfigError: an argument or the folder is wrong; Java, PySpark or Matplotlib is missing.
        InvalidRequest: a queue does not exist.
        StoreError: from the database.
    """
    from rowlease.spark.session import a_session

    if find_spec("matplotlib") is None:
        raise ConfigError("the report draws with Matplotlib; run `pip install 'rowlease[report]'`")
    if is_sqlserver(dsn):
        raise ConfigError(
            f"the report reads PostgreSQL only, and {redact(dsn)} is SQL Server; its history is "
            "the view rowlease.Requests"
        )
    with closing(bulk_store(dsn, "rowlease report")) as store:
        store.check_schema()
        for queue in queues:
            store.depth(queue)  # raises if it does not exist, before Spark starts
        now = store.now().astimezone(UTC)
    start, end = instant(since, now), instant(until, now)
    if start >= end:
        raise ConfigError(
            f"the window ends ({end:%Y-%m-%d %H:%M}) before it begins ({start:%Y-%m-%d %H:%M}), in "
            "UTC, by the database's clock"
        )
    folder(output)
    with a_session("rowlease report", dsn, jdbc=False) as spark:
        ranges = RANGES_PER_CORE * spark.sparkContext.defaultParallelism
        found = figures(spark, dsn, queues, start, end, ranges)
    if not found.work and not found.failures:
        return Report(found, [])
    from rowlease.report.picture import draw
    from rowlease.report.tables import write

    files = write(found, output, form)
    draw(found, output / PICTURE)
    return Report(found, [*files, output / PICTURE])


def instant(given: datetime | timedelta, now: datetime) -> datetime:
    """A time in UTC; a duration counts back from now."""
    if isinstance(given, timedelta):
        return now - given
    return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)


def folder(output: Path) -> None:
    """Create the folder, and check that it can be written.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / PICTURE).touch()
        (output / PICTURE).unlink()
    except OSError as error:
        raise ConfigError(f"the folder {output} cannot be written: {error.strerror}") from error
