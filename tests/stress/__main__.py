"""The long form of the fault runner: `python -m tests.stress`, which `make faults` runs.

It does what docs/reliability.md reports, and writes the figures there. What was done before with
the same seed is not done again. `--only "worker killed" --count 100` does one fault, so often.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from functools import reduce
from pathlib import Path

from tests.published import publish
from tests.stress.load_kills import KILLED, kill_drivers
from tests.stress.replicas import Seed
from tests.stress.rounds import KINDS, Figures, drawn, one_round

ROOT = Path(__file__).parents[2]
#: How many faults have one server and one history.
ROUND = 200
ALL = {**{name: kind.times for name, kind in KINDS.items()}, KILLED: 500}
#: What the faults are done to; the commit that changed it last is noted with each round.
TESTED = ("src", "sql/postgresql", "migrations")


def version() -> str:
    """The last commit that changed what is tested."""
    command = ["git", "log", "-1", "--format=%h", "--", *TESTED]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def table(rounds: dict[str, list[tuple[Figures, str]]], seed: int) -> str:
    heads = [
        "fault", "count", "at commit", "acknowledged requests", "leases", "late reports refused",
        "lost", "doubled", "other promises broken", "command",
    ]  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for fault in ALL:
        if not (done := rounds.get(fault)):
            continue
        of, versions = total(done), Counter[str]()
        for one, commit in done:
            versions[commit] += one.faults
        command = f'python -m tests.stress --seed {seed} --only "{fault}" --count {of.faults}'
        commits = ", ".join(f"{commit}: {count:,}" for commit, count in versions.items())
        others = of.broken - of.doubled - of.lost
        numbers = (of.acknowledged, of.leases, of.refused, of.lost, of.doubled, others)
        cells = [f"{of.faults:,}", commits, *(f"{number:,}" for number in numbers)]
        lines.append(f"| {fault} | {' | '.join(cells)} | `{command}` |")
    return "\n".join(lines)


def total(done: list[tuple[Figures, str]]) -> Figures:
    return reduce(Figures.plus, (one for one, _ in done), Figures())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=ALL, help="one fault")
    parser.add_argument("--count", type=int, help="how often; default: as the long form does")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers are ended, too
    wanted = {given.only: given.count or ALL[given.only]} if given.only else ALL
    state = ROOT / "build" / f"faults-{given.seed}.jsonl"
    state.parent.mkdir(exist_ok=True)
    state.touch()
    rounds: dict[str, list[tuple[Figures, str]]] = {}
    for line in state.read_text().splitlines():
        fault, _, values, commit = json.loads(line)
        rounds.setdefault(fault, []).append((Figures(*values), commit))
    with tempfile.TemporaryDirectory(prefix="rowlease-faults-") as folder:
        seed: Seed | None = None
        for fault, times in wanted.items():
            while (first := total(rounds.get(fault, [])).faults) < times:
                number = min(ROUND, times - first)
                seed = seed or Seed(Path(folder) / "seed")
                name = f"seed {given.seed}, {fault}, from {first}"
                home = Path(folder) / f"{fault} {first}"
                if fault == KILLED:
                    found, broken = kill_drivers(seed, home, number, name)
                else:
                    faults = drawn(kind := KINDS[fault], number, random.Random(name))
                    found, broken = one_round(seed, home, faults, name, kind=kind)
                sys.stdout.write(f"{name}: {found}\n" + "".join(f"  {one}\n" for one in broken))
                sys.stdout.flush()
                if broken:
                    return 1
                rounds.setdefault(fault, []).append((found, commit := version()))
                with state.open("a") as file:
                    file.write(json.dumps([fault, first, found, commit]) + "\n")
    text = table(rounds, given.seed)
    sys.stdout.write(text + "\n")
    publish("faults", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
