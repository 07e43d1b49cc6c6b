"""The long form of the fuzz tests: `python -m tests.fuzz --count 100000`.

It goes on where an earlier run with the same seed has stopped, and writes what it found into
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from rowlease.store import migrate
from tests.conftest import in_database, scratch_database
from tests.fuzz.surfaces import Figures, attack
from tests.fuzz.test_fuzz import SURFACES
from tests.published import publish
from tests.servers import embedded_server

ROOT = Path(__file__).parents[2]
#: How many inputs meet one database.
ROUND = 500


def table(done: dict[str, Figures], seed: int, count: int) -> str:
    heads = ["what takes it", "inputs", "refused, with the reason", "faults"]
    lines = [f"| {' | '.join(heads)} |", "|---|---:|---:|---:|"]
    for name, of in done.items():
        lines.append(f"| {name} | {of.inputs:,} | {of.refused:,} | {len(of.faults):,} |")
    total = sum(of.inputs for of in done.values())
    refused = sum(of.refused for of in done.values())
    faults = sum(len(of.faults) for of in done.values())
    lines.append(f"| **all** | {total:,} | {refused:,} | {faults:,} |")
    return "\n".join([*lines, "", f"`python -m tests.fuzz --seed {seed} --count {count}`"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100_000, help="of all inputs")
    given = parser.parse_args()
    state = ROOT / "build" / f"fuzz-{given.seed}.jsonl"
    state.parent.mkdir(exist_ok=True)
    state.touch()
    rounds: dict[str, dict[int, Figures]] = defaultdict(dict)
    for line in state.read_text().splitlines():
        name, first, values = json.loads(line)
        rounds[name][first] = Figures(*values)
    with embedded_server() as server, scratch_database(server) as template:
        migrate(in_database(server, template))
        for surface in SURFACES:
            for first in range(0, given.count * surface.share // 100, ROUND):
                if first in rounds[surface.name]:
                    continue
                with scratch_database(server, template) as database:
                    name = f"seed {given.seed}, {surface.name}, from {first}"
                    found = attack(surface, in_database(server, database), ROUND, name)
                rounds[surface.name][first] = found
                with state.open("a") as file:
                    file.write(json.dumps([surface.name, first, found]) + "\n")
                sys.stdout.write(f"{name}: {found.inputs} inputs, {found.refused} refused\n")
                sys.stdout.writelines(f"  {k}\n    {v}\n" for k, v in found.faults.items())
                sys.stdout.flush()
    done = {one.name: summed(rounds[one.name]) for one in SURFACES}
    sys.stdout.write(table(done, given.seed, given.count) + "\n")
    publish("hostile input", table(done, given.seed, given.count))
    return int(any(one.faults for one in done.values()))


def summed(those: dict[int, Figures]) -> Figures:
    total = Figures()
    for one in those.values():
        total = total.plus(one)
    return total


if __name__ == "__main__":
    sys.exit(main())
