"""A frame: the tables of queues and workers, cut to the size of the terminal."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from rowlease.durations import written as duration
from rowlease.model import WorkerState
from rowlease.top.sample import Queue, TopSample
from rowlease.worker.time_limits import WORKER_SILENT

#: The longest wait in a queue is shown in colour if it is at least this many seconds.
LATE = 60.0
#: The widths of a terminal, in characters, from which more columns are shown.
SMALL, MEDIUM, WIDE = 56, 70, 100
#: The number of lines that are not rows: titles, column heads and empty lines.
FURNITURE = 8


class Frame:
    """Shows a sample in a rich console. `error` is an error message to show, or empty."""

    def __init__(self, sample: TopSample, where: str, error: str = "") -> None:
        self._sample = sample
        self._where = where
        self._error = error

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        rows = (options.height or console.height) - FURNITURE if console.is_terminal else 10**6
        # Each table may fill half of the rows, and the rows that the other table does not need.
        half = max(1, rows // 2)
        many = max(half, rows - len(self._sample.workers))
        few = max(half, rows - len(self._sample.queues))
        yield Group(*self._head(width))
        yield Text("")
        yield queues_table(self._sample.queues, width, many)
        yield Text("")
        yield workers_table(self._sample.workers, width, few)

    def _head(self, width: int) -> list[RenderableType]:
        workers = [
            each for each in self._sample.workers if each.silent.total_seconds() <= WORKER_SILENT
        ]
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


def queues_table(queues: list[Queue], width: int, room: int) -> Table:
    """The table of queues: waiting requests, the longest wait, and rates."""
    table = plain_table()
    table.add_column("queue")
    heads = ["waiting", "oldest", "done/s", "fail/s"]
    heads += ["running"] if width >= SMALL else []
    heads += ["dead"] if width >= MEDIUM else []
    heads += ["scheduled"] if width >= WIDE else []
    for name in heads:
        table.add_column(name, justify="right", no_wrap=True)
    if width >= MEDIUM:
        table.add_column(cut("by priority"))
    for queue in queues[:room]:
        late = (queue.oldest_seconds or 0) >= LATE
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
        if width >= MEDIUM:
            pairs = (f"{priority}: {count:,}" for priority, count in queue.pending.items())
            cells.append(cut(("  ".join(pairs), "dim")))
        table.add_row(*cells)
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
        silence = worker.silent.total_seconds()
        style = "red" if silence > WORKER_SILENT else ""
        cells: list[RenderableType] = [
            cut((worker.host, style)),
            Text(str(worker.pid), style="dim"),
            number(worker.busy),
            Text(f"{worker.slots:,}"),
        ]
        if width >= MEDIUM:
            cells.append(Text(str(worker.consumer_priority)))
        cells.append(Text(f"{duration(silence)} ago", style=style))
        if width >= MEDIUM:
            cells.append(cut((", ".join(worker.queue_names), "dim")))
        table.add_row(*cells)
    if not workers:
        table.add_row(Text("none", style="yellow"))
    return left_out(table, len(workers) - room)


def plain_table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def cut(*parts: str | tuple[str, str]) -> Text:
    """Text that is cut if it does not fit.

    rich makes only those columns narrower that are not `no_wrap`. Columns of numbers are `no_wrap`,
    so numbers are never cut.
    """
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


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
    return Text(f"{value:,.0f}" if value >= 10 else f"{value:.1f}", style=style if value else "dim")
