"""How long do the command line and the import take, and how much memory has an idle worker?

    python -m benchmarks.startup [--runs 20] [--dsn postgresql://...]

Each time is that of a whole process, and includes the start of the interpreter, which is also
measured alone. Memory is the private memory of the worker's processes plus their part of the shared
memory (PSS, Linux), one second after the worker became idle.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import psutil

from benchmarks.latency import idle_worker
from benchmarks.servers import add_dsn, database, described, server
from benchmarks.tables import Table, at_most, finish, times

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import rowlease'": ["-c", "import rowlease"],
    "rowlease --help": ["-m", "rowlease", "--help"],
}
HELP = "rowlease --help"


def milliseconds(words: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    return 1000 * (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    add_dsn(parser)
    given = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(given.runs + 1):
        for name, words in COMMANDS.items():
            took = milliseconds(words)
            if turn:  # the first round only filled the file cache
                found[name].append(took)
    with (
        server(given.dsn) as place,
        database(place) as dsn,
        idle_worker(dsn, "began") as worker,
    ):
        printed = described(place)
        time.sleep(1)
        own = psutil.Process(worker.pid)
        children = own.children(recursive=True)
        memory = [each.memory_full_info().pss / 2**20 for each in (own, *children)]
    rows = [[name, *times(values)] for name, values in found.items()]
    rows.append(["idle worker", f"{sum(memory):.0f} MB", f"1 and {len(children)} child processes"])
    goal = at_most(HELP, 150, float(times(found[HELP])[0].split()[0]), " ms")
    title = f"Start and memory, medians of {given.runs}"
    return finish(Table(title, printed, ["", "median", "spread"], rows, [goal]))


if __name__ == "__main__":
    sys.exit(main())
