"""The drawing of charts, and the windows of samples."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rowlease.dashboard import charts, samples
from rowlease.model import Depth, QueueState, Waits
from rowlease.samples import Sample, rate_now


def sample(second: float, pending: dict[int, int], finished: int = 0, failed: int = 0) -> Sample:
    return Sample(
        datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second),
        second,
        [Depth("a", priority, 0, count, 0, 0) for priority, count in pending.items()],
        [QueueState("a", False, finished, failed, None)],
        [],
        {None: Waits(None, 1, 5, 50, 5000, 1, 1, 1)} if finished else {},
    )


@pytest.mark.parametrize(
    ("value", "rounded"), [(0, 1), (1, 1), (1.5, 2), (3, 5), (7, 10), (10, 10), (1001, 2000)]
)
def test_an_axis_ends_at_a_round_number(value: float, rounded: float) -> None:
    assert charts.round_up(value) == rounded


def test_a_line_has_gaps_where_nothing_is_known() -> None:
    values = [None] * 20 + [1, 2, None, 3]
    drawn = charts.line(values, lambda value: value)
    assert drawn.count("M") == 2
    assert drawn.count("L") == 1
    assert drawn.endswith("M600.0,3.0h1")


def test_layers_of_priorities_are_on_top_of_each_other() -> None:
    chart = charts.depth_chart([sample(0, {0: 5, 9: 2}), sample(5, {0: 8, 9: 2})])
    assert [(one.name, one.now) for one in chart.series] == [
        ("priority 9", "2"),
        ("priority 0", "8"),
    ]
    assert [label for _, label in chart.grid] == ["10", "5", "0"]
    assert "600.0,80.0" in chart.series[0].path  # 2 of 10
    assert "600.0,0.0" in chart.series[1].path  # 10 of 10
    assert chart.rows[0] == (chart.rows[0][0], ["2", "8"])


def test_rates_are_of_the_time_between_samples() -> None:
    kept = [sample(0, {}, 10), sample(5, {}, 60, 5), sample(15, {}, 60, 5)]
    assert samples.rates(kept) == [(10.0, 1.0), (0.0, 0.0)]
    assert rate_now(kept) == (50 / 15, 5 / 15)
    assert rate_now(kept[:1]) is None
    assert samples.rates([sample(0, {}, 10), sample(5, {}, 3)]) == [(0, 0)]  # a queue was deleted


def test_a_restored_database_has_no_negative_rate() -> None:
    assert rate_now([sample(0, {}, 10, 9), sample(5, {}, 0, 0)]) == (0.0, 0.0)


def test_waits_are_on_a_logarithmic_axis() -> None:
    chart = charts.wait_chart([sample(0, {}, 1), sample(5, {}, 2)])
    assert [label for _, label in chart.grid] == ["1 ms", "10 ms", "100 ms", "1s", "10s"]
    assert [one.now for one in chart.series] == ["5 ms", "50 ms", "5.0s"]


def test_the_axis_of_waits_begins_near_the_shortest_wait() -> None:
    """Waits of a quarter of an hour are not drawn at the top of an axis from a millisecond."""
    waits = Waits(None, 1, 900_000, 1_000_000, 1_100_000, 1, 1, 1)
    chart = charts.wait_chart([replace(sample(n, {}), waits={None: waits}) for n in (0, 5)])
    assert [label for _, label in chart.grid] == ["10s", "100s", "17m", "2.8h"]
    assert [y for y, _ in chart.grid] == pytest.approx([100, 200 / 3, 100 / 3, 0])
    assert [one.now for one in chart.series] == ["15m 0s", "16m 40s", "18m 20s"]


@pytest.mark.parametrize(("rate", "seconds"), [(0, 60), (10, 60), (100, 20), (10_000, 5)])
def test_the_window_of_waits_holds_as_many_requests_as_a_sample_reads(
    rate: int, seconds: float
) -> None:
    last = sample(0, {}, 0)
    assert samples.window(last, sample(5, {}, rate * 5)) == timedelta(seconds=seconds)
