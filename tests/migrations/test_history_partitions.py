"""The partitions of the history, which `maintain` makes while workers complete requests."""

from __future__ import annotations

import psycopg

from rowlease import Client

DAY = "2040-01-02 12:00+00"


def test_a_day_whose_first_row_is_committed_meanwhile_is_no_failure(dsn: str) -> None:
    """As at the first start of a worker after some days, of which nobody has made partitions."""
    with psycopg.connect(dsn) as maintainer, psycopg.connect(dsn, autocommit=True) as worker:
        maintainer.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        maintainer.execute("select")  # from now on it does not see what others commit
        with Client(dsn) as client:
            client.enqueue_untyped("x").cancel()
        worker.execute("update rowlease.queue_history set completion_time = %s", [DAY])
        roll = "select rowlease_internal.roll_history_partitions(%s)"
        assert maintainer.execute(roll, [DAY]).fetchall() == [(0,)]
