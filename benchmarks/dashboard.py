"""How long do a page of the dashboard and a scrape of the exporter take, with many requests?

    python -m benchmarks.dashboard [--requests 1000000] [--times 40] [--dsn postgresql://...]
                                   [--keep pages10m]

Half of the requests wait, half are finished in the last hour; up to 20,000 are dead letters, and
up to 50,000 run. Beside them are a load of 200 parts that waits in the lane, 2,000 earlier loads
and 100,000 batches; with 0 or 1 requests there is nothing else. The pages are asked for in turns,
in the process of the dashboard: the time has no HTTP server in it. One call of each page is not
measured, because connections then plan their statements. --keep fills a database once, and keeps
it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import httpx
import psycopg
import sqlalchemy as sa

from benchmarks.filling import fill
from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Goal, Table, at_most, finish
from rowlease.dashboard import Dashboard
from rowlease.metrics.exporter import DatabaseMetrics
from rowlease.store import migrate, open_store

#: The number of requests that failed for good, and of those that run.
DEAD, RUNNING = 20_000, 50_000
#: The number of parts of the load that waits, and of the rows of each part.
PARTS, PART = 200, 500
PAGES = {
    "overview": "/",
    "queues": "/queues",
    "a queue": "/queue?name=default",
    "requests": "/requests",
    "requests, by queue and status": "/requests?filter=queue:default status:complete",
    "requests that run": "/requests?filter=queue:default status:processing",
    "requests that run, by a worker": "/requests?filter=status:processing worker:nowhere",
    "requests, by a rare error": "/requests?filter=error:nowhere",
    "requests, by a rare kind": "/requests?filter=kind:nowhere",
    "requests, by a dedup key": "/requests?filter=dedup:nowhere",
    "requests, by a load": "/requests?filter=load:waiting",
    "requests, by an old load": "/requests?filter=load:load-1",
    "requests, dead letters by error": "/requests?filter=status:failed error:nowhere",
    "requests, by age": "/requests?filter=age>2h",
    "requests, by id": "/requests?filter=id:{first},{last}",
    "a request": "/requests/{last}",
    "a finished request": "/requests/{first}",
    "dead letters": "/dead-letters",
    "workers and leases": "/workers",
    "schedules": "/schedules",
    "loads": "/loads",
    "history": "/history",
    "health": "/health",
    "audit": "/audit",
}
#: Requests that were finished, one after the other, in the last hour.
FINISHED = """
insert into rowlease.queue_history (
  request_id, queue_name, kind, status, priority, requested_time, due_time, locked_by, locked_time,
  lock_expires_time, lock_token, num_attempts, max_attempts, payload, completion_time, result)
select nextval('rowlease.queue_request_id_seq'), 'default', 'noop', 'Complete', place %% 10, t.at,
       t.at, 'host:1:ab', t.at + interval '20 ms', t.at + interval '30 s', 1, 1, 5, '{"n":1}',
       t.at + interval '50 ms', '{"n":2}'
  from generate_series(1, %(count)s) place
 cross join lateral (
   select clock_timestamp() - (%(count)s - place) * interval '1 hour' / %(count)s as at) t
"""
LOADS = """
insert into rowlease.load (
  load_id, queue_name, status, run_number, run_by, num_rows, num_staged, num_enqueued, started_time,
  reported_time, promoted_time)
select 'load-' || place, 'default', 'Promoted', place, 'benchmark', 1000, 1000, 1000, t.at,
       t.at + interval '10 s', t.at + interval '11 s'
  from generate_series(1, 2000) place
 cross join lateral (select clock_timestamp() - place * interval '1 hour' as at) t
"""
BATCHES = """
insert into rowlease.batch (
  batch_id, num_requests, num_complete, num_live, created_time, finished_time)
select 'batch-' || place, 100, 100 - place % 2, place % 2, t.at,
       case when place % 2 = 0 then t.at + interval '1 minute' end
  from generate_series(1, 100000) place
 cross join lateral (select clock_timestamp() - place * interval '1 minute' as at) t
"""
#: The rows of the load that waits: as many in each part.
LANE = """
insert into rowlease.lane (run_number, part, ends_part, priority, kind, payload)
select %(run)s, part, place = %(rows)s, place %% 10, 'noop', '{"n":1}'
  from generate_series(0, %(parts)s - 1) part, generate_series(1, %(rows)s) place
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=40, help="how often each page is asked for")
    parser.add_argument("--keep", help="the name of a database that is filled once, and stays")
    add_dsn(parser)
    given = parser.parse_args()
    with server(given.dsn) as place, filled(place, given.keep, given.requests) as dsn:
        printed = described(place)
        with closing(Dashboard(dsn)) as made:
            found = asyncio.run(measured(made, dsn, given.times))
        scrapes = scraped(dsn, given.times)
    rows, goals = [], list[Goal]()
    for name, seconds in found.items():
        median, late = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
        rows.append([name, f"{median * 1000:.1f} ms", f"{late * 1000:.1f} ms"])
        goals.append(at_most(f"{name}, p95", 200, late * 1000, " ms"))
    median, late = statistics.median(scrapes), statistics.quantiles(scrapes, n=20)[-1]
    rows.append(["a scrape of the exporter", f"{median * 1000:.1f} ms", f"{late * 1000:.1f} ms"])
    goals.append(at_most("a scrape of the exporter, p95", 50, late * 1000, " ms"))
    title = f"Time of a page with {given.requests:,} requests, {given.times} times each"
    notes = ["A search that finds nothing in a tenth of a second shows a link that continues it."]
    return finish(Table(title, printed, ["page", "median", "p95"], rows, goals, notes))


@contextmanager
def filled(place: str, keep: str | None, requests: int) -> Iterator[str]:
    """The DSN of a database with so many requests."""
    if keep is None:
        with database(place) as dsn:
            fill_all(dsn, requests)
            yield dsn
        return
    dsn = sa.make_url(place).set(database=keep).render_as_string(hide_password=False)
    with psycopg.connect(place, autocommit=True) as sql:
        is_new = not sql.execute("select 1 from pg_database where datname = %s", [keep]).fetchall()
        if is_new:
            sql.execute(f'create database "{keep}"'.encode())
    migrate(dsn)
    if is_new:
        fill_all(dsn, requests)
    yield dsn


def fill_all(dsn: str, requests: int) -> None:
    """Insert so many requests, and with more than one loads and batches, too."""
    half = requests // 2
    with psycopg.connect(dsn, autocommit=True) as sql:
        sql.execute("set synchronous_commit = off")
        sql.execute(FINISHED, {"count": half})
        if half:
            sql.execute(LOADS)
            sql.execute(BATCHES)
    dead, running = min(DEAD, half // 10), min(RUNNING, half // 10)
    fill(dsn, requests - half - dead - running, in_flight=running, dead=dead)
    with psycopg.connect(dsn, autocommit=True) as sql:
        if half:
            begun = "select run_number from rowlease.begin_load('waiting', 'default', 'benchmark')"
            ((run,),) = sql.execute(begun).fetchall()
            sql.execute(LANE, {"run": run, "parts": PARTS, "rows": PART})
            promote = "select * from rowlease.promote('waiting', %s, %s)"
            sql.execute(promote, [run, PARTS * PART])
    as_in_use(dsn)


async def measured(made: Dashboard, dsn: str, times: int) -> dict[str, list[float]]:
    """The seconds that each page took."""
    with psycopg.connect(dsn) as sql:
        ((first, last),) = sql.execute(
            "select min(request_id), max(request_id) from rowlease.requests"
        ).fetchall()
    pages = {
        name: path.format(first=first, last=last)
        for name, path in PAGES.items()
        if last is not None or "{" not in path
    }
    found: dict[str, list[float]] = {name: [] for name in pages}
    transport = httpx.ASGITransport(made, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for turn in range(times + 1):
            for name, path in pages.items():
                begun = time.perf_counter()
                page = await client.get(path)
                assert page.status_code == 200, page.text
                if turn:
                    found[name].append(time.perf_counter() - begun)
            print(f"turn {turn} of {times}", file=sys.stderr)
    return found


def scraped(dsn: str, times: int) -> list[float]:
    """The seconds that each scrape took, without the cache of the exporter."""
    found = []
    with closing(open_store(dsn)) as store:
        metrics = DatabaseMetrics(store, timedelta(0))
        for _ in range(times + 1):
            begun = time.perf_counter()
            assert len(list(metrics.collect())) > 10
            found.append(time.perf_counter() - begun)
    return found[1:]


if __name__ == "__main__":
    sys.exit(main())
