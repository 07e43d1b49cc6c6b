"""The appearance of rowlease: the colours of priorities, and the style of tables and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

#: The colour of each priority. More urgent priorities have darker colours.
COLOURS = (
    "#dde1e8",
    "#fff0bd",
    "#ffe292",
    "#fecf6c",
    "#feb650",
    "#fd9941",
    "#fa7434",
    "#ec4a2c",
    "#cf2133",
    "#960a38",
)
#: The lowest priority whose colour is so dark that text on it must be light.
MIN_DARK_PRIORITY = 7
INK, FAINT, GRID, AXIS = "#2b2f36", "#8a919c", "#e6e8ec", "#c9cdd4"
#: Width and height of a picture in inches.
SIZE = (16.0, 9.0)
#: Pixels per inch.
DPI = 100


def colour_of(priority: int) -> str:
    """The colour of a priority. Priorities above 9 have the colour of priority 9."""
    return COLOURS[min(priority, len(COLOURS) - 1)]


def table(title: str, first: str, *columns: str) -> Table:
    """A table with a column of names, in which long names wrap, and columns of numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    made.add_column(first, overflow="fold")
    for column in columns:
        made.add_column(column, justify="right", no_wrap=True)
    return made


@contextmanager
def picture(
    path: Path,
    title: str,
    subtitle: str,
    size: tuple[float, float] = SIZE,
    left: float = 1.2,
) -> Iterator[Any]:
    """Make a figure with a title, and write it to `path` as a PNG at the end of the block.

    Args:
        size: width and height, in hundreds of pixels.
        left: the left margin of the title, in hundreds of pixels.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    width, height = size
    with plt.rc_context({"font.family": "DejaVu Sans", "text.color": INK, "font.size": 13}):
        figure = plt.figure(figsize=size, dpi=DPI)
        try:
            figure.text(left / width, 1 - 0.585 / height, title, fontsize=22, fontweight="bold")
            figure.text(left / width, 1 - 1.008 / height, subtitle, fontsize=14, color=FAINT)
            yield figure
            figure.savefig(path)
        finally:
            plt.close(figure)


def plain(axes: Any, lines: str = "y") -> None:
    """Remove the frame of the axes, and draw faint grid lines.

    Args:
        lines: the axis that has numbers: `x` or `y`.
    """
    from matplotlib.ticker import FuncFormatter

    axes.tick_params(colors=FAINT, length=0, pad=8)
    axes.grid(axis=lines, color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(AXIS)
    if lines == "y":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def badge(axes: Any, x: float, y: float, priority: int) -> None:
    """Draw a priority's number on its colour. x and y are fractions of the axes, from 0 to 1."""
    axes.text(
        x,
        y,
        str(priority),
        transform=axes.transAxes,
        fontsize=14,
        fontweight="bold",
        color="white" if priority >= MIN_DARK_PRIORITY else INK,
        va="center",
        bbox={
            "boxstyle": "round,pad=0.45",
            "facecolor": colour_of(priority),
            "edgecolor": "none",
        },
    )
