"""Runs the benchmarks and writes docs/benchmarks.md.

    python -m benchmarks.bench [--full] [NAME ...]

Without names it runs all benchmarks in their short form, which takes about a quarter of an hour.
Tables of earlier runs stay on the page, with the time of their run. The server is that of
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
#: The commands of each benchmark in its short and its full form.
RUNS = {
    "drain": ("drain.py --runs 2", "drain.py --runs 5"),
    "peers": (
        "drain.py --peers others --requests 5000 --runs 1",
        "drain.py --peers others --requests 50000 --runs 3",
    ),
    "enqueue": ("enqueue.py --requests 5000 --runs 2", "enqueue.py --runs 5"),
    "latency": ("latency.py --runs 1 --seconds 2", "latency.py --runs 3 --seconds 4"),
    "claims": (
        "claims.py --pending 1000000 --claims 300 --runs 3",
        "claims.py --pending 1000000,10000000",
    ),
    "server_cost": ("server_cost.py --runs 3", "server_cost.py"),
    "request_life": ("request_life.py --requests 5000 --runs 2", "request_life.py"),
    "claimers": ("claimers.py --seconds 2 --runs 2", "claimers.py"),
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
#: What was tried to meet a goal that is missed, by a part of the goal's name.
DRAIN = (
    "Both cores are busy: of the processor time of a request about 26 µs are the server's, 19 the "
    "worker's. Tried: no wait before the next claim, and more prefetch (decision 27); outcomes "
    "delivered beside the claim, by a second connection, floors that are lifted without a query, "
    "rows in binary, a completion that reads its rows once, connections in another order "
    "(decision 30); a payload decoded in 0.25 µs in place of 1.02 (msgspec: 0.06)."
)
TRIED = {
    "start latency": (
        "Two fifths are the call of enqueue, about half the claim, processor time of PL/pgSQL: a "
        "durable insert takes 0.25 ms there. It is no shorter in coroutines, so the child process "
        "is not what takes it. Tried (decision 30): a claim of fewer statements, which took off "
        "8 %; an empty claim that prepares no update, and none while producers notify (1.44 times "
        "Graphile's p50 in place of 1.75); a receipt that is written once (decision 26: 0.88 of "
        "the call); no CHECK constraints at all (0.8 of an enqueue's processor time, 0.9 of a "
        "claim's: not kept, they guard the tables against slips)."
    ),
    "against the baseline": DRAIN,
    "against Graphile": DRAIN,
    "against PgQueuer": DRAIN,
    "against Procrastinate": DRAIN,
    "share of the cores": (
        "PostgreSQL and the worker's own process are on the same cores, about 3 % each. Tried: "
        "fewer exchanges (decision 30)."
    ),
    "32 claimers": (
        "Two claimers fill the two cores; each further one steps over the rows that the others "
        "hold, and 32 plan caches do not fit into the processor's. Of the profile of 32, no "
        "function is more than 7 %, which is looking up pages (2.5 % with two). Tried: a claim of "
        "fewer statements; candidates locked by one statement and leased by another (decision 30); "
        "at most four claims at once, by an advisory lock (0.67, not kept)."
    ),
    "against a plain append": (
        "One connection promotes, a plain append has one for each core. Tried: a plain insert "
        "where nothing conflicts, rows sorted by priority, rows unsorted, JSON checked while "
        "staging (decisions 21 and 24)."
    ),
    "enqueue in batches": (
        "Tried: a plain insert where no key is given, text arrays quoted at once (decision 26)."
    ),
}
HEAD = """\
# Benchmarks

Written by `python -m benchmarks.bench`; do not edit. `make bench` runs the short form of all,
`python -m benchmarks.bench --full NAME` the long form of one; each table names its command, whose
first lines say what is measured and how. Everything, PostgreSQL, workers and producers, shares one
machine: {machine}.

History is kept, commits are durable (except where a table says otherwise), and the peers run at the
settings that their documentation gives for throughput, and at their defaults. Most peers delete
what is finished, or keep only a state; rowlease moves the whole row to its history.

Compare within a table. The machine is shared with others: the baseline of the drain, 51,541/s on
one run, was 20,849/s on the same day seven hours later, and every other rate with it.
"""


def page(tables: dict[str, dict]) -> str:  # type: ignore[type-arg]
    machine = f"{cores()} cores ({cpu()}), {platform.system()} {platform.release().split('-')[0]}"
    parts = [HEAD.format(machine=f"{machine}, Python {platform.python_version()}"), goals(tables)]
    for name in RUNS:
        if name in tables:
            parts.append(section(tables[name]))
    parts.append("## Peers\n\n| peer | version | settings from |\n|---|---|---|")
    parts[-1] += "".join(f"\n| {each.name} | {each.version} | {each.source} |" for each in PEERS)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def goals(tables: dict[str, dict]) -> str:  # type: ignore[type-arg]
    lines = ["## Goals", "", "| figure | goal | measured | |", "|---|---|---|---|"]
    notes: list[str] = []
    for name in RUNS:
        for goal in tables.get(name, {}).get("goals", []):
            verdict = "met" if goal["is_met"] else "**missed**"
            tried = next((why for part, why in TRIED.items() if part in goal["what"]), None)
            if tried and not goal["is_met"]:
                if tried not in notes:
                    notes.append(tried)
                verdict += f", see {notes.index(tried) + 1}"
            lines.append(f"| {goal['what']} | {goal['wanted']} | {goal['found']} | {verdict} |")
    return "\n".join([*lines, "", *(f"{place}. {note}" for place, note in enumerate(notes, 1))])


def section(table: dict) -> str:  # type: ignore[type-arg]
    lines = [f"## {table['title']}", ""]
    lines.append(f"| {' | '.join(table['columns'])} |")
    lines.append("|---" * len(table["columns"]) + "|")
    lines += [f"| {' | '.join(row)} |" for row in table["rows"]]
    lines += ["", *table["notes"]] if table["notes"] else []
    lines += ["", f"`python {table['command']}`, {table['taken_at']}, at {table['commit']}."]
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
    parser.add_argument("--page", action="store_true", help="only write the page")
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
    print(f"{PAGE} is written", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
