"""Shows the figures of the report in a terminal, and writes them to files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from rowlease.chart_style import table
from rowlease.counts import per_second
from rowlease.report.figures import Failures, Figures, Throughput, Work
from rowlease.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: The maximum number of errors shown in the terminal. The file `failures` lists more.
MAX_SHOWN_ERRORS = 15


def show(figures: Figures, console: Console) -> None:
    """Print the tables of the report."""
    console.print(throughput_table(figures))
    if figures.complete:
        console.print(times_table("Waits of complete requests, in seconds", "wait", figures.work))
        console.print(times_table("Runs of complete requests, in seconds", "run", figures.work))
    if figures.failures:
        console.print(failures_table(figures.failures))


def throughput_table(figures: Figures) -> Table:
    """The table of outcomes: completed requests, dead letters and cancelled requests."""
    columns = ("priority", "complete", "per s", "retried", "dead", "cancelled")
    made = table("Requests: completed, dead letters, cancelled", "queue", *columns)
    for row in figures.work:
        counts = (row.retried, row.dead, row.cancelled)
        made.add_row(
            shown(row.queue), str(row.priority), f"{row.complete:,}", format_rate(row.rate),
            *map(format_count, counts),
        )  # fmt: skip
    if len(figures.work) > 1:
        sums = [sum(each) for each in zip(*(row[2:6] for row in figures.work), strict=True)]
        complete, cancelled, dead, retried = (f"{each:,}" for each in sums)
        made.add_section()
        made.add_row(
            "all", "", complete, format_rate(figures.rate), retried, dead, cancelled, style="bold"
        )
    return made


def times_table(title: str, name: str, work: Sequence[Work]) -> Table:
    """The table of the percentiles of the waits or of the runs."""
    made = table(title, "queue", "priority", "half within", "95 %", "99 %", "longest")
    for row in work:
        if row.complete:
            each = (getattr(row, f"{name}_{point}") for point in ("p50", "p95", "p99", "max"))
            made.add_row(shown(row.queue), str(row.priority), *(f"{value:,.4f}" for value in each))
    return made


def failures_table(failures: Sequence[Failures]) -> Table:
    """The table of errors, with the outcomes of the requests."""
    made = table(
        "Requests with a failed attempt, by last error: dead letters, to be retried, complete",
        "error",
        *("queue", "kind", "dead", "again", "complete"),
    )
    for row in failures[:MAX_SHOWN_ERRORS]:
        texts = (row.error, row.queue, row.kind)
        made.add_row(*map(shown, texts), *map(format_count, (row.dead, row.again, row.complete)))
    if len(failures) > MAX_SHOWN_ERRORS:
        made.caption = f"and {len(failures) - MAX_SHOWN_ERRORS} more in the file `failures`"
        made.caption_justify = "left"
    return made


def shown(text: str) -> str:
    """Text of users as it is, without markup and hidden characters."""
    return escape(visible(text))


def format_count(value: int) -> str:
    """A number. Zero is shown dimmed."""
    return f"{value:,}" if value else "[dim]0[/]"


def format_rate(value: float | None) -> str:
    """Requests per second, without insignificant digits."""
    return "" if value is None else per_second(value)


def as_json(figures: Figures, files: Sequence[Path]) -> dict[str, Any]:
    """The report as JSON data. Times are in UTC (ISO 8601), and durations in seconds."""
    return {
        **{
            name: value and value.isoformat()
            for name, value in figures._asdict().items()
            if name in ("since", "until", "first", "last")
        },
        "complete": figures.complete,
        "rate": figures.rate,
        "work": [row._asdict() for row in figures.work],
        "failures": [to_json(row) for row in figures.failures],
        "step_seconds": figures.step_seconds,
        "throughput": [to_json(row) for row in figures.steps],
        "files": [str(path) for path in files],
    }


def to_json(row: Failures | Throughput) -> dict[str, Any]:
    """A row as a dict, with times in ISO 8601."""
    return {
        name: value.isoformat() if hasattr(value, "isoformat") else value
        for name, value in row._asdict().items()
    }


def write(figures: Figures, output: Path, form: str) -> list[Path]:
    """Write the tables to the files `work`, `failures` and `throughput`. Returns their paths."""
    import pandas as pd

    kinds: dict[str, tuple[type, Sequence[Any]]] = {
        "work": (Work, figures.work),
        "failures": (Failures, figures.failures),
        "throughput": (Throughput, figures.steps),
    }
    paths = []
    for name, (kind, rows) in kinds.items():
        frame = pd.DataFrame(rows, columns=kind._fields)  # type: ignore[attr-defined]
        path = output / f"{name}.{form}"
        if form == "csv":
            frame.to_csv(path, index=False)
        elif form == "json":
            frame.to_json(path, orient="records", lines=True, date_format="iso")
        else:
            frame.to_parquet(path, index=False)
        paths.append(path)
    return paths
