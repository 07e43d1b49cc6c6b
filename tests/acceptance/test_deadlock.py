"""A call that the server ends to break a deadlock had no effect, so the store repeats it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import psycopg

from rowlease.model import NewRequest, Outcome
from rowlease.store import open_store
from tests.waiting import until

LOCK = "select from rowlease.queue where request_id = %s for update"
WAITS = (
    "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


def test_a_victim_of_a_deadlock_is_called_again(dsn: str) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as watcher,
        psycopg.connect(dsn) as other,
        closing(open_store(dsn)) as store,
        ThreadPoolExecutor(1) as thread,
    ):
        # Each session looks for a deadlock once, when it has waited for this time.
        watcher.execute(f"alter database {watcher.info.dbname} set deadlock_timeout = '500ms'")
        other.execute("set deadlock_timeout = '5s'")
        other.commit()
        is_victim = False
        while not is_victim:  # on a busy machine the store may look before there is a deadlock
            both = store.enqueue_many("default", [NewRequest(kind="k"), NewRequest(kind="k")])
            ids = [each.request_id or 0 for each in both]
            other.execute(LOCK, ids[1:])
            cancelled = thread.submit(store.operate, "cancel", ids=ids)  # locks them in this order
            until(lambda: watcher.execute(WAITS).rowcount)
            with suppress(psycopg.errors.DeadlockDetected):
                other.execute(LOCK, ids[:1])
                is_victim = True
            other.rollback()
            assert [one.outcome for one in cancelled.result().touched] == [Outcome.OK] * 2
