"""The results of `sqlserver_claims`: figures, lines of a table, and a file that keeps them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import NamedTuple


class Figures(NamedTuple):
    """The figures of one run.

    Attributes:
        shared: requests that two claims were given.
        lost: requests that no claim was ever given, or that were never completed.
        refused: completions that were answered with `lease_lost`.
        conflicts: calls that the database ended because of a deadlock or a lock timeout, and that
            were repeated.
        claims: calls of dequeue while requests were waiting.
        empty: the share of these claims that returned no request, %.
        found: requests per claim that returned any.
        waiting: the share of time that a connection waited for a lock, %; sampled every 50 ms.
        median_ms, slow_ms: the median time of a claim, and the slowest of a hundred.
        rate: requests finished per second.
    """

    shared: float
    lost: float
    refused: float
    conflicts: float
    claims: float
    empty: float
    found: float
    waiting: float
    median_ms: float
    slow_ms: float
    rate: float


Runs = dict[str, list[Figures]]

HEADINGS = (
    "shared", "lost", "refused", "conflicts", "claims", "empty, %", "found", "waiting, %",
    "ms, median", "ms, 99 %", "requests/s",
)  # fmt: skip
HEAD = [f"| claim | {' | '.join(HEADINGS)} |", "|---|" + "---:|" * len(HEADINGS)]


def line(name: str, figures: Figures) -> str:
    digits = (0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0)
    cells = (f"{value:,.{places}f}" for value, places in zip(figures, digits, strict=True))
    return f"| {name} | {' | '.join(cells)} |"


def median(runs: list[Figures]) -> Figures:
    return Figures(*map(statistics.median, zip(*runs, strict=True)))


def keep(path: Path, about: list[object], runs: Runs) -> None:
    path.write_text(json.dumps({"about": about, "runs": runs}), encoding="utf-8")


def kept(path: Path | None, about: list[object], names: list[str]) -> Runs:
    """The runs in a file; none if the file does not exist.

    Raises:
        ValueError: they are runs with other settings.
    """
    if path is None or not path.exists():
        return {name: [] for name in names}
    reported = json.loads(path.read_text(encoding="utf-8"))
    if reported["about"] != about:
        raise ValueError(f"{path} tells of {reported['about']}, not of {about}; give another file")
    return {name: [Figures(*run) for run in reported["runs"][name]] for name in names}
