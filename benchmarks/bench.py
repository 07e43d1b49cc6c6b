"""Runs the benchmarks, and writes docs/benchmarks.md and the tables of benchmarks/README.md.

    python -m benchmarks.bench [--full] [NAME ...]

Without names it runs all benchmarks in their short form, which takes about a quarter of an hour.
Tables of earlier runs stay on the pages, with the time of their run. The server is that of
ROWLEASE_TEST_PG_DSN, else one that the benchmarks start.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import PEERS
from benchmarks.peers.cache import home

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
README = HERE / "README.md"
#: What follows this line in README is written anew.
MARK = "<!-- `python -m benchmarks.bench` writes what follows. -->"
#: The benchmarks whose tables are in README: they tell a user nothing.
FOR_DEVELOPERS = ("server_cost", "horizon_lane", "lane", "promote")
#: The commands of each benchmark in its short and its full form.
RUNS = {
    "drain": ("drain.py --runs 2", "drain.py --runs 5"),
    "peers": (
        "drain.py --peers others --requests 5000 --runs 1",
        "drain.py --peers others --requests 50000 --runs 3",
    ),
    "enqueue": ("enqueue.py --requests 5000 --runs 2", "enqueue.py --runs 5"),
    "latency": ("latency.py --runs 1 --seconds 2", "latency.py --runs 3 --seconds 4"),
    "request_life": ("request_life.py --requests 5000 --runs 2", "request_life.py"),
    "claims": (
        "claims.py --pending 1000000 --claims 300 --runs 3",
        "claims.py --pending 1000000,10000000",
    ),
    "server_cost": ("server_cost.py --runs 3", "server_cost.py"),
    "claimers": ("claimers.py --seconds 2 --runs 2", "claimers.py"),
    "hosts": ("hosts.py --hosts 1,10 --seconds 5", "hosts.py"),
    "fleet": ("fleet.py --hosts 10,50", "fleet.py"),
    "horizon": ("horizon.py --finished 100000 --runs 1", "horizon.py --finished 1000000 --runs 3"),
    "horizon_lane": (
        "horizon.py --lane --finished 100000 --runs 1",
        "horizon.py --lane --finished 1000000 --runs 3",
    ),
    "churn": ("churn.py --requests 500000", "churn.py"),
    "cores": ("cores.py --tasks 500 --runs 2", "cores.py"),
    "spark": ("spark.py --rows 200000 --runs 1", "spark.py"),
    "spark_keys": (
        "spark.py --keys --no-limits --rows 200000 --runs 1",
        "spark.py --keys --no-limits",
    ),
    "lane": ("lane.py --rows 200000 --runs 1", "lane.py"),
    "read": ("read.py --rows 100000 --runs 2", "read.py"),
    "promote": ("promote.py --rows 50000 --waiting 200000 --runs 1", "promote.py"),
    "big_load": ("big_load.py --rows 300000", "big_load.py"),
    "startup": ("startup.py --runs 10", "startup.py"),
}
HEAD = """\
# Benchmarks

What rowlease costs, and how fast it is beside other queues. You may stop after the first four
tables, which compare; the rest say what your own server will pay.
[Goals, and what was tried](../benchmarks/README.md), is for developers.

Everything, PostgreSQL, workers and producers, shares one machine: {machine}.
Compare within a table. The machine is shared with others: the baseline of the drain, 51,541/s on
one run, was 20,849/s on the same day seven hours later, and every other rate with it.

History is kept, commits are durable (except where a table says otherwise), and the peers run at the
settings that their documentation gives for throughput, and at their defaults. Most peers delete
what is finished, or keep only a state; rowlease moves the whole row to its history.

`python -m benchmarks.bench` writes this page; each table names the command that measured it.
"""


def page(tables: dict[str, dict]) -> str:  # type: ignore[type-arg]
    machine = f"{cores()} cores ({cpu()}), {platform.system()} {platform.release().split('-')[0]}"
    parts = [HEAD.format(machine=f"{machine}, Python {platform.python_version()}")]
    parts += [
        section(tables[name]) for name in RUNS if name in tables if name not in FOR_DEVELOPERS
    ]
    parts.append("## Peers\n\n| peer | version | settings from |\n|---|---|---|")
    parts[-1] += "".join(f"\n| {each.name} | {each.version} | {each.source} |" for each in PEERS)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def readme(written: str, tables: dict[str, dict]) -> str:  # type: ignore[type-arg]
    parts = [written.partition(MARK)[0] + MARK, goals(tables)]
    parts += [section(tables[name]) for name in FOR_DEVELOPERS if name in tables]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def goals(tables: dict[str, dict]) -> str:  # type: ignore[type-arg]
    lines = ["## Goals", "", "| figure | goal | measured | |", "|---|---|---|---|"]
    for name in RUNS:
        for goal in tables.get(name, {}).get("goals", []):
            verdict = "met" if goal["is_met"] else "**missed**"
            lines.append(f"| {goal['what']} | {goal['wanted']} | {goal['found']} | {verdict} |")
    return "\n".join(lines)


def section(table: dict) -> str:  # type: ignore[type-arg]
    lines = [f"## {table['title']}", ""]
    lines.append(f"| {' | '.join(table['columns'])} |")
    lines.append("|---" * len(table["columns"]) + "|")
    lines += [f"| {' | '.join(row)} |" for row in table["rows"]]
    lines += ["", *table["notes"]] if table["notes"] else []
    lines += ["", f"`{table['command']}`, {table['taken_at']}, at {table['commit']}."]
    return "\n".join([*lines, f"{table['server']}."])


def cores() -> int:
    import os

    return os.cpu_count() or 1


def cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *RUNS], help="default: all")
    parser.add_argument("--full", action="store_true", help="the long form")
    parser.add_argument("--page", action="store_true", help="only write the pages")
    given = parser.parse_args()
    names = [] if given.page else given.names or list(RUNS)
    for name in names:
        print(f"== {name}", file=sys.stderr, flush=True)
        program, *arguments = RUNS[name][given.full].split()
        subprocess.run(
            [sys.executable, "-m", f"benchmarks.{program.removesuffix('.py')}", *arguments]
        )
    folder = home() / "tables"
    tables = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
    PAGE.write_text(page(tables))
    README.write_text(readme(README.read_text(), tables))
    print(f"{PAGE} and {README} are written", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
