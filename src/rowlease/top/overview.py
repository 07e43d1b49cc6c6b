"""The overview: the tables of queues and workers, cut to the size of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from rowlease.counts import per_second
from rowlease.durations import format_duration as duration
from rowlease.model import WorkerState
from rowlease.top.sample import SampledQueue, TopSample
from rowlease.visible import visible

#: The longest wait in a queue is shown in colour if it is at least this many seconds.
LATE_SECONDS = 60.0
#: The widths of a terminal, in characters, from which more columns are shown.
SMALL, MEDIUM, WIDE = 56, 70, 100
#: The number of lines that are not rows: titles, column heads and empty lines.
OVERVIEW_FRAME_LINES = 8


#: The values by which the queues of the overview are sorted, in the order of the columns.
ORDERS: tuple[tuple[str, Callable[[SampledQueue], Any]], ...] = (
    ("queue", lambda queue: queue.name),
    ("waiting", lambda queue: sum(queue.pending.values())),
    ("oldest", lambda queue: queue.oldest_seconds or 0.0),
    ("done/s", lambda queue: queue.finished_rate or 0.0),
    ("fail/s", lambda queue: queue.failed_rate or 0.0),
    ("running", lambda queue: queue.processing),
    ("dead", lambda queue: queue.failed),
    ("scheduled", lambda queue: queue.scheduled),
)
BARS = "▁▂▃▄▅▆▇█"
#: The number of characters of a sparkline.
SPARKLINE_CHARACTERS = 20


class Overview:
    """Shows a sample in a rich console.

    Args:
        error: an error message to show, or empty.
        selected: the number of the selected queue; None: no queue is selected.
        sorted_by: the name of the column by which the queues are sorted, or empty.
        spare: the number of lines to leave free at the end.
    """

    def __init__(
        self,
        sample: TopSample,
        where: str,
        error: str = "",
        *,
        selected: int | None = None,
        sorted_by: str = "",
        spare: int = 0,
    ) -> None:
        self._sample = sample
        self._where = where
        self._error = error
        self._selected = selected
        self._sorted_by = sorted_by
        self._spare = spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        height = (options.height or console.height) - self._spare
        rows = height - OVERVIEW_FRAME_LINES if console.is_terminal else 10**6
        # Each table may fill half of the rows, and the rows that the other table does not need.
        half = max(1, rows // 2)
        many = max(half, rows - len(self._sample.workers))
        few = max(half, rows - len(self._sample.queues))
        yield Group(*self._head(width))
        yield Text("")
        yield queues_table(self._sample.queues, width, many, self._selected, self._sorted_by)
        yield Text("")
        yield workers_table(self._sample.workers, width, few)

    def _head(self, width: int) -> list[RenderableType]:
        workers = [each for each in self._sample.workers if each.is_alive]
        queues = self._sample.queues
        head = Text.assemble(
            ("rowlease top", "bold"),
            f"  {sum(sum(queue.pending.values()) for queue in queues):,} waiting",
            f"  {sum(each.busy for each in workers)}/{sum(each.slots for each in workers)}"
            " slots busy",
            f"  {self._where}" if width >= MEDIUM else "",
            no_wrap=True,
            overflow="ellipsis",
        )
        return [head, *([Text(self._error, style="bold red")] if self._error else [])]


def queues_table(
    queues: list[SampledQueue],
    width: int,
    room: int,
    selected: int | None = None,
    sorted_by: str = "",
) -> Table:
    """The table of queues: waiting requests, the longest wait, and rates."""
    table = plain_table()

    def head(name: str) -> Text:
        return Text(name, style="bold underline" if name == sorted_by else "")

    table.add_column(head("queue"))
    heads = ["waiting", "oldest", "done/s", "fail/s"]
    heads += ["running"] if width >= SMALL else []
    heads += ["dead"] if width >= MEDIUM else []
    heads += ["scheduled"] if width >= WIDE else []
    for name in heads:
        table.add_column(head(name), justify="right", no_wrap=True)
    has_history = width >= WIDE and any(len(queue.history) > 1 for queue in queues)
    if has_history:
        table.add_column("last minute", no_wrap=True)
    if width >= MEDIUM:
        table.add_column(cut("by priority"))
    first = first_shown(len(queues), room, selected)
    for place, queue in enumerate(queues[first : first + room], first):
        late = (queue.oldest_seconds or 0) >= LATE_SECONDS
        cells: list[RenderableType] = [
            cut(("paused ", "yellow") if queue.paused else "", (queue.name, "bold")),
            number(sum(queue.pending.values())),
            Text(duration(queue.oldest_seconds), style="yellow" if late else ""),
            rate(queue.finished_rate),
            rate(queue.failed_rate, "red"),
        ]
        if width >= SMALL:
            cells.append(number(queue.processing))
        if width >= MEDIUM:
            cells.append(number(queue.failed, "red"))
        if width >= WIDE:
            cells.append(number(queue.scheduled))
        if has_history:
            cells.append(Text(sparkline(queue.history), style="" if place == selected else "cyan"))
        if width >= MEDIUM:
            pairs = (f"{priority}: {count:,}" for priority, count in queue.pending.items())
            cells.append(cut(("  ".join(pairs), "dim")))
        table.add_row(*cells, style="reverse" if place == selected else "")
    return left_out(table, len(queues) - room)


def workers_table(workers: list[WorkerState], width: int, room: int) -> Table:
    """The table of workers: hosts, busy slots, queues, and the time since the last heartbeat."""
    table = plain_table()
    table.add_column("worker")
    for name in ("pid", "busy", "slots"):
        table.add_column(name, justify="right", no_wrap=True)
    if width >= MEDIUM:
        table.add_column("priority", justify="right", no_wrap=True)
    table.add_column("heard", justify="right", no_wrap=True)
    if width >= MEDIUM:
        table.add_column("queues")
    for worker in workers[:room]:
        style = "red" if worker.is_silent else ""
        cells: list[RenderableType] = [
            cut((worker.host, style)),
            Text(str(worker.pid), style="dim"),
            number(worker.busy),
            Text(f"{worker.slots:,}"),
        ]
        if width >= MEDIUM:
            cells.append(Text(str(worker.consumer_priority)))
        cells.append(Text(f"{duration(worker.silent.total_seconds())} ago", style=style))
        if width >= MEDIUM:
            cells.append(cut((", ".join(worker.queue_names), "dim")))
        table.add_row(*cells)
    if not workers:
        table.add_row(Text("none", style="yellow"))
    return left_out(table, len(workers) - room)


def first_shown(count: int, room: int, selected: int | None) -> int:
    """The number of the first row to show, so that the selected row is visible."""
    last = max(0, count - room)
    return min(last, max(0, (selected or 0) - room + 1))


def sparkline(values: Sequence[int]) -> str:
    """The values as bars, the newest on the right. The largest value has the highest bar."""
    # Of several samples for one bar, the largest is shown.
    size = -(-len(values) // SPARKLINE_CHARACTERS) or 1
    heights = [max(values[max(0, end - size) : end]) for end in range(len(values), 0, -size)][::-1]
    most = max(heights, default=0)
    return "".join(BARS[(len(BARS) - 1) * height // most if most else 0] for height in heights)


def plain_table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def cut(*parts: str | tuple[str, str]) -> Text:
    """Text that is cut if it does not fit.

    rich makes only those columns narrower that are not `no_wrap`. Columns of numbers are `no_wrap`,
    so numbers are never cut.
    """
    safe = (
        visible(part) if isinstance(part, str) else (visible(part[0]), part[1]) for part in parts
    )
    return Text.assemble(*safe, no_wrap=True, overflow="ellipsis")


def left_out(table: Table, count: int) -> Table:
    """Add a row with the number of rows that did not fit, if there are any."""
    if count > 0:
        table.add_row(Text(f"+ {count} more", style="dim"))
    return table


def number(count: int, style: str = "") -> Text:
    """A count. Zero is shown dimmed."""
    return Text(f"{count:,}", style=style if count else "dim")


def rate(value: float | None, style: str = "") -> Text:
    """A number per second."""
    if value is None:
        return Text("-", style="dim")
    return Text(per_second(value), style=style if value else "dim")
