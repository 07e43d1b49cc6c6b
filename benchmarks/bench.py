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
DRAIN = (
    "Both cores are busy. The baseline, which is rowlease's routines without Python, reaches 1.2 "
    "times Graphile's rate: rowlease moves each row to its history, Graphile deletes it. Tried: "
    "the next claim does not wait for the last one (32.4 thousand a second in place of 23.0, "
    "decision 27); outcomes on a second connection (20.8 in place of 18.5, decision 30); rows in "
    "binary (26.4 µs of the worker's time in place of 31.4, decision 30); a plain way to claim "
    "(0.66 of the server's time for 100, decision 45); shorter statements to complete (0.86 for "
    "100, decision 50); many outcomes apart from the claim (1.14, decision 89). Not kept: uvloop "
    "(1.08; a module of tasks may install it), a shorter switch interval of the interpreter (1.18 "
    "and 1.31 in one session, 0.85 to 1.05 in another, decision 89)."
)
PROCESSES = (
    "The workers, their child processes and the server share two cores, so a second worker adds "
    "nothing. Tried: the next claim does not wait (21.4 thousand a second in place of 19.2, "
    "decision 27); outcomes on a second connection (17.6 in place of 13.9, decision 30); many "
    "outcomes apart from the claim (1.19, decision 89). Not kept: 1,000 or 2,000 prefetched "
    "requests for each child process in place of 500 (5 % less of the server's time, none of the "
    "worker's, decision 89)."
)
#: What was tried to meet a goal that is missed, by a part of the goal's name; the first that fits.
TRIED = {
    "beside a big load": (
        "The load, the server and the worker share two cores. Tried: look-ups by key that never "
        "read the whole index (p99 10.3 ms beside a promotion, in place of 474, decision 28); no "
        "JIT (an exchange of 100 on PostgreSQL 15 in 4.4 ms in place of 587, decision 28); the "
        "lane (a promotion of a million rows in 13 ms in place of 6 to 7 s, decision 53)."
    ),
    "start latency": (
        "Tried: a plain way to claim (0.47 of the server's time for a claim of 1, 0.26 for one "
        "that finds nothing, decision 45); one request by short statements (0.83 of the server's "
        "time to enqueue, 0.81 to complete, decision 50); a routine for one enqueue (0.86 of the "
        "client's time, 0.92 of the server's, decision 86); rules as an index in place of CHECKs "
        "(0.76 of the instructions of an enqueue, 0.84 of a claim of 1, decision 84). It is no "
        "shorter in coroutines, so the child process is not the cause."
    ),
    "enqueue one by one": (
        "Each call is a durable transaction with a receipt; the table says what both cost. Tried: "
        "a receipt that is written once (0.83 to 0.86 of the server's time, decision 26); short "
        "statements (0.83, decision 50); a routine for one request (0.92, and 0.86 of the "
        "client's time, decision 86); rules as an index in place of CHECKs (0.76 of the "
        "instructions, decision 84; without any rule 0.64)."
    ),
    "enqueue in batches": (
        "Tried: a plain insert where no key is given, text arrays quoted at once (both decision "
        "26); short statements (0.91 of the server's time for 100, decision 50); rules as an index "
        "in place of CHECKs (without any rule 0.89)."
    ),
    "default processes": PROCESSES,
    "two workers": PROCESSES,
    "drain": DRAIN,
    "32 claimers": (
        "On two cores, PostgreSQL itself slows down with 32 connections: the prototype reaches "
        "0.71 and 0.78, and 32 claimers with a queue each 0.82 and 0.72. Here, each claimer also "
        "steps over the rows that the others hold, and a third of the claims ask for a floor. "
        "Tried: at most four claims at once, by an advisory lock (0.67, not kept); floors from "
        "20,000 entries on in place of 5,000 (1.12 to 1.15 times as many claims; not kept, because "
        "under an old snapshot a claim could take 4 ms); candidates locked by one statement and "
        "leased by another (0.98 of the server's time for a claim of one, decision 30); a plain "
        "way to claim (0.49 of the server's time for a claim of 10, decision 45)."
    ),
    "dequeue of": (
        "The prototype has three indexes, no rules, no counts, no floors, and does not look at "
        "settings, due requests or expired leases. Tried: a plain way to claim (0.47, 0.49 and "
        "0.66 of the former time for 1, 10 and 100, decision 45); a bound on the look for expired "
        "leases (0.71 for 100 in place of 0.90, decision 45); rules as an index in place of "
        "CHECKs (0.84 and 0.93 of the instructions for 1 and 10, decision 84; without any rule "
        "0.74 for 1). Not kept: rows leased by their ctid (0.99, decision 30)."
    ),
    "complete of": (
        "The prototype checks no rules, counts nothing and keeps no settings. Tried: short "
        "statements (0.81 of the time for 1, 0.86 for 100, decision 50); rows that are read once "
        "(0.87 for 500, decision 30); rules as an index (0.86 of the instructions for 1, decision "
        "84; without any rule 0.78). Not kept: settings looked up once (0.95 for 500, decision "
        "30)."
    ),
    "without keys, against": (
        "Tried: rows staged and copied by the promotion (0.69 over JDBC, 0.81 by COPY, decision "
        "54); rows in the queue with a status of their own (1.11 to 1.16 by COPY on two "
        "connections, decision 53); the lane (2.1 to 2.4 there, decision 53). Not kept: an index "
        "by request id (1.8 to 1.9, decision 53); counts from the writer in place of the trigger "
        "(2.5 to 2.6 µs a row in place of 2.9, decision 54)."
    ),
    "with keys, against": (
        "One connection promotes rows with keys, while a plain append has one for each core. "
        "Tried: a plain insert that falls back to ON CONFLICT (8.0 µs a row in place of 11.8, "
        "decision 21). Not kept: a BRIN index on staging (0.85 µs a row in place of 1.4; "
        "concurrent loads would read whole pages); the queue's name last in the index of claims "
        "(0.9 µs less of 6.9; a claim needs it first); rows sorted by priority (no gain; all "
        "decision 21)."
    ),
    "claims from the lane under": (
        "The plain way of a fresh queue takes about half of the server's time that it did, the "
        "careful way, which keeps floors, 1 to 15 % more (decision 45). Tried: "
        "requests brought into the queue first "
        "(7 claims a second left of 537 after 100,000 requests, decision 55); leased from the lane "
        "directly (0.82 then, decision 55); one statement for queue and lane (0.83, 0.82 and 0.87 "
        "of the former speed for 1, 10 and 100, kept for the order, decision 73)."
    ),
    "claims under a held snapshot": (
        "The plain way of a fresh queue takes about half of the server's time that it did, the "
        "careful way, which keeps floors, 1 to 15 % more (decision 45). Tried: "
        "one key of a floor for each priority "
        "(1.2 of 22.6 µs a request, commit 08dacd1); a floor from 5,000 entries on in place of "
        "always (0.26 to 0.66 of a fresh claim's time, decision 45); one that ends after 0.1 or "
        "0.25 s (no gain, decision 45)."
    ),
    "longest transaction": (
        "A task writes its part in one transaction. Tried: one transaction of promote for all rows "
        "(137 s over JDBC, 122 s by COPY); the lane, with 40 partitions of 250,000 rows (2.6 and "
        "1.7 s); 100 partitions of 100,000 rows (this table)."
    ),
    "claims of 100 from the lane": (
        "A row costs less in the lane, but finding its block and moving it are a fixed cost. "
        "Tried: a grouped count (1.07 to 1.09); one statement that finds the block and takes its "
        "rows (0.89); the statements inside dequeue with a plain count (1.15 to 1.21, not kept: a "
        "reader of the plain way had to pass them; all decision 55)."
    ),
    "read_requests": (
        "Both read over JDBC; read_requests first asks for the range of ids. Tried before: a "
        'reader in format("rowlease") by COPY as Arrow batches (0.37 to 0.40 of the speed with '
        "all columns), and the ADBC driver (1.8 to 7.9 s for 300,000 rows; both decision 74)."
    ),
    "claim at": (
        "A claim of 10 takes about half of the server's time that it did before the plain way "
        "(decision 45), so the depth of a larger index may count for more."
    ),
    "churn, hot tables": (
        "Dead rows of the last seconds, until autovacuum's next turn. The run that met the goal "
        "(27.9 MB, commit 86de07a) had 0.4 of this one's rate."
    ),
    "share of the cores": (
        "PostgreSQL and the worker's own process are on the same cores, about 3 % each. Tried: "
        "fewer exchanges (decision 30)."
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
