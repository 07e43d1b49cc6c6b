"""Charts as SVG, drawn by the server. Labels are HTML, so that they stay readable on a phone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from rowlease.chart_style import colour_of
from rowlease.dashboard import samples as figures
from rowlease.dashboard.formats import milliseconds, number, rate, span
from rowlease.samples import Sample

#: The size of the drawing, in its own units. The page stretches it.
WIDTH, HEIGHT = 600.0, 100.0
#: The smallest number of samples that fill the width of a chart.
MIN_CHART_POINTS = 24
#: The number of rows of the table below a chart, which shows some of its values.
CHART_ROWS = 12
#: The labels of a logarithmic axis: 1 ms, 10 ms and so on.
DECADES = ("1 ms", "10 ms", "100 ms", "1s", "10s", "100s", "17m", "2.8h", "28h", "12d", "116d")

Values = Sequence[float | None]


class Series(NamedTuple):
    """A line or an area.

    Attributes:
        path: the `d` of the SVG path.
        mark: the class that gives the line its colour and its dashes.
        colour: the colour of an area.
        now: the latest value, as text.
    """

    name: str
    path: str
    mark: str
    colour: str
    now: str


class Chart(NamedTuple):
    """A chart.

    Attributes:
        empty: the sentence that replaces a chart without values.
        grid: the labels of the y axis, with their heights from the top.
        begin: the label of the left end.
        heads, rows: a table with some of the values.
    """

    name: str
    title: str
    empty: str
    series: list[Series]
    grid: list[tuple[float, str]]
    begin: str
    heads: list[str]
    rows: list[tuple[datetime, list[str]]]

    @property
    def summary(self) -> str:
        """The latest values as a sentence, for a screen reader."""
        return ", ".join(f"{one.name}: {one.now}" for one in self.series) or self.empty


def depth_chart(samples: list[Sample], queue: str | None = None) -> Chart:
    """The number of waiting requests, a layer for each priority, the most urgent at the bottom."""
    counts = [sample.pending(queue) for sample in samples]
    priorities = sorted({one for count in counts for one in count}, reverse=True)
    sums = [0.0] * len(counts)
    layers = []
    for priority in priorities:
        values = [count.get(priority, 0) for count in counts]
        below, sums = sums, [low + value for low, value in zip(sums, values, strict=True)]
        layers.append((priority, values, below, sums))
    top = round_up(max(sums, default=0))
    scale = _linear(top)
    found = [
        Series(
            f"priority {priority}", area(below, above, scale), "area", colour_of(priority),
            number(values[-1]),
        )
        for priority, values, below, above in layers
    ]  # fmt: skip
    return _chart(
        "depth", "Waiting, by priority", "nothing has been waiting", found,
        _grid(top, number), number, samples,
        [values for _, values, *_ in layers],
    )  # fmt: skip


def rate_chart(samples: list[Sample], queue: str | None = None) -> Chart:
    """Completed requests per second."""
    done = [None, *(rate for rate, _ in figures.rates(samples, queue))][: len(samples)]
    return _lines(
        "rates", "Completed per second", "nothing has been completed", samples,
        {"completed": (done, "line-1")}, rate,
    )  # fmt: skip


def failure_chart(samples: list[Sample], queue: str | None = None) -> Chart:
    """Failed attempts per second."""
    failed = [None, *(rate for _, rate in figures.rates(samples, queue))][: len(samples)]
    return _lines(
        "failures", "Failed attempts per second", "no attempt has failed", samples,
        {"failed": (failed, "line-bad")}, rate,
    )  # fmt: skip


def wait_chart(samples: list[Sample], queue: str | None = None) -> Chart:
    """Percentiles of the time from due to claimed, on a logarithmic axis."""
    lines: dict[str, tuple[Values, str]] = {
        "p50": (figures.waits(samples, lambda one: one.wait_p50_ms, queue), "line-1"),
        "p95": (figures.waits(samples, lambda one: one.wait_p95_ms, queue), "line-2"),
        "p99": (figures.waits(samples, lambda one: one.wait_p99_ms, queue), "line-3"),
    }
    found = [value for values, _ in lines.values() for value in values if value is not None]
    last = min(max(1, math.ceil(math.log10(max(found, default=1) or 1))), len(DECADES) - 1)
    first = max(0, min(math.floor(math.log10(min(found, default=1) or 1)), last - 3))
    scale = _logarithmic(first, last)
    series = [
        Series(name, line(values, scale), mark, "", milliseconds(_last(values)))
        for name, (values, mark) in lines.items()
    ]
    return _chart(
        "waits", "Wait before the start", "nothing has been completed", series if found else [],
        [(scale(10.0**n), DECADES[n]) for n in range(first, last + 1)],
        milliseconds, samples, [values for values, _ in lines.values()],
    )  # fmt: skip


def day_chart(name: str, title: str, days: Mapping[date, int], num: int, mark: str) -> Chart:
    """A bar for each of the last days. A day without a value has none.

    Args:
        num: the number of days.
    """
    last = max(days)
    values = [days.get(last - timedelta(days=back), 0) for back in range(num - 1, -1, -1)]
    top = round_up(max(values))
    step, scale = WIDTH / num, _linear(top)
    bars = "".join(
        f"M{n * step:.1f},{HEIGHT:.0f}V{scale(value):.1f}h{step * 0.7:.1f}V{HEIGHT:.0f}Z"
        for n, value in enumerate(values)
        if value
    )
    return Chart(
        name,
        title,
        f"None in the last {num} days.",
        [Series("today" if last == datetime.now(UTC).date() else str(last), bars, mark, "",
                number(values[-1]))] if bars else [],
        _grid(top, number),
        f"{num} days ago",
        [],
        [],
    )  # fmt: skip


def area(below: Values, above: Values, scale: Callable[[float], float]) -> str:
    """The outline of an area between two lines."""
    if len(above) < 2:
        return ""
    upper = [f"{x:.1f},{scale(value or 0):.1f}" for x, value in _places(above)]
    lower = [f"{x:.1f},{scale(value or 0):.1f}" for x, value in _places(below)]
    return "M" + "L".join([*upper, *reversed(lower)]) + "Z"


def line(values: Values, scale: Callable[[float], float]) -> str:
    """A line with gaps where there is no value. A value between two gaps is a short dash."""
    parts: list[str] = []
    drawing = False
    for x, value in _places(values):
        if value is None:
            drawing = False
            continue
        parts.append(f"{'L' if drawing else 'M'}{x:.1f},{scale(value):.1f}" + "h1" * (not drawing))
        drawing = True
    return "".join(parts)


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20 … that is at least `value`."""
    if value <= 1:
        return 1.0
    decade = 10.0 ** math.floor(math.log10(value))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= value * 0.9999)


def _lines(
    name: str,
    title: str,
    empty: str,
    samples: list[Sample],
    lines: dict[str, tuple[Values, str]],
    written: Callable[[float | None], str],
) -> Chart:
    found = [value for values, _ in lines.values() for value in values if value]
    top = round_up(max(found, default=0))
    scale = _linear(top)
    series = [
        Series(key, line(values, scale), mark, "", written(_last(values)))
        for key, (values, mark) in lines.items()
    ]
    every = [values for values, _ in lines.values()]
    shown = series if found else []
    return _chart(name, title, empty, shown, _grid(top, written), written, samples, every)


def _chart(
    name: str,
    title: str,
    empty: str,
    series: list[Series],
    grid: list[tuple[float, str]],
    written: Callable[..., str],
    samples: list[Sample],
    values: Sequence[Values],
) -> Chart:
    chosen = list(range(len(samples) - 1, -1, -max(1, len(samples) // CHART_ROWS)))[:CHART_ROWS]
    rows = [(samples[at].time, [written(each[at]) for each in values]) for at in chosen]
    return Chart(
        name,
        title,
        f"In the last 15 minutes, {empty}."
        if len(samples) > 1
        else "The chart begins in a few seconds.",
        [one for one in series if one.path],
        grid,
        f"{span(max(MIN_CHART_POINTS, len(samples)) * figures.SAMPLE_SECONDS)} ago",
        [one.name for one in series],
        rows if series else [],
    )


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


def _last(values: Values) -> float | None:
    return values[-1] if values else None


def _places(values: Values) -> list[tuple[float, float | None]]:
    """Each value with its place on the x axis. The last is at the right end."""
    step = WIDTH / (max(MIN_CHART_POINTS, len(values)) - 1)
    return [(WIDTH - (len(values) - 1 - n) * step, value) for n, value in enumerate(values)]


def _linear(top: float) -> Callable[[float], float]:
    return lambda value: HEIGHT * (1 - value / top)


def _grid(top: float, written: Callable[..., str]) -> list[tuple[float, str]]:
    """The place and the text of each line of a linear axis."""
    scale = _linear(top)
    return [(scale(value), written(_whole(value))) for value in (top, top / 2, 0)]


def _logarithmic(first: int, last: int) -> Callable[[float], float]:
    """The place of a value on an axis from 10 to the power of `first` to that of `last`."""
    lowest = 10.0**first
    return lambda value: HEIGHT * (1 - math.log10(max(value, lowest) / lowest) / (last - first))
