"""The peers: which, pinned to what, with which settings, and where their documentation gives these.

Each has a program in its own language in `programs/`, installed by `cache`, driven by `running`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.cache import go_program, java_program, node_program, python_program


@dataclass(frozen=True)
class Way:
    """How a peer is run.

    Attributes:
        settings: what its program is told.
        requests: how many it gets at most where it is too slow for all.
        processes: how many of it run.
        is_best: the settings its documentation gives for throughput.
        is_counted: its program says how many ran; else the database is asked.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    requests: int = 10**9
    processes: int = 1
    is_best: bool = False
    is_counted: bool = True


@dataclass(frozen=True)
class Peer:
    """Attributes:
    unfinished: SQL that says whether something is not finished yet.
    source: the page that gives the settings of the best way.
    """

    name: str
    version: str
    program: Callable[[], list[str]]
    unfinished: str
    source: str
    ways: tuple[Way, ...]


GRAPHILE_BATCHED = {
    "concurrentJobs": 24,
    "maxPoolSize": 25,
    "localQueue": {"size": 500, "refetchDelay": {"durationMs": 10}},
    "completeJobBatchDelay": 0,
    "failJobBatchDelay": 0,
}
PGQUEUER_BATCHED = {"autovac": True, "dequeuers": 5, "run": {"batch_size": 100}}

PEERS = (
    Peer(
        "Graphile Worker",
        "0.18.0",
        lambda: node_program("graphile.mjs", "graphile-worker@0.18.0"),
        "select exists (select from graphile_worker._private_jobs)",
        "https://worker.graphile.org/docs/performance",
        (
            Way("batched", GRAPHILE_BATCHED, is_best=True),
            Way("batched, 2 processes", GRAPHILE_BATCHED, processes=2),
            Way("defaults (1 job at once)", requests=5_000),
        ),
    ),
    Peer(
        "PgQueuer",
        "1.6.0",
        lambda: python_program(
            "pgqueuer_peer.py", ["pgqueuer[asyncpg,psycopg]==1.6.0", "uvloop==0.22.1"]
        ),
        "select exists (select from pgqueuer)",
        "https://janbjorge.github.io/pgqueuer/guides/performance-tuning/",
        (
            Way("batches of 100, 5 dequeuers, autovac", PGQUEUER_BATCHED, is_best=True),
            Way("batches of 100", {"autovac": True, "run": {"batch_size": 100}}),
            Way("defaults (batches of 10)", requests=50_000),
        ),
    ),
    Peer(
        "Procrastinate",
        "3.10.0",
        lambda: python_program(
            "procrastinate_peer.py", ["procrastinate==3.10.0", "psycopg[binary]==3.3.2"]
        ),
        "select exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
        "https://procrastinate.readthedocs.io/en/stable/howto/basics/worker.html",
        (
            Way(
                "30 jobs at once",
                {"run": {"concurrency": 30}, "pool": {"max_size": 32}},
                requests=2_000,
                is_best=True,
            ),
            Way("defaults (1 job at once)", requests=1_000),
        ),
    ),
    # 12.38.0 asks for a version of rrule-temporal that the registry did not have.
    Peer(
        "pg-boss",
        "12.27.0",
        lambda: node_program("pgboss.mjs", "pg-boss@12.27.0"),
        "select exists (select from pgboss.job where name = 'bench' and state < 'completed')",
        "https://timgit.github.io/pg-boss/#/./api/workers",
        (
            Way(
                "batches of 100, 4 at once, burst",
                {"work": {"batchSize": 100, "localConcurrency": 4, "burstWhenBatchFull": True}},
                is_best=True,
            ),
            Way(
                "the same, with notify",
                {
                    "boss": {"useListenNotify": True},
                    "queue": {"notify": True},
                    "work": {"batchSize": 100, "localConcurrency": 4, "burstWhenBatchFull": True},
                },
            ),
            Way("defaults (1 job each 2 s)", requests=5),
        ),
    ),
    Peer(
        "River",
        "0.51.0",
        lambda: go_program("river"),
        "select exists (select from river_job where state <> 'completed')",
        "https://github.com/riverqueue/river/blob/master/cmd/river/riverbench/river_bench.go",
        (
            Way(
                "2,000 workers, cooldown 2 ms",
                {"max_workers": 2000, "fetch_cooldown_ms": 2, "fetch_poll_ms": 20},
                is_best=True,
            ),
            Way("defaults (100 workers)", requests=10_000),
        ),
    ),
    Peer(
        "Chancy",
        "0.26.0",
        lambda: python_program("chancy_peer.py", ["chancy==0.26.0"]),
        "select exists (select from chancy_jobs where state <> 'succeeded')",
        "https://tkte.ch/chancy/",
        (
            Way(
                "asyncio, 1,000 at once, eager polling",
                {
                    "queue": {
                        "concurrency": 1000,
                        "executor": "chancy.executors.asyncex.AsyncExecutor",
                        "polling_interval": 1,
                        "eager_polling": True,
                    }
                },
                requests=10_000,
                is_best=True,
            ),
            Way("defaults (each 5 s)", {"asynchronous": False}, requests=6, is_counted=False),
        ),
    ),
    Peer(
        "Awa",
        "0.6.9",
        lambda: python_program("awa_peer.py", ["awa-pg==0.6.9"]),
        # Of its newer engine the view awa.jobs would tell, and takes minutes at 50,000: there the
        # last task's run is the end.
        "select exists (select from awa.jobs_hot where state <> 'completed')",
        "https://github.com/hardbyte/awa/blob/main/docs/configuration.md",
        (
            Way(
                "queue storage, 256 workers",
                {"queue_storage": True, "workers": 256, "client": {"max_connections": 20}},
                is_best=True,
            ),
            Way("defaults (50 workers)", requests=20_000),
        ),
    ),
    Peer(
        "db-scheduler",
        "16.12.0",
        lambda: java_program("dbscheduler", "peer.Main"),
        "select exists (select from scheduled_tasks)",
        "https://github.com/kagkarlsson/db-scheduler/blob/master/docs/performance.md",
        (
            Way(
                "lock and fetch, 20 threads",
                {"lock_and_fetch": True},
                requests=10_000,
                is_best=True,
            ),
            Way("defaults (10 threads, fetch)", requests=1_000),
        ),
    ),
)
