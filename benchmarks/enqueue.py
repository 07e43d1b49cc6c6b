"""How fast do requests get into the queue: one by one, in batches of 1,000, by COPY?

    python -m benchmarks.enqueue [--requests 20000] [--runs 5] [--dsn postgresql://...]

One producer has one connection, and each call is a durable transaction. The peers in Python do the
same with their own clients, and with their calls for many requests. Single calls are also made
without a receipt, and with commits that do not wait for the disk. COPY does without Spark what a
task of `format("rowlease")` does: it copies rows into the lane, and then calls `promote` once. It
is compared with psql's COPY straight into the table `queue`, with its indexes and checks; there a
row that arrives twice becomes two requests. The ways take turns, each on a new database.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import psycopg

from benchmarks.peers import PEERS, Peer
from benchmarks.peers.cache import NotInstalled
from benchmarks.peers.running import installed, order
from benchmarks.servers import add_dsn, database, described, programs, server
from benchmarks.tables import Table, at_least, finish, rates, ratio
from rowlease import Client, untyped_request
from rowlease.model import Begun, NewRequest
from rowlease.store import engine_of, open_store

SINGLES = 1_000
BATCH = 1_000
#: How many rows a COPY writes for each request of the other ways.
COPIED = 10
PYTHON = ("PgQueuer", "Procrastinate", "Chancy", "Awa")
SINGLE, MANY = "rowlease, one by one", "rowlease, batches of 1,000"
QUICKEST = "PgQueuer, one by one"
BARE = "rowlease, one by one, without receipts"
UNWAITED = ", commits that do not wait"
LANE = ["run_number", "part", "ends_part", "priority", "kind", "payload"]
COPY, LIMIT = "rowlease, COPY and promote", "limit: psql's COPY into the queue"
Way = Callable[[str, int], float]


def one_by_one(waits: bool, place: str, count: int) -> float:
    with database(place) as dsn:
        set_waiting(dsn, waits)
        with Client(dsn) as client:
            began = time.perf_counter()
            for number in range(SINGLES):
                client.enqueue_untyped("noop", {"n": number})
            return SINGLES / (time.perf_counter() - began)


def without_receipts(place: str, count: int) -> float:
    with database(place) as dsn, closing(open_store(dsn)) as store:
        began = time.perf_counter()
        for number in range(SINGLES):
            store.enqueue_many("default", [NewRequest(kind="noop", payload=f'{{"n":{number}}}')])
        return SINGLES / (time.perf_counter() - began)


def set_waiting(dsn: str, waits: bool) -> None:
    """Whether later connections wait for the disk when they commit."""
    if not waits:
        with psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute(f'alter database "{sql.info.dbname}" set synchronous_commit = off')


def in_batches(place: str, count: int) -> float:
    with database(place) as dsn, Client(dsn) as client:
        began = time.perf_counter()
        for start in range(0, count, BATCH):
            numbers = range(start, start + BATCH)
            client.enqueue_many([untyped_request("noop", {"n": number}) for number in numbers])
        return count / (time.perf_counter() - began)


def by_copy(place: str, count: int) -> float:
    with (
        database(place) as dsn,
        closing(engine_of(dsn).bulk_store("rowlease benchmark")) as store,
    ):
        count *= COPIED
        run = store.begin_load("bench", "default", "benchmark")
        assert isinstance(run, Begun)
        blocks = list(lane_rows(run.run_number, count))
        began = time.perf_counter()
        store.copy_rows(LANE, blocks)
        store.promote("bench", run.run_number, count)
        return count / (time.perf_counter() - began)


def lane_rows(run: int, count: int) -> Iterator[bytes]:
    """One part, which its first row ends at the commit."""
    for start in range(0, count, 5000):
        yield "".join(
            f'{run},0,{n == 0:d},0,noop,"{{""n"":{n}}}"\n'
            for n in range(start, min(count, start + 5000))
        ).encode()


def by_psql(place: str, count: int) -> float:
    count *= COPIED
    columns = "queue_name, kind, status, priority, requested_time, due_time, max_attempts, payload"
    row = "default\tnoop\tPending\t0\tnow\tnow\t5\t"
    rows = "".join(f'{row}{{"n":{number}}}\n' for number in range(count)).encode()
    with database(place) as dsn:
        command = f"copy rowlease.queue ({columns}) from stdin"
        began = time.perf_counter()
        subprocess.run([programs() / "psql", "-qX", "-c", command, dsn], input=rows, check=True)
        return count / (time.perf_counter() - began)


def by_peer(peer: Peer, size: int, waits: bool, place: str, count: int) -> float:
    settings = next(way.settings for way in peer.ways if way.is_best)
    number = count if size > 1 else SINGLES
    with installed(peer, place, settings) as dsn:
        set_waiting(dsn, waits)
        return number / order(peer, dsn, settings, "enqueue", number, size)


def ways() -> dict[str, Way]:
    peers = [peer for peer in PEERS if peer.name in PYTHON]
    return {
        SINGLE: partial(one_by_one, True),
        **{f"{peer.name}, one by one": partial(by_peer, peer, 1, True) for peer in peers},
        BARE: without_receipts,
        SINGLE + UNWAITED: partial(one_by_one, False),
        QUICKEST + UNWAITED: partial(by_peer, peers[0], 1, False),
        MANY: in_batches,
        **{f"{peer.name}, batches of 1,000": partial(by_peer, peer, BATCH, True) for peer in peers},
        COPY: by_copy,
        LIMIT: by_psql,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000, help="a multiple of 1,000")
    parser.add_argument("--runs", type=int, default=5)
    add_dsn(parser)
    given = parser.parse_args()
    count = given.requests // BATCH * BATCH
    found: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    with server(given.dsn) as place:
        printed = described(place)
        for turn in range(given.runs):
            for name, way in ways().items():
                try:
                    if name not in missing:
                        found.setdefault(name, []).append(way(place, count))
                        print(f"run {turn + 1}: {name} {found[name][-1]:,.0f}/s", file=sys.stderr)
                except NotInstalled as error:
                    missing[name] = str(error)
    rows = [[name, *rates(values)] for name, values in found.items()]
    rows += [[name, f"not measured: {why}", ""] for name, why in missing.items()]
    peers = [name for name in found if "batches" in name and name != MANY]
    goals = [at_least("enqueue by COPY against psql's COPY", 0.5, ratio(found[COPY], found[LIMIT]))]
    if peers:
        fastest = min(peers, key=lambda name: ratio(found[MANY], found[name]))
        against = ratio(found[MANY], found[fastest])
        goals.insert(0, at_least(f"enqueue in batches against {fastest}", 1.2, against))
    if QUICKEST in found:
        against = ratio(found[SINGLE], found[QUICKEST])
        goals.insert(0, at_least(f"enqueue one by one against {QUICKEST}", 0.9, against))
    return finish(
        Table(
            f"Enqueue of {count:,} requests ({SINGLES:,} one by one, {count * COPIED:,} by COPY),"
            f" medians of {given.runs}",
            printed,
            ["", "median", "spread"],
            rows,
            goals,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
