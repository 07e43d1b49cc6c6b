"""How fast is a queue of requests drained whose tasks do nothing?

    python benchmarks/drain.py [--requests 100000] [--runs 5] [--dsn postgresql://...]

Each way in turn, on a database of its own, so that whatever else the machine does falls on all:

* the floor: pgbench calls `dequeue` and `complete` in one statement, 100 requests at a time, over
  one connection, with no Python in between;
* one worker at its defaults whose task is a coroutine, in its own process;
* one worker at its defaults whose task is a plain function, in child processes;
* two such workers.

History is kept and commits are durable, unless the server's settings, which are printed, say
otherwise. The time is from the first claim to the last completion, by the database's clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from servers import add_dsn, database, programs, server

from rowlease.model import NewRequest
from rowlease.store import open_store

BATCH = 100
#: Ways to drain, and the least share of the floor that each should reach.
WAYS = {
    "floor (pgbench)": None,
    "one worker, coroutine": 0.7,
    "one worker, processes": None,
    "two workers, processes": None,
}
FLOOR = f"""
with claimed as materialized (
  select * from rowlease.dequeue('pgbench', '{{default}}', {BATCH},
                                 p_floor => nullif(:floor, 'none'))),
held as materialized (
  select array_agg(request_id) filter (where request_id is not null) as ids,
         array_agg(lock_token) filter (where request_id is not null) as tokens,
         coalesce(max(claimed.floor), 'none') as next
    from claimed)
select held.next as floor,
       (select count(*) from rowlease.complete(held.ids, held.tokens)) as done
  from held
\\gset
"""


def fill(dsn: str, kind: str, count: int) -> None:
    """Enqueue so many requests, and have the tables as a server in use would have them."""
    store = open_store(dsn)
    for start in range(0, count, 5000):
        numbers = range(start, min(count, start + 5000))
        store.enqueue_many(
            "default", [NewRequest(kind=kind, payload=f'{{"n":{number}}}') for number in numbers]
        )
    store.close()
    with psycopg.connect(dsn, autocommit=True) as sql:
        sql.execute("vacuum analyze")
        sql.execute("checkpoint")


def drain(way: str, dsn: str, count: int) -> None:
    if way.startswith("floor"):
        with TemporaryDirectory() as folder:
            script = Path(folder, "floor.sql")
            script.write_text(FLOOR)
            command = [
                programs() / "pgbench",
                "--no-vacuum",
                "--protocol=prepared",
                "-D",
                "floor=none",
            ]
            run([*command, "-t", str(count // BATCH), "-f", script, dsn])
        return
    tasks = "noops:anoop" if "coroutine" in way else "noops:noop"
    command = [sys.executable, "-m", "rowlease", "worker", tasks, "--burst", "--dsn", dsn]
    workers = 2 if way.startswith("two") else 1
    run([*command, "--processes", str(workers)])


def run(command: list[object]) -> None:
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def rate(way: str, place: str, count: int) -> float:
    """Requests a second."""
    with database(place) as dsn:
        fill(dsn, "anoop" if "coroutine" in way else "noop", count)
        drain(way, dsn, count)
        with psycopg.connect(dsn) as sql:
            ((done, seconds),) = sql.execute(
                "select count(*), extract(epoch from max(completion_time) - min(locked_time))"
                " from rowlease.queue_history where status = 'Complete'"
            ).fetchall()
    if done != count:
        raise SystemExit(f"{way}: {done} of {count} requests are complete")
    return count / float(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000, help="a multiple of 100")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    count = given.requests // BATCH * BATCH
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        for turn in range(given.runs):
            for way, found in rates.items():
                found.append(rate(way, place, count))
                print(f"run {turn + 1}: {way} {found[-1]:,.0f}/s", file=sys.stderr, flush=True)
    floor = rates["floor (pgbench)"]
    print(f"\n| {count:,} no-op requests | median of {given.runs} | spread | of the floor | goal |")
    print("|---|---|---|---|---|")
    for way, found in rates.items():
        share = statistics.median(one / base for one, base in zip(found, floor, strict=True))
        goal = WAYS[way]
        print(
            f"| {way} | {statistics.median(found):,.0f}/s | {min(found):,.0f} to {max(found):,.0f} "
            f"| {share:.2f} | {goal or ''} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
