"""Draws how the queue emptied: depth per priority over time, as a PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rowlease.demo.display import COLOURS
from rowlease.demo.drain import Drained
from rowlease.demo.job import LABELS

#: 1600 x 900 pixels.
SIZE, DPI = (16, 9), 100
INK, FAINT = "#2b2f36", "#8a919c"
#: From this priority on the colour is so dark that text on it must be light.
DARK = 7


def draw(drained: Drained, title: str, subtitle: str, path: Path) -> None:
    """Write the picture to `path`: requests that wait or run, stacked, the least urgent below."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    samples = drained.samples
    seconds = [sample.seconds for sample in samples]
    priorities = sorted({priority for sample in samples for priority in sample.depths})
    layers = [[sample.depths.get(priority, 0) for sample in samples] for priority in priorities]
    with plt.rc_context({"font.family": "DejaVu Sans", "text.color": INK, "font.size": 13}):
        figure, axes = plt.subplots(figsize=SIZE, dpi=DPI)
        figure.subplots_adjust(left=0.075, right=0.8, top=0.84, bottom=0.1)
        axes.stackplot(
            seconds,
            layers,
            colors=[COLOURS[min(priority, len(COLOURS) - 1)] for priority in priorities],
            edgecolor="white",
            linewidth=0.6,
        )
        axes.set_xlim(0, max(seconds[-1], 0.1))
        axes.set_ylim(0, max(1, samples[0].total) * 1.02)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("seconds since the workers started", color=FAINT, labelpad=10)
        axes.tick_params(colors=FAINT, length=0, pad=8)
        axes.grid(axis="y", color="#e6e8ec", linewidth=1)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color("#c9cdd4")
        for restart in drained.restarts:
            axes.axvline(restart, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
            axes.annotate(
                " worker died,\n started again",
                (restart, samples[0].total),
                color=INK,
                fontsize=11,
                va="top",
            )
        figure.text(0.075, 0.935, title, fontsize=22, fontweight="bold")
        figure.text(0.075, 0.888, subtitle, fontsize=14, color=FAINT)
        _legend(axes, priorities, samples[0].depths)
        figure.savefig(path)
        plt.close(figure)


def _legend(axes: Any, priorities: list[int], full: dict[int, int]) -> None:
    """A list beside the picture, in the order of the layers, with each one's number of requests."""
    axes.text(1.022, 1.0, "priority", transform=axes.transAxes, color=FAINT, va="top")
    for place, priority in enumerate(reversed(priorities)):
        height = 0.9 - 0.085 * place
        axes.text(
            1.03,
            height,
            str(priority),
            transform=axes.transAxes,
            fontsize=14,
            fontweight="bold",
            color="white" if priority >= DARK else INK,
            va="center",
            bbox={
                "boxstyle": "round,pad=0.45",
                "facecolor": COLOURS[min(priority, len(COLOURS) - 1)],
                "edgecolor": "none",
            },
        )
        axes.text(
            1.075,
            height,
            f"{LABELS.get(priority, '')}\n{full.get(priority, 0):,} requests",
            transform=axes.transAxes,
            fontsize=11,
            va="center",
            linespacing=1.35,
        )
