"""A frame of `rowlease top` in terminals of all sizes, and the rates that it shows."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from rich.console import Console

from rowlease.durations import format_duration as duration
from rowlease.errors import StoreError
from rowlease.model import Depth, QueueState, WorkerState
from rowlease.store import Store
from rowlease.top.overview import Overview
from rowlease.top.sample import SampledQueue, Sampler, TopSample

QUEUES = [
    SampledQueue("mail", False, {9: 12, 0: 12_045}, 120, 31, 4, 812.4, 1.2, 3.4),
    SampledQueue("a-queue-with-a-name-that-is-long", True, {0: 7}, 0, 0, 0, 0.0, 0.0, 4210.0),
    SampledQueue("default", False, {}, 0, 0, 0, None, None, None),
]
WORKERS = [
    WorkerState(
        *(f"{number}", f"worker-{number}.example.net", 4000 + number, "1", ("mail", "default")),
        *(8, 7, 5, datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=silent)),
    )
    for number, silent in enumerate((1.2, 77))
]
WHERE = "postgresql://app:***@host/queue"


def shown(sample: TopSample, width: int, height: int = 30, **options: object) -> str:
    console = Console(
        file=(file := io.StringIO()),
        width=width,
        height=height,
        **{"force_terminal": True, **options},  # type: ignore[arg-type]
    )
    console.print(Overview(sample, WHERE))
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 50, 56, 70, 80, 100, 200])
def test_numbers_are_whole_and_lines_fit_however_narrow_it_is(width: int) -> None:
    text = shown(TopSample(QUEUES, WORKERS), width, color_system=None)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) == 10
    assert "12,057" in text
    assert "1h 10m" in text
    assert "1m 17s ago" in text


def test_a_wide_terminal_shows_all_there_is() -> None:
    text = shown(TopSample(QUEUES, WORKERS), 200, color_system=None)
    for part in ("9: 12  0: 12,045", "120", "mail, default", WHERE, "7/8 slots busy", "812", "1.2"):
        assert part in text


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[33m" in shown(TopSample(QUEUES, WORKERS), 80, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in shown(TopSample(QUEUES, WORKERS), 80, color_system="standard")


@pytest.mark.parametrize("height", [4, 12, 24])
def test_what_there_is_no_room_for_is_counted(height: int) -> None:
    many = TopSample(QUEUES[:1] * 50, WORKERS[:1] * 50)
    lines = shown(many, 80, height, color_system=None).splitlines()
    left = [int(line.split()[1]) for line in lines if line.endswith("more") or " more " in line]
    assert len(left) == 2
    rows = sum("mail" in line for line in lines)
    assert sum(left) + rows == 100
    assert len(lines) <= max(height, 10)


def test_without_a_terminal_everything_is_printed() -> None:
    many = TopSample(QUEUES[:1] * 50, WORKERS[:1] * 50)
    assert len(shown(many, 80, 24, force_terminal=False).splitlines()) == 105


def test_nothing_at_all_is_a_frame_too() -> None:
    assert "none" in shown(TopSample([], []), 80, color_system=None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.04, "0.0s"),
        (42.9, "42s"),
        (200, "3m 20s"),
        (18_060, "5h 1m"),
        (183_600, "2d 3h"),
    ],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


class Counting:
    """A store in which 50 requests are finished, and one attempt fails, between two looks."""

    def __init__(self) -> None:
        self.looks = 0
        self.error: StoreError | None = None

    def depth(self) -> list[Depth]:
        if self.error:
            raise self.error
        return [Depth("mail", 9, 1, 12, 3, 4), Depth("mail", 0, 1, 0, 1, 1)]

    def list_queues(self) -> list[QueueState]:
        self.looks += 1
        oldest = timedelta(seconds=2.5)
        return [QueueState("mail", False, 50 * self.looks, self.looks, oldest)]

    def list_workers(self) -> list[WorkerState]:
        return WORKERS


def test_rates_are_taken_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(float(second) for second in range(100))
    monkeypatch.setattr("rowlease.samples.monotonic", lambda: next(clock))
    sampler = Sampler(cast("Store", Counting()))
    (first,) = sampler.sample().queues
    assert first == SampledQueue("mail", False, {9: 12}, 2, 4, 5, None, None, 2.5, (12,))
    for _ in range(20):
        (last,) = sampler.sample().queues
        assert (last.finished_rate, last.failed_rate) == (50.0, 1.0)
    assert last.history == (12,) * 21


def test_a_sample_is_data_for_programs() -> None:
    data = Sampler(cast("Store", Counting())).sample().as_json()
    assert data["queues"][0]["pending"] == {9: 12}
    assert data["workers"][1]["silent_seconds"] == 77.0
    assert "silent" not in data["workers"][1]
