"""Fills the queue by plain inserts, for benchmarks that need millions of rows."""

from __future__ import annotations

import psycopg

#: A row as `enqueue` leaves it.
PENDING = """
insert into rowlease.queue (
  queue_name, kind, status, priority, requested_time, due_time, max_attempts, payload)
select 'default', 'noop', 'Pending', place %% 10, t.at, t.at, 5, '{"n":1}'
  from (select clock_timestamp() as at) t, generate_series(1, %s) place
"""
# The rows below would come first by priority and time if a claim had to pass over them.
SCHEDULED = """
insert into rowlease.queue (
  queue_name, kind, status, priority, requested_time, due_time, max_attempts, payload)
select 'default', 'noop', 'Scheduled', 9, now(), now() + interval '1 day', 5, '{"n":1}'
  from generate_series(1, %s)
"""
IN_FLIGHT = """
insert into rowlease.queue (
  queue_name, kind, status, priority, requested_time, due_time, max_attempts, payload, locked_by,
  locked_time, lock_expires_time, lock_token, num_attempts)
select 'default', 'noop', 'Processing', 9, now() - interval '1 hour', now() - interval '1 hour', 5,
       '{"n":1}', 'another', now(), now() + interval '1 day' + place * interval '1 ms', 1, 1
  from generate_series(1, %s) place
"""
DEAD = """
insert into rowlease.queue (
  queue_name, kind, status, priority, requested_time, due_time, max_attempts, payload, lock_token,
  num_attempts, last_error, completion_time)
select 'default', 'noop', 'Failed', 9, now() - interval '1 hour', now() - interval '1 hour', 5,
       '{"n":1}', 5, 5, 'Boom', now()
  from generate_series(1, %s)
"""
#: Counts the rows, because plain inserts do not append to `queue_depth`.
RECOUNT = """
with emptied as (delete from rowlease.queue_depth)
insert into rowlease.queue_depth (queue_name, priority, scheduled, pending, processing, failed)
select queue_name, priority, count(*) filter (where status = 'Scheduled'),
       count(*) filter (where status = 'Pending'), count(*) filter (where status = 'Processing'),
       count(*) filter (where status = 'Failed')
  from rowlease.queue group by queue_name, priority
"""


def fill(dsn: str, pending: int, scheduled: int = 0, in_flight: int = 0, dead: int = 0) -> None:
    """Insert a number of rows of each status; the pending ones have ten priorities."""
    with psycopg.connect(dsn, autocommit=True) as sql:
        sql.execute("set synchronous_commit = off")
        for statement, count in (
            (IN_FLIGHT, in_flight),
            (DEAD, dead),
            (SCHEDULED, scheduled),
            (PENDING, pending),
        ):
            for start in range(0, count, 500_000):
                sql.execute(statement, (min(500_000, count - start),))
        sql.execute(RECOUNT)
