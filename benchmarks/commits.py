"""How many enqueues a second commit on a slow disk: in own transactions and in those of callers?

    python -m benchmarks.commits [--flush 4] [--connections 64] [--seconds 8] [--runs 3]

Each of many connections enqueues one request in each transaction (pgbench). A slow disk is
simulated: `commit_delay` makes each flush of WAL wait; all else is real. Transactions that
notify cannot share a flush, so three workers are compared: none; an idle one that is not woken;
and one with coroutines that keeps up. The ways take turns, each on a new database.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

from benchmarks.latency import idle_worker
from benchmarks.peers import cache
from benchmarks.pgbench import pgbench
from benchmarks.pgbench import rates as reported
from benchmarks.servers import OWN_SETTINGS, database, described
from benchmarks.tables import Table, finish, rates
from rowlease.embedded import embedded
from rowlease.store import open_store

OWN = "select * from rowlease.enqueue('default', 'abegan', p_in_transaction => false);\n"
CALLERS = "begin;\nselect * from rowlease.enqueue('default', 'abegan');\ncommit;\n"
INBOX = "begin;\ninsert into rowlease.inbox (kind) values ('abegan');\ncommit;\n"
ENQUEUES = {"own transaction": OWN, "caller's transaction": CALLERS, "inbox": INBOX}


@contextmanager
def announced(dsn: str) -> Iterator[None]:
    """A session that is announced as idle, and stays so."""
    with closing(open_store(dsn)) as store, closing(store.listen(["default"])) as listener:
        listener.announce_idle(True)
        yield


WORKERS: dict[str, Callable[[str], AbstractContextManager[object]]] = {
    "no worker": lambda dsn: nullcontext(),
    "an idle worker": announced,
    "a worker that keeps up": lambda dsn: idle_worker(dsn, "abegan"),
}


def rate(place: str, worker: str, script: str, connections: int, seconds: int) -> float:
    """The median of the rates of each second, without the first: connections make their plans."""
    with database(place) as dsn, WORKERS[worker](dsn):
        printed = pgbench(dsn, script, ["-c", connections, "-j", 2, "-T", seconds, "-P", 1])
    return statistics.median(reported(printed)[2:])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flush", type=float, default=4.0, help="milliseconds")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=8, help="of each run")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    slow = {"commit_delay": str(round(1000 * given.flush)), "commit_siblings": "0"}
    found: dict[tuple[str, str], list[float]] = {}
    with embedded(cache.home() / "slow", settings=OWN_SETTINGS | slow) as place:
        for turn in range(given.runs):
            for worker in WORKERS:
                for name, script in ENQUEUES.items():
                    got = rate(place, worker, script, given.connections, given.seconds)
                    found.setdefault((name, worker), []).append(got)
                    print(f"run {turn + 1}: {name}, {worker} {got:,.0f}/s", file=sys.stderr)
        printed = described(place)
    rows = [[name, *(rates(found[name, worker])[0] for worker in WORKERS)] for name in ENQUEUES]
    title = (
        f"Enqueues of one, {given.connections} connections, a flush waits {given.flush:g} ms,"
        f" medians of {given.runs}"
    )
    return finish(Table(title, printed, ["", *WORKERS], rows))


if __name__ == "__main__":
    sys.exit(main())
