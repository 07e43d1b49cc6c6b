"""How long does a page of the dashboard take, with many requests in the database?

    python -m benchmarks.dashboard [--requests 1000000] [--times 40] [--dsn postgresql://...]

Half of the requests wait, half are finished; 20,000 are dead letters, and 5,000 run. The pages are
asked for in turns, in the process of the dashboard: the time has no HTTP server in it. One call of
each page is not measured, because connections then plan their statements.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from contextlib import closing

import httpx
import psycopg

from benchmarks.filling import fill
from benchmarks.servers import add_dsn, as_in_use, database, described, server
from benchmarks.tables import Goal, Table, at_most, finish
from rowlease.dashboard import Dashboard

#: The number of requests that failed for good, and of those that run.
DEAD, RUNNING = 20_000, 5_000
PAGES = {
    "overview": "/",
    "queues": "/queues",
    "a queue": "/queue?name=default",
    "requests": "/requests",
    "requests, by queue and status": "/requests?filter=queue:default status:complete",
    "requests, by a rare error": "/requests?filter=error:nowhere",
    "a request": "/requests/{last}",
    "dead letters": "/dead-letters",
    "workers and leases": "/workers",
    "schedules": "/schedules",
    "loads": "/loads",
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=40, help="how often each page is asked for")
    add_dsn(parser)
    given = parser.parse_args()
    with server(given.dsn) as place, database(place) as dsn:
        printed = described(place)
        half = given.requests // 2
        with psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute("set synchronous_commit = off")
            sql.execute(FINISHED, {"count": half})
        fill(dsn, half, in_flight=RUNNING, dead=DEAD)
        as_in_use(dsn)
        with closing(Dashboard(dsn)) as made:
            found = asyncio.run(measured(made, dsn, given.times))
    rows, goals = [], list[Goal]()
    for name, seconds in found.items():
        median, late = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
        rows.append([name, f"{median * 1000:.0f} ms", f"{late * 1000:.0f} ms"])
        if name != "requests, by a rare error":
            goals.append(at_most(f"{name}, p95", 200, late * 1000, " ms"))
    title = f"Time of a page with {given.requests:,} requests, {given.times} times each"
    notes = ["A search that finds nothing ends after a second; a link continues it."]
    return finish(Table(title, printed, ["page", "median", "p95"], rows, goals, notes))


async def measured(made: Dashboard, dsn: str, times: int) -> dict[str, list[float]]:
    """The seconds that each page took."""
    with psycopg.connect(dsn) as sql:
        ((last,),) = sql.execute("select max(request_id) from rowlease.queue").fetchall()
    found: dict[str, list[float]] = {name: [] for name in PAGES}
    transport = httpx.ASGITransport(made, client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for turn in range(times + 1):
            for name, path in PAGES.items():
                begun = time.perf_counter()
                page = await client.get(path.format(last=last))
                assert page.status_code == 200, page.text
                if turn:
                    found[name].append(time.perf_counter() - begun)
            print(f"turn {turn} of {times}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
