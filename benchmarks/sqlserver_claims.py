"""What keeps two claims apart on SQL Server? Measures claims without each of their safeguards.

    python -m benchmarks.sqlserver_claims [--requests 20000] [--connections 8] [--runs 3] [--write]
                                          [--with FILE]

Many connections claim and complete until no request is left: with the claim as shipped, without the
application locks, without the second check of the status, and without both. The shipped claim must
not give a request to two connections and must not lose one, even if the engine ignores UPDLOCK and
READPAST. Without the second check it must fail. `--write` puts the table into docs/engines.md.
`--with` adds the runs to those in the file, so that they can be made in several parts.

The server is that of ROWLEASE_TEST_MSSQL_DSN, else one from testcontainers. The databases are
created for the benchmark and dropped after it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks.claim_figures import HEAD, Figures, keep, kept, line, median
from rowlease.errors import StoreConflict, StoreError
from rowlease.model import LeasedRequest, Outcome
from rowlease.store.routines import load_routines, scripts_hash
from tests.contract import engines, sqlserver
from tests.contract.sqlserver import MssqlSession

T = TypeVar("T")

#: Longer than any run, because a request whose lease ran out may be claimed again.
LEASE = timedelta(hours=1)
BATCH = 10
#: Seconds between two samples of the lock waits.
SAMPLE_EVERY = 0.05
#: Seconds without a claimed request after which the remaining ones count as lost.
PATIENCE = 30.0
#: The routines that claim, and the second check of the status where they change the rows.
CLAIMS = ("lease", "claim_carefully")
RECHECK = "Queue.Status = 'Pending' and Queue.GroupBlocked = 0"
WITHOUT_RECHECK = "1 = 1"


class Variant(NamedTuple):
    """A claim with or without its safeguards."""

    name: str
    has_locks: bool
    has_recheck: bool


VARIANTS = (
    Variant("as shipped", has_locks=True, has_recheck=True),
    Variant("without app lock", has_locks=False, has_recheck=True),
    Variant("without re-check", has_locks=True, has_recheck=False),
    Variant("without both", has_locks=False, has_recheck=False),
)


@dataclass
class Run:
    """The observations of all connections of one run."""

    requests: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    given: Counter[int] = field(default_factory=Counter)
    completed: set[int] = field(default_factory=set)
    refused: int = 0
    conflicts: int = 0
    claims: int = 0
    empty: int = 0
    seconds: list[float] = field(default_factory=list)
    samples: int = 0
    waits: int = 0
    last_claim: float = field(default_factory=time.perf_counter)

    def work(self, session: MssqlSession, worker: str) -> None:
        """Claim and complete until all requests were claimed, or no more can be."""
        while len(self.given) < self.requests:
            start = time.perf_counter()
            found = self._again(
                lambda: session.dequeue(worker, ["default"], BATCH, lease=LEASE).requests
            )
            end = time.perf_counter()
            with self.lock:
                # The last requests may have been claimed by others while this call ran.
                if found or len(self.given) < self.requests:
                    self._note(found, end - start)
            if found:
                outcomes = self._again(partial(session.complete, found))
                with self.lock:
                    self._note_outcomes(found, outcomes)
            elif end - self.last_claim > PATIENCE:
                return

    def _again(self, call: Callable[[], list[T]]) -> list[T]:
        """Repeat the call after each conflict, as a worker does."""
        while True:
            try:
                return call()
            except StoreError as error:
                # Some engines do not give deadlocks the number that SQL Server gives them.
                if not isinstance(error, StoreConflict) and "deadlock" not in str(error):
                    raise
                with self.lock:
                    self.conflicts += 1

    def _note(self, found: Sequence[LeasedRequest], seconds: float) -> None:
        self.claims += 1
        self.empty += not found
        self.seconds.append(seconds)
        self.given.update(request.request_id for request in found)
        if found:
            self.last_claim = time.perf_counter()

    def _note_outcomes(self, found: list[LeasedRequest], outcomes: list[Outcome]) -> None:
        for request, outcome in zip(found, outcomes, strict=True):
            if outcome is Outcome.OK:
                self.completed.add(request.request_id)
            else:
                self.refused += 1

    def watch(self, sessions: list[MssqlSession], done: threading.Event) -> None:
        """Sample the lock waits until done."""
        while not done.wait(SAMPLE_EVERY):
            self.samples += len(sessions)
            self.waits += sum(session.waits_for_lock() for session in sessions)

    def figures(self, seconds: float) -> Figures:
        filled = self.claims - self.empty
        return Figures(
            shared=sum(times > 1 for times in self.given.values()),
            lost=self.requests - len(self.completed),
            refused=self.refused,
            conflicts=self.conflicts,
            claims=self.claims,
            empty=100 * self.empty / self.claims,
            found=self.given.total() / max(filled, 1),
            waiting=100 * self.waits / max(self.samples, 1),
            median_ms=1000 * statistics.median(self.seconds),
            slow_ms=1000 * statistics.quantiles(self.seconds, n=100)[-1],
            rate=len(self.completed) / seconds,
        )


@contextmanager
def sessions_of(dsn: str, variant: Variant, connections: int) -> Iterator[list[MssqlSession]]:
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(MssqlSession(dsn))) for _ in range(connections)]
        for session in opened:
            session.execute(
                "exec sp_set_session_context @key = N'rowlease_claim_locks', @value = ?",
                ("on" if variant.has_locks else "off",),
            )
        yield opened


def put_claim(session: MssqlSession, variant: Variant) -> None:
    """Replace the routines that claim in this database, and in no other, by the variant."""
    for name in CLAIMS:
        text = load_routines("sqlserver")[name].body
        if not variant.has_recheck:
            assert RECHECK in text, f"{name}.sql looks at the status in other words now"
            text = text.replace(RECHECK, WITHOUT_RECHECK)
        session.put_routine(text)


def run(dsn: str, variant: Variant, requests: int, connections: int) -> Figures:
    sqlserver.emptied(dsn)
    with closing(MssqlSession(dsn)) as owner:
        put_claim(owner, variant)
        owner.fill(requests)
    seen, done = Run(requests), threading.Event()
    with (
        sessions_of(dsn, variant, connections) as sessions,
        ThreadPoolExecutor(connections + 1) as pool,
    ):
        for session in sessions:  # compiles the routines, which takes long on some engines
            session.complete(session.dequeue("warm up", ["default"], 1, lease=LEASE).requests)
        seen.requests -= connections
        watcher = pool.submit(seen.watch, sessions, done)
        began = time.perf_counter()
        workers = [
            pool.submit(seen.work, session, f"worker {number}")
            for session, number in zip(sessions, count())
        ]
        try:
            for worker in workers:
                worker.result()
        finally:
            done.set()
        seconds = time.perf_counter() - began
        watcher.result()
    return seen.figures(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into docs/engines.md")
    parser.add_argument("--with", dest="file", type=Path, help="runs to add these to")
    given = parser.parse_args()
    if why := sqlserver.missing():
        sys.stderr.write(f"{why}\n")
        return 1
    print("\n".join(HEAD))
    about = [given.requests, given.connections, scripts_hash("sqlserver")]
    found = kept(given.file, about, [variant.name for variant in VARIANTS])
    with sqlserver.server() as server, sqlserver.database(server) as dsn:
        with closing(MssqlSession(dsn)) as session:
            version = session.version()
        for _ in range(given.runs):
            for variant in VARIANTS:  # in turns, so that other load on the machine affects all
                figures = run(dsn, variant, given.requests, given.connections)
                found[variant.name].append(figures)
                print(line(variant.name, figures), flush=True)
            if given.file:
                keep(given.file, about, found)
    shipped, no_lock, no_recheck, _ = found.values()
    medians = [line(f"**{name}**", median(runs)) for name, runs in found.items()]
    print("\n".join(medians))
    if given.write:
        engines.write_section(
            engines.CLAIMS,
            [
                f"`python -m benchmarks.sqlserver_claims`: {given.connections} connections, "
                f"{given.requests:,} requests, claims of {BATCH}; {len(shipped)} runs of each "
                f"claim and their medians, on {datetime.now(UTC):%Y-%m-%d}, with sql/sqlserver "
                f"`{scripts_hash('sqlserver')}`, on {version}.",
                "",
                *HEAD,
                *(line(name, figures) for name, runs in found.items() for figures in runs),
                *medians,
            ],
        )
    safe = all(not (f.shared or f.lost or f.refused) for f in (*shipped, *no_lock))
    return 0 if safe and any(f.shared for f in no_recheck) else 1


if __name__ == "__main__":
    sys.exit(main())
