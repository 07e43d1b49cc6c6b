"""The report: throughput, waits, runs and failures of the queues.

Spark reads the history and the queue in ranges, and computes the figures. They are shown in the
terminal, and written as tables and as a chart.
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
from rowlease.store import engine_of

__all__ = ["Figures", "Report", "make_report"]

#: The number of ranges for each core. Spark reads each range in its own task.
RANGES_PER_CORE = 2
#: The file name of the chart.
PICTURE = "report.png"


class Report(NamedTuple):
    """The figures, and the paths of the written files (none if no request was found)."""

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
    """Compute the figures of the requests that ended or failed in a window, and write the report.

    The running Spark session is used, or else a local one is started. Reading takes no locks. Each
    range is read in its own snapshot. If no request is found, nothing is written.

    Args:
        dsn: the DSN of a migrated PostgreSQL database. Its user needs the role
            rowlease_reader.
        queues: the names of the queues; empty means all queues.
        since, until: the window. Each end is a time, or a duration before now by the database's
            clock. A time without a zone is UTC.
        output: the folder for the tables `work`, `failures` and `throughput` and the chart
            `report.png`. It is created if it does not exist.
        form: the format of the tables: csv, json (one object per line) or parquet.

    Raises:
        ConfigError: an argument is wrong, the folder cannot be written, or Java, PySpark or
            Matplotlib is missing.
        InvalidRequest: a queue does not exist.
        StoreError: the database refused or failed a call.
    """
    from rowlease.spark.session import a_session

    if find_spec("matplotlib") is None:
        raise ConfigError("the report needs Matplotlib; run `pip install 'rowlease[report]'`")
    engine = engine_of(dsn)
    engine.check_reads_back()
    with closing(engine.bulk_store("rowlease report")) as store:
        store.check_schema()
        for queue in queues:
            store.depth(queue)  # raises before Spark starts if the queue does not exist
        now = store.now().astimezone(UTC)
    start, end = to_utc(since, now), to_utc(until, now)
    if start >= end:
        raise ConfigError(
            f"the window ends at {end:%Y-%m-%d %H:%M} UTC, but begins at {start:%Y-%m-%d %H:%M} "
            "UTC by the database's clock; give an earlier --since or a later --until"
        )
    create_folder(output)
    with a_session("rowlease report", dsn) as spark:
        ranges = RANGES_PER_CORE * spark.sparkContext.defaultParallelism
        found = figures(spark, dsn, queues, start, end, ranges)
    if not found.work and not found.failures:
        return Report(found, [])
    from rowlease.report.picture import draw
    from rowlease.report.tables import write

    files = write(found, output, form)
    draw(found, output / PICTURE)
    return Report(found, [*files, output / PICTURE])


def to_utc(given: datetime | timedelta, now: datetime) -> datetime:
    """A time in UTC. A duration means the time that long before now."""
    if isinstance(given, timedelta):
        return now - given
    return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)


def create_folder(output: Path) -> None:
    """Create the folder, and check that files can be written there.

    Raises:
        ConfigError: no file can be written there.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / PICTURE).touch()
        (output / PICTURE).unlink()
    except OSError as error:
        raise ConfigError(
            f"the folder {output} cannot be written: {error.strerror}; choose another --output"
        ) from error
