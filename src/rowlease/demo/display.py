"""Shows the progress of the demo on stderr: the steps, and the depth of the queue."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from rich.bar import Bar
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rowlease.chart_style import colour_of
from rowlease.demo.drain import DrainSample

#: Seconds between two lines if stderr is not a terminal.
LINE_INTERVAL_SECONDS = 2.0
#: Seconds over which the rate is measured.
RATE_WINDOW_SECONDS = 4.0
BAR_WIDTH = 40


def time_text(seconds: float) -> str:
    """A time as text, in milliseconds if it is short."""
    return f"{seconds:,.1f} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"


class Steps:
    """Shows the current step, and the time that each step took.

    Attributes:
        seconds: the time that each step took, by the name of the step.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator[None]:
        """Measure the time of the block. A terminal shows `doing` beside a spinner."""
        began = time.monotonic()
        shown = bool(doing) and self._console.is_terminal
        spinner: Any = self._console.status(doing) if shown else nullcontext()
        with spinner:
            yield
        self.seconds[name] = time.monotonic() - began

    def done(self, name: str, what: str) -> None:
        """Print a line for a finished step."""
        self._console.print(
            f"[dim]{time_text(self.seconds[name]):>8}[/]  {what}", highlight=False, soft_wrap=True
        )

    def say(self, what: str) -> None:
        """Print a line without the time of a step."""
        self._console.print(f"          {what}", highlight=False, soft_wrap=True)


class ProgressBars:
    """Shows the queue during the drain: depth by priority, rate, time left, time elapsed."""

    def __init__(self, console: Console, labels: Mapping[int, str]) -> None:
        self._console = console
        self._labels = labels
        self._recent: deque[DrainSample] = deque()
        self._full: dict[int, int] = {}
        self._next_line = 0.0
        self._live: Live | None = None

    def __enter__(self) -> ProgressBars:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, sample: DrainSample) -> None:
        """Show one more sample."""
        self._recent.append(sample)
        while self._recent[0].seconds < sample.seconds - RATE_WINDOW_SECONDS:
            self._recent.popleft()
        for priority, count in sample.depths.items():
            self._full[priority] = max(count, self._full.get(priority, 0))
        if self._live is not None:
            self._live.update(Group(self._bars(sample), Text(""), self._line(sample)), refresh=True)
        elif sample.seconds >= self._next_line:
            self._console.print(self._line(sample), highlight=False, soft_wrap=True)
            self._next_line = sample.seconds + LINE_INTERVAL_SECONDS

    def _bars(self, sample: DrainSample) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right")
        table.add_column()
        table.add_column(width=BAR_WIDTH)
        table.add_column(justify="right", min_width=9)
        for priority in sorted(self._full, reverse=True):
            left, full = sample.depths.get(priority, 0), self._full[priority]
            colour = colour_of(priority)
            table.add_row(
                Text(str(priority), style="bold"),
                Text(self._labels.get(priority, ""), style="dim" if not left else ""),
                Bar(full, 0, left, width=BAR_WIDTH, color=colour),
                Text(f"{left:,}", style="dim" if not left else "bold"),
            )
        return table

    def _line(self, sample: DrainSample) -> Text:
        first = self._recent[0]
        passed = sample.seconds - first.seconds
        rate = (first.total - sample.total) / passed if passed else 0.0
        left = f"{sample.total / rate:,.0f} s left" if rate > 0 else "waiting for the worker"
        return Text.assemble(
            (f"{sample.total:>9,}", "bold"),
            " to go   ",
            (f"{max(rate, 0):>6,.0f}/s", "bold"),
            f"   {left}   {sample.seconds:,.0f} s elapsed",
        )
