"""The tables that benchmarks print and keep for docs/benchmarks.md."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers.cache import home


@dataclass(frozen=True)
class Goal:
    """Attributes:
    what: the figure.
    wanted: the goal, with its unit.
    found: what was measured.
    """

    what: str
    wanted: str
    found: str
    is_met: bool


@dataclass(frozen=True)
class Table:
    """The results of one command.

    Attributes:
        server: the server's version and settings.
        notes: sentences below the table.
        kept_as: the name of its file; empty: the program's.
    """

    title: str
    server: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = ()
    kept_as: str = ""

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def at_least(what: str, wanted: float, found: float, unit: str = "x") -> Goal:
    return Goal(what, f"≥ {wanted:g}{unit}", f"{found:.2f}{unit}", found >= wanted)


def at_most(what: str, wanted: float, found: float, unit: str) -> Goal:
    return Goal(what, f"≤ {wanted:g}{unit}", f"{found:.3g}{unit}", found <= wanted)


def rates(values: Sequence[float]) -> tuple[str, str]:
    """The median of some rates, and their spread."""
    digits = 0 if statistics.median(values) >= 10 else 1
    middle = f"{statistics.median(values):,.{digits}f}/s"
    return middle, f"{min(values):,.{digits}f} to {max(values):,.{digits}f}"


def times(values: Sequence[float], unit: str = "ms") -> tuple[str, str]:
    """The median of some times, and their spread."""
    digits = 1 if statistics.median(values) >= 1 else 2
    middle = f"{statistics.median(values):.{digits}f} {unit}"
    return middle, f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of runs that were made in turns."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def finish(table: Table) -> int:
    """Print a table and its goals, and keep them for the page; return 1 if a goal is missed."""
    print(f"\n{table.title}\n{table.server}\n\n{table.markdown()}")
    for note in table.notes:
        print(note)
    for goal in table.goals:
        print(f"{'met' if goal.is_met else 'MISSED'}: {goal.what}: {goal.found} ({goal.wanted})")
    name = Path(sys.argv[0]).stem
    kept = {
        **asdict(table),
        "command": " ".join([f"python -m benchmarks.{name}", *map(shown, sys.argv[1:])]),
        "taken_at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": commit_of(Path(__file__).parent),
    }
    folder = home() / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{table.kept_as or name}.json").write_text(json.dumps(kept, indent=1))
    return 0 if all(goal.is_met for goal in table.goals) else 1


def shown(argument: str) -> str:
    """An argument of a command for the page, without places of this machine and passwords."""
    if "://" in argument:
        return "DSN"
    return "CHECKOUT" if Path(argument).is_absolute() else argument


def commit_of(checkout: str | Path) -> str:
    """The short hash of a checkout's commit."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True
    )
    return found.stdout.strip()
