"""The long form of the fault runner: `python -m tests.stress`, which `make faults` runs.

It does what docs/reliability.md reports, and writes the figures there. What was done before with
the same seed is not done again. `--only "worker killed" --count 100` does one fault, so often.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.published import publish
from tests.stress.faults import LONG, Figures, drawn, one_round
from tests.stress.replicas import Seed

ROOT = Path(__file__).parents[2]
#: How many faults have one server and one history.
ROUND = 100


def table(done: dict[str, Figures], seed: int) -> str:
    heads = [
        "fault", "count", "acknowledged requests", "leases", "late reports refused", "lost",
        "doubled", "other promises broken", "command",
    ]  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for fault, of in done.items():
        command = f'python -m tests.stress --seed {seed} --only "{fault}" --count {of.faults}'
        numbers = (of.faults, of.acknowledged, of.leases, of.refused, of.lost, of.doubled)
        others = of.broken - of.doubled - of.lost
        cells = [f"{number:,}" for number in (*numbers, others)]
        lines.append(f"| {fault} | {' | '.join(cells)} | `{command}` |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=LONG, help="one fault")
    parser.add_argument("--count", type=int, help="how often; default: as the long form does")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers are ended, too
    wanted = {given.only: given.count or LONG[given.only]} if given.only else LONG
    state = ROOT / "build" / f"faults-{given.seed}.jsonl"
    state.parent.mkdir(exist_ok=True)
    state.touch()
    rounds: dict[str, dict[int, Figures]] = {}
    for line in state.read_text().splitlines():
        fault, first, values = json.loads(line)
        rounds.setdefault(fault, {})[first] = Figures(*values)
    with tempfile.TemporaryDirectory(prefix="rowlease-faults-") as folder:
        seed: Seed | None = None
        for fault, times in wanted.items():
            for first in range(0, times, ROUND):
                number = min(ROUND, times - first)
                if rounds.get(fault, {}).get(first, Figures()).faults >= number:
                    continue
                seed = seed or Seed(Path(folder) / "seed")
                name = f"seed {given.seed}, {fault}, from {first}"
                faults = drawn(fault, number, random.Random(name))
                home = Path(folder) / f"{fault} {first}"
                found, broken = one_round(seed, home, faults, name)
                sys.stdout.write(f"{name}: {found}\n" + "".join(f"  {one}\n" for one in broken))
                sys.stdout.flush()
                if broken:
                    return 1
                rounds.setdefault(fault, {})[first] = found
                with state.open("a") as file:
                    file.write(json.dumps([fault, first, found]) + "\n")
    done = {}
    for fault in LONG:
        if fault in rounds:
            total = Figures()
            for one in rounds[fault].values():
                total = total.plus(one)
            done[fault] = total
    sys.stdout.write(table(done, given.seed) + "\n")
    publish("faults", table(done, given.seed))
    return 0


raise SystemExit(main())
