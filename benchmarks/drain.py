"""How fast is a queue of empty tasks drained?

    python -m benchmarks.drain [--requests 100000] [--runs 5] [--peers named|others|none]
                               [--dsn postgresql://...]

The systems run in turns, each on its own database, so that other load on the machine affects all of
them:

* the baseline: pgbench calls `dequeue` and `complete` in one statement on one connection, without
  Python, with 100 requests at a time and with 1,000, about the batch of a worker with short tasks;
* the limit of a worker in Python: three threads that claim, run and complete, and do nothing else;
* one worker with default settings that runs coroutines in its own process, as the peers do;
* one worker with default settings that runs plain functions in child processes, and two of them;
* the peers that the goals name, with the settings that their documentation recommends for
  throughput; or all others, also with their defaults, beside one worker of rowlease.

History is kept and commits are durable, unless the printed settings of the server disable that.
The time of rowlease runs from the first claim to the last completion, by the database's clock; that
of a peer from the start of the first task until all outcomes are stored. The processor time is that
of the whole machine while the program runs, its start included. It varies less than the rate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.peers import PEERS
from benchmarks.peers.cache import NotInstalled
from benchmarks.peers.running import Drained, drain_rate, processor_seconds
from benchmarks.pgbench import claiming, pgbench
from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Goal, Table, at_least, finish, rates, ratio
from rowlease.model import NewRequest
from rowlease.store import open_store

BATCH = 1_000
BASELINE, SMALL_BASELINE = (
    "baseline: pgbench, batches of 1,000",
    "baseline: pgbench, batches of 100",
)
COROUTINE = "rowlease, one worker, coroutine"
PROCESSES = "rowlease, one worker, processes"
TWO = "rowlease, two workers, processes"
TWO_COROUTINE = "rowlease, two workers, coroutine"
#: The peers in the goals, and how many times as fast rowlease's coroutines should be.
NAMED = {"Graphile Worker": 1.5, "PgQueuer": 2.5, "Procrastinate": 50.0}
GRAPHILE = "Graphile Worker, batched"
GRAPHILE_TWO = "Graphile Worker, batched, 2 processes"
SMALLEST = "limit: three threads, coroutine"
Drain = Callable[[str, int], Drained]


def fill(dsn: str, kind: str, count: int) -> None:
    """Enqueue `count` requests, then vacuum and analyse the tables as autovacuum would."""
    store = open_store(dsn)
    for start in range(0, count, 5000):
        numbers = range(start, min(count, start + 5000))
        store.enqueue_many(
            "default", [NewRequest(kind=kind, payload=f'{{"n":{number}}}') for number in numbers]
        )
    store.close()
    as_in_use(dsn)


def drain_baseline(batch: int, dsn: str, count: int) -> None:
    pgbench(dsn, claiming(batch), ["-t", count // batch])


def drain_by(task: str, workers: int, dsn: str, count: int = 0) -> None:
    """Run workers with one task (module:name) until no request is left."""
    options = ["--burst", "--dsn", dsn, "--processes", workers]
    run([sys.executable, "-m", "rowlease", "worker", task, *options])


def drain_smallest(batch: int, dsn: str, count: int) -> None:
    run(
        [
            sys.executable,
            "-c",
            f"""if True:
        from benchmarks import noops, smallest_client
        smallest_client.drain({dsn!r}, noops.anoop, {batch})
    """,
        ]
    )


def run(command: list[object]) -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def own_rate(kind: str, drain: Callable[[str, int], None], place: str, count: int) -> Drained:
    with database(place) as dsn:
        fill(dsn, kind, count)
        before = processor_seconds()
        drain(dsn, count)
        spent = processor_seconds() - before
        with psycopg.connect(dsn) as sql:
            ((done, seconds),) = sql.execute(
                "select count(*), extract(epoch from max(completion_time) - min(locked_time))"
                " from rowlease.queue_history where status = 'Complete'"
            ).fetchall()
    if done != count:
        raise SystemExit(f"{done} of {count} requests are complete")
    return Drained(count / float(seconds), spent / count * 1e6)


def ways(peers: str) -> dict[str, Drain]:
    found: dict[str, Drain] = {
        BASELINE: partial(own_rate, "noop", partial(drain_baseline, BATCH)),
        SMALL_BASELINE: partial(own_rate, "noop", partial(drain_baseline, 100)),
        SMALLEST: partial(own_rate, "anoop", partial(drain_smallest, BATCH)),
        COROUTINE: partial(own_rate, "anoop", partial(drain_by, "benchmarks.noops:anoop", 1)),
        PROCESSES: partial(own_rate, "noop", partial(drain_by, "benchmarks.noops:noop", 1)),
        TWO: partial(own_rate, "noop", partial(drain_by, "benchmarks.noops:noop", 2)),
        TWO_COROUTINE: partial(own_rate, "anoop", partial(drain_by, "benchmarks.noops:anoop", 2)),
    }
    if peers == "others":
        found = {COROUTINE: found[COROUTINE]}
    if peers == "none":
        return found
    for peer in PEERS:
        for way in peer.ways:
            is_named = peer.name in NAMED and (way.is_best or way.processes > 1)
            if is_named == (peers == "named"):
                found[f"{peer.name}, {way.name}"] = partial(drain_rate, peer, way)
    return found


def goals(found: dict[str, list[float]], best: dict[str, str]) -> list[Goal]:
    drained = "drain, in-process coroutine, against "
    printed = [at_least(f"{drained}the baseline", 0.7, ratio(found[COROUTINE], found[BASELINE]))]
    for peer, wanted in NAMED.items():
        if best[peer] in found:
            against = ratio(found[COROUTINE], found[best[peer]])
            printed.append(at_least(drained + best[peer], wanted, against))
    if GRAPHILE in found:
        against = ratio(found[PROCESSES], found[GRAPHILE])
        printed.append(at_least(f"drain, default processes, against {GRAPHILE}", 1.0, against))
    if GRAPHILE_TWO in found:
        # Both run their tasks in their event loops.
        against = ratio(found[TWO_COROUTINE], found[GRAPHILE_TWO])
        printed.append(at_least(f"drain, two workers, against {GRAPHILE_TWO}", 1.0, against))
        against = ratio(found[TWO], found[GRAPHILE_TWO])
        printed.append(
            at_least(f"the same, default processes, against {GRAPHILE_TWO}", 1.0, against)
        )
    return printed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000, help="a multiple of 1,000")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", choices=["named", "others", "none"], default="named")
    add_dsn(parser)
    given = parser.parse_args()
    count = given.requests // BATCH * BATCH
    found: dict[str, list[float]] = {way: [] for way in ways(given.peers)}
    spent: dict[str, list[float]] = {way: [] for way in found}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        place = stack.enter_context(server(given.dsn))
        printed = described(place)
        for turn in range(given.runs):
            for way, drain in ways(given.peers).items():
                if way in missing and not found[way]:
                    continue
                try:
                    drained = drain(place, count)
                    found[way].append(drained.rate)
                    spent[way].append(drained.processor)
                    print(f"run {turn + 1}: {way} {found[way][-1]:,.1f}/s", file=sys.stderr)
                except NotInstalled as error:
                    missing[way] = f"{way}: run {turn + 1} gave nothing: {error}."
                    print(missing[way], file=sys.stderr)
    limits = {f"{peer.name}, {way.name}": way.requests for peer in PEERS for way in peer.ways}
    versions = {f"{p.name}, {way.name}": p.version for p in PEERS for way in p.ways}
    rows = []
    for way, values in found.items():
        name = f"{way} ({versions[way]})" if way in versions else way
        if not values:
            rows.append([name, "", "not measured", "", "", ""])
            continue
        number = min(count, limits.get(way, count))
        share = statistics.median(values) / statistics.median(found[COROUTINE])
        processor = f"{statistics.median(spent[way]):.1f} µs"
        rows.append([name, f"{number:,}", *rates(values), f"{share:.3g}", processor])
    best = {p.name: f"{p.name}, {way.name}" for p in PEERS for way in p.ways if way.is_best}
    found = {way: values for way, values in found.items() if way not in missing}
    table = Table(
        f"Drain of {count:,} requests whose task does nothing, medians of {given.runs}",
        printed,
        ["", "requests", "median", "spread", "of rowlease's coroutines", "processor time"],
        rows,
        goals(found, best) if given.peers != "others" else [],
        list(missing.values()),
        kept_as="peers" if given.peers == "others" else "",
    )
    return finish(table)


if __name__ == "__main__":
    sys.exit(main())
