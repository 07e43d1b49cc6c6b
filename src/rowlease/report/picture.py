"""Draws the chart of the report: completions over time, waits, runs and failures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rowlease.chart_style import (
    AXIS,
    FAINT,
    GRID,
    INK,
    MIN_DARK_PRIORITY,
    colour_of,
    picture,
    plain,
)
from rowlease.counts import counted
from rowlease.report.figures import Failures, Figures, Throughput, Work

#: The colours of queues. These are cool colours, because the colours of priorities are warm. The
#: last colour is for all queues that have no colour of their own.
QUEUE_COLOURS = ("#2f5d8a", "#7fb0d6", "#3f9c8f", "#a98fc7", "#c3d5a0", "#c9cdd4")
#: The colours of requests with errors: dead letters, those to be retried, and complete ones.
DEAD, AGAIN, AT_LAST = "#cf2133", "#fd9941", "#c9cdd4"
#: The maximum number of rows of waits and runs in the chart. The tables have all rows.
MAX_SHOWN_ROWS = 20
#: The maximum number of rows of failures in the chart. The tables have more.
MAX_SHOWN_FAILURES = 8
#: The width of the picture and its four margins, in hundreds of pixels.
WIDTH, LEFT, RIGHT, HEAD, FOOT = 16.0, 0.6, 0.6, 1.75, 0.55
#: The heights of the parts of the picture, in hundreds of pixels.
THROUGHPUT, ROW, GAP, CAPTION = 3.0, 0.42, 1.35, 0.3
#: The shortest time in seconds that is drawn. Shorter times are drawn like this one.
MIN_DRAWN_SECONDS = 1e-4
#: The ticks of a time axis in seconds, and their labels.
AXIS_TICKS = {
    1e-4: "0.1 ms", 1e-3: "1 ms", 1e-2: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min",
    600: "10 min", 3600: "1 h", 21_600: "6 h", 86_400: "1 d", 864_000: "10 d",
    8_640_000: "100 d",
}  # fmt: skip


def draw(figures: Figures, path: Path) -> None:
    """Write the picture to `path`."""
    timed = sorted((row for row in figures.work if row.complete), key=lambda row: -row.complete)
    rows = sorted(timed[:MAX_SHOWN_ROWS], key=lambda row: (row.queue, -row.priority))
    failed = figures.failures[:MAX_SHOWN_FAILURES]
    parts = []
    if rows:
        parts += [THROUGHPUT, ROW * len(rows) + 0.2]
    if failed:
        parts.append(ROW * len(failed) + 0.1)
    height = HEAD + sum(parts) + GAP * (len(parts) - 1) + FOOT + 0.35
    with picture(path, title_of(figures), subtitle_of(figures), (WIDTH, height), LEFT) as figure:
        page = Page(figure, height)
        if rows:
            throughput(page.axes(LEFT + 0.75, WIDTH - RIGHT - 2.2, parts[0]), figures)
            left = LEFT + 2.2
            middle = (left + WIDTH - RIGHT) / 2
            waits = page.axes(left, middle - 0.35, parts[1], goes_on=True)
            runs = page.axes(middle + 0.35, WIDTH - RIGHT, parts[1])
            times(waits, "wait", "until they were leased", rows)
            times(runs, "run", "until they were complete", rows)
            names(waits, rows, LEFT - left)
            if len(timed) > len(rows):
                page.note(f"the {len(rows)} of {len(timed)} with the most requests")
        if failed:
            failures(page.axes(LEFT + 5.0, WIDTH - RIGHT - 2.2, parts[-1]), failed)
            if len(figures.failures) > len(failed):
                page.note(f"and {len(figures.failures) - len(failed)} more in the table")


def title_of(figures: Figures) -> str:
    """The title: the number of completed requests, and the rate."""
    rate = figures.rate
    speed = f", {rate:,.0f} per second" if rate and rate >= 10 else ""
    if not speed and rate:
        speed = f", {rate * 60:,.1f} per minute"
    return f"{counted(figures.complete, 'request')} completed{speed}"


def subtitle_of(figures: Figures) -> str:
    """The subtitle: the window, and the number of dead letters."""
    text = f"{figures.since:%Y-%m-%d %H:%M} to {figures.until:%Y-%m-%d %H:%M} UTC"
    if figures.first and figures.last:
        text = f"{text}; the first at {figures.first:%H:%M:%S}, the last at {figures.last:%H:%M:%S}"
    if dead := sum(row.dead for row in figures.work):
        text += f"; {counted(dead, 'dead letter')}"
    return text


class Page:
    """Arranges axes from top to bottom. Lengths are in hundreds of pixels."""

    def __init__(self, figure: Any, height: float) -> None:
        self._figure = figure
        self._height = height
        self._top = HEAD

    def axes(self, left: float, right: float, height: float, *, goes_on: bool = False) -> Any:
        """New axes from `left` to `right`. If `goes_on`, the next axes are in the same row."""
        bottom = self._height - self._top - height
        made = self._figure.add_axes(
            (left / WIDTH, bottom / self._height, (right - left) / WIDTH, height / self._height)
        )
        if not goes_on:
            self._top += height + GAP
        return made

    def note(self, text: str) -> None:
        """Write a line below the last axes."""
        y = 1 - (self._top - GAP + 0.78) / self._height
        self._figure.text((WIDTH - RIGHT) / WIDTH, y, text, fontsize=11, color=FAINT, ha="right")


def caption(axes: Any, bold: str, faint: str, x: float = 0.0) -> None:
    """Write a caption above axes.

    Args:
        bold, faint: the two parts of the caption.
        x: the distance of the caption from the left end of the axes, in hundreds of pixels.
    """
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    start = (x * 72, CAPTION * 72 * 0.6)
    first = axes.annotate(bold, (0, 1), start, fontsize=14, fontweight="bold", **place)
    axes.annotate(f"  {faint}", (1, 0), xycoords=first, va="bottom", fontsize=12, color=FAINT)


def throughput(axes: Any, figures: Figures) -> None:
    """Draw the completions per second over time, stacked by queue."""
    from matplotlib import dates

    counts = by_queue(figures.steps)
    step = timedelta(seconds=figures.step_seconds)
    assert figures.first is not None
    assert figures.last is not None
    first = min(row.start for row in figures.steps)
    last = max(row.start for row in figures.steps) + step
    starts = [first + place * step for place in range(round((last - first) / step))]
    layers = [
        [queue.get(start, 0) / figures.step_seconds for start in starts] + [0.0]
        for queue in counts.values()
    ]
    colours = [QUEUE_COLOURS[place] for place in range(len(layers) - 1)]
    colours.append(QUEUE_COLOURS[-1] if "others" in counts else QUEUE_COLOURS[len(layers) - 1])
    edges = [*starts, last]
    axes.stackplot(edges, layers, colors=colours, step="post", edgecolor="none", antialiased=False)
    axes.set_xlim(first, last)
    axes.set_ylim(bottom=0)
    plain(axes)
    locator = dates.AutoDateLocator(minticks=4, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    formatter = dates.ConciseDateFormatter(locator, show_offset=False)
    formatter.formats[5] = "%H:%M:%S"  # the default shows only seconds
    axes.xaxis.set_major_formatter(formatter)
    peak = max(map(sum, zip(*layers, strict=True)))
    if peak < 10:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    caption(
        axes,
        "Completed per second",
        f"in steps of {duration_text(figures.step_seconds)}, UTC",
        -0.75,
    )
    for place, (name, colour) in enumerate(zip(counts, colours, strict=True)):
        y = 1 - place * 0.34 / THROUGHPUT
        axes.text(1.022, y, "■", transform=axes.transAxes, color=colour, va="top", fontsize=15)
        axes.text(1.045, y - 0.01, short(name, 22), transform=axes.transAxes, va="top", fontsize=12)


def by_queue(steps: Sequence[Throughput]) -> dict[str, dict[datetime, int]]:
    """Completions by queue and step. Queues with few completions are summed as `others`."""
    totals: dict[str, int] = {}
    for row in steps:
        totals[row.queue] = totals.get(row.queue, 0) + row.complete
    ranked = sorted(totals, key=lambda name: -totals[name])
    room = len(QUEUE_COLOURS)
    kept = ranked if len(ranked) < room else ranked[: room - 1]
    found: dict[str, dict[datetime, int]] = {name: {} for name in kept}
    for row in steps:
        queue = found.setdefault(row.queue if row.queue in kept else "others", {})
        queue[row.start] = queue.get(row.start, 0) + row.complete
    return found


def times(axes: Any, name: str, until: str, rows: Sequence[Work]) -> None:
    """Draw a line from the median to the 99th percentile for each queue and priority."""
    word = {"wait": "Waited", "run": "Ran"}[name]
    caption(axes, word, f"{until}:  ● half   ❘ 95 %   ○ 99 % within")
    axes.set_xscale("log")
    values = []
    for place, row in enumerate(rows):
        points = [
            max(MIN_DRAWN_SECONDS, getattr(row, f"{name}_{point}"))
            for point in ("p50", "p95", "p99")
        ]
        values += points
        colour = colour_of(row.priority) if row.priority else AXIS
        axes.plot(points[::2], [place, place], color=colour, linewidth=7, solid_capstyle="round")
        axes.plot(points[0], place, "o", color=INK, markersize=7)
        axes.plot(points[1], place, "|", color=INK, markersize=11, markeredgewidth=1.8)
        axes.plot(points[2], place, "o", color="white", markeredgecolor=INK, markersize=7)
    plain(axes, "x")
    low, high = min(values) / 1.6, max(values) * 1.6
    ticks = [tick for tick in AXIS_TICKS if low / 2 <= tick <= high * 2]
    axes.set_xlim(min(low, ticks[0]), max(high, ticks[-1]))
    axes.set_xticks(ticks, [AXIS_TICKS[tick] for tick in ticks], minor=False)
    axes.minorticks_off()
    axes.set_ylim(len(rows) - 0.5, -0.6)
    axes.set_yticks([])
    for place in range(1, len(rows)):
        if rows[place].queue != rows[place - 1].queue:
            axes.axhline(place - 0.5, color=GRID, linewidth=1)


def names(axes: Any, rows: Sequence[Work], start: float) -> None:
    """Write the names of the queues and the priorities to the left of the rows."""
    for place, row in enumerate(rows):
        at = {"xy": (0, place), "xycoords": ("axes fraction", "data"), "va": "center"}
        axes.annotate(
            str(row.priority),
            xytext=(-22, 0),
            textcoords="offset points",
            ha="center",
            fontsize=11,
            fontweight="bold",
            color="white" if row.priority >= MIN_DARK_PRIORITY else INK,
            bbox={
                "boxstyle": "round,pad=0.35",
                "facecolor": colour_of(row.priority),
                "edgecolor": "none",
            },
            **at,
        )
        if place == 0 or row.queue != rows[place - 1].queue:
            axes.annotate(
                short(row.queue, 20),
                xytext=(start * 72, 0),
                textcoords="offset points",
                fontsize=12,
                **at,
            )


def failures(axes: Any, failed: Sequence[Failures]) -> None:
    """Draw the most frequent errors, with the outcomes of the requests."""
    start = -5.0
    caption(axes, "Failed", "by the last error of each request", start)
    places = range(len(failed))
    offset = [0] * len(failed)
    kinds = (("dead", "dead letters", DEAD), ("again", "tried again", AGAIN),
             ("complete", "complete at last", AT_LAST))  # fmt: skip
    for nth, (name, label, colour) in enumerate(kinds):
        counts = [getattr(row, name) for row in failed]
        axes.barh(places, counts, left=offset, color=colour, height=0.55)
        offset = [before + count for before, count in zip(offset, counts, strict=True)]
        y = 1 - nth * 0.34 / (ROW * len(failed) + 0.1)
        axes.text(1.022, y, "■", transform=axes.transAxes, color=colour, va="top", fontsize=15)
        axes.text(1.055, y - 0.01, label, transform=axes.transAxes, va="top", fontsize=12)
    plain(axes, "x")
    axes.set_xlim(0, max(offset) * 1.08)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(len(failed) - 0.5, -0.6)
    axes.set_yticks([])
    for place, row in enumerate(failed):
        at = {"xy": (0, place), "xycoords": ("axes fraction", "data"), "va": "center"}
        axes.annotate(
            short(row.error, 30), xytext=(start * 72, 0), textcoords="offset points",
            fontsize=12, **at,
        )  # fmt: skip
        axes.annotate(
            short(f"{row.queue} · {row.kind}", 24), xytext=(-10, 0), textcoords="offset points",
            fontsize=11, color=FAINT, ha="right", **at,
        )  # fmt: skip
        axes.text(offset[place], place, f"  {row.total:,}", fontsize=11, va="center")


def short(text: str, most: int) -> str:
    """The text, cut to `most` characters. $ is escaped, because Matplotlib would read a formula."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return cut.replace("$", r"\$")


def duration_text(seconds: int) -> str:
    """A duration such as `30 s`, `5 min` or `1 h`."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
