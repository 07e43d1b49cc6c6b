"""Draws the depth by priority over time, as a PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rowlease.chart_style import FAINT, INK, badge, colour_of, picture, plain
from rowlease.counts import counted
from rowlease.demo.drain import Drained


def draw(
    drained: Drained, labels: Mapping[int, str], title: str, subtitle: str, path: Path
) -> None:
    """Draw the requests that wait or run, stacked by priority with the most urgent on top."""
    samples = drained.samples
    seconds = [sample.seconds for sample in samples]
    priorities = sorted({priority for sample in samples for priority in sample.depths})
    layers = [[sample.depths.get(priority, 0) for sample in samples] for priority in priorities]
    with picture(path, title, subtitle) as figure:
        axes = figure.add_subplot()
        figure.subplots_adjust(left=0.075, right=0.8, top=0.84, bottom=0.1)
        axes.stackplot(
            seconds,
            layers,
            colors=[colour_of(priority) for priority in priorities],
            edgecolor="white",
            linewidth=0.6,
        )
        axes.set_xlim(0, max(seconds[-1], 0.1))
        axes.set_ylim(0, max(1, samples[0].total) * 1.02)
        axes.set_xlabel("seconds since the workers started", color=FAINT, labelpad=10)
        plain(axes)
        for restart in drained.restarts:
            axes.axvline(restart, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
            axes.annotate(
                " worker died;\n new one started",
                (restart, samples[0].total),
                color=INK,
                fontsize=11,
                va="top",
            )
        _legend(axes, priorities, labels, samples[0].depths)


def _legend(
    axes: Any, priorities: list[int], labels: Mapping[int, str], full: dict[int, int]
) -> None:
    """Write the priorities beside the picture, with the number of requests of each."""
    axes.text(1.022, 1.0, "priority", transform=axes.transAxes, color=FAINT, va="top")
    for place, priority in enumerate(reversed(priorities)):
        height = 0.9 - 0.085 * place
        badge(axes, 1.03, height, priority)
        axes.text(
            1.075,
            height,
            f"{labels.get(priority, '')}\n{counted(full.get(priority, 0), 'request')}",
            transform=axes.transAxes,
            fontsize=11,
            va="center",
            linespacing=1.35,
        )
