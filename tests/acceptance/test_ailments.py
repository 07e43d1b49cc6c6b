"""What an operator asks first: `rowlease doctor` and `explain` name the cause, and nothing else.

Each ailment is prepared on a database of its own, whose clock runs. Those that show after some
time, or need a server of their own, are in the tests that `ELSEWHERE` names.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from rowlease.doctor import examine
from rowlease.errors import ConfigError, InvalidRequest
from rowlease.model import Failure, NewRequest
from rowlease.store import Store
from rowlease.store.routines import load_routines
from tests.acceptance.workers import drain, put

Sql = Callable[..., list[tuple[Any, ...]]]


class Ailment(NamedTuple):
    """What is wrong, and who says so.

    Attributes:
        prepare: makes it; returns the request that an operator asks about, or None.
        finding: of the doctor; empty if the database is well.
        reason: of `explain`; empty if nobody asks.
        says: a text in the message of `explain`.
    """

    prepare: Callable[[Store, Sql], int | None]
    finding: str = ""
    reason: str = ""
    says: str = ""


def alive(store: Store, queue: str = "default", **more: Any) -> None:
    given = {"busy": 0, "kinds": {"act": "act()", "endless": "endless()"}, **more}
    store.worker_heartbeat(
        "one", host="h", pid=1, version="0.1.0", queues=[queue], slots=2, **given
    )


def paused(store: Store, sql: Sql) -> int:
    (request,) = put(store, "ok")
    alive(store)
    store.pause("default")
    return request


def full(store: Store, sql: Sql) -> None:
    store.configure_queue("default", capacity=1)
    put(store, "ok")
    alive(store)


def unknown_kind(store: Store, sql: Sql) -> int:
    alive(store)
    return put(store, "ok", kind="resize")[0]


def wrong_queue(store: Store, sql: Sql) -> int:
    store.configure_queue("mail")
    alive(store, "mail")
    return put(store, "ok")[0]


def behind_a_retry(store: Store, sql: Sql) -> int:
    _, second = put(store, "ok", "ok", group_key="g")
    alive(store)
    store.fail(
        store.dequeue("one", ["default"], 1).requests, [Failure("x", after=timedelta(hours=1))]
    )
    return second


def in_ten_days(store: Store, sql: Sql) -> int:
    return put(store, "ok", delay=timedelta(days=10))[0]


def rate_used_up(store: Store, sql: Sql) -> int:
    with pytest.raises(InvalidRequest, match="rate"):
        store.configure_queue("default", rate="0/1h")
    store.configure_queue("default", rate="1/1h")
    _, second = put(store, "ok", "ok")
    alive(store)
    store.complete(store.dequeue("one", ["default"], 1).requests)
    return second


def in_flight(store: Store, sql: Sql) -> int:
    store.configure_queue("default", max_in_flight=1)
    _, second = put(store, "ok", "ok")
    alive(store, busy=1)
    store.dequeue("one", ["default"], 1)
    return second


def deleted_by_hand(store: Store, sql: Sql) -> None:
    put(store, "ok", "ok")
    alive(store)
    sql(
        "delete from rowlease.queue where request_id = (select max(request_id) from rowlease.queue)"
    )


def without_an_index(store: Store, sql: Sql) -> None:
    sql("drop index rowlease.queue_pending")
    put(store, "ok")
    drain(store, executor="thread")


def poison(store: Store, sql: Sql) -> int:
    (request,) = put(store, "kill", max_attempts=1)
    drain(store, executor="process")
    return request


def endless(store: Store, sql: Sql) -> int:
    (request,) = put(store, {}, kind="endless", max_attempts=1)
    drain(store, executor="process")
    return request


def huge(store: Store, sql: Sql) -> int:
    (request,) = put(store, "huge", max_attempts=1)
    drain(store, executor="thread")
    return request


def wrong_time_zone(store: Store, sql: Sql) -> None:
    for cron, time_zone in (("0 3 * * *", "Berlin"), ("0 0 30 2 *", "UTC")):
        with pytest.raises(ConfigError):
            store.put_schedule("s", cron, "act", time_zone=time_zone)


def right_withdrawn(store: Store, sql: Sql) -> None:
    sql("revoke execute on function rowlease.renew from rowlease_worker")


def endless_batch(store: Store, sql: Sql) -> int:
    store.configure_queue("mail")
    store.enqueue_many("mail", [NewRequest(kind="act")], batch_id="b")
    (answer,) = store.enqueue_many("default", [NewRequest(kind="act")], after="b")
    alive(store)
    return answer.request_id or 0


AILMENTS = {
    "1 paused queue": Ailment(paused, "paused", "paused"),
    "2 full queue": Ailment(full, "full"),
    "3 unknown kind": Ailment(unknown_kind, "unknown_kind", "unknown_kind", '"resize"'),
    "5 blocked group": Ailment(behind_a_retry, "", "group", "comes first, and is due at 20"),
    "6 worker of another queue": Ailment(wrong_queue, "no_worker", "no_worker"),
    "7 due in ten days": Ailment(in_ten_days, "", "scheduled"),
    "8 rate used up": Ailment(rate_used_up, "", "rate", "the next start is possible at "),
    "9 in-flight limit": Ailment(in_flight, "", "in_flight"),
    "10 row deleted by hand": Ailment(deleted_by_hand, "counts"),
    "13 index dropped": Ailment(without_an_index, "drift"),
    "14 poison request": Ailment(poison, "dead_letters", "dead_letter", "killed by signal 9"),
    "15 endless task": Ailment(endless, "dead_letters", "dead_letter", "ran past its time limit"),
    "16 result of 2 MB": Ailment(huge, "dead_letters", "dead_letter", "2000002"),
    "19 wrong time zone or day": Ailment(wrong_time_zone),
    "28 right withdrawn": Ailment(right_withdrawn, "drift"),
    "32 batch that never ends": Ailment(endless_batch, "no_worker", "batch", "1 of 1"),
}
#: All others, and the tests that prepare them.
ELSEWHERE = {
    "4 worker killed, after 31 s": ("contract/test_diagnose", "no_worker"),
    "11 table locked": (
        "contract/test_diagnose",
        "test_a_table_that_a_session_has_locked_is_named",
    ),
    "12 row locked": (
        "contract/test_operators",
        "test_explain_names_the_session_that_has_locked_a_row_or_a_gate",
    ),
    "17 flood of dead letters": ("contract/test_diagnose", "dead_letters"),
    "18 schedule overdue, after 60 s": ("contract/test_diagnose", "schedule"),
    "20 transaction keeps the horizon, after 60 s": (
        "acceptance/test_doctor",
        "test_a_session_that_holds_the_horizon_is_named",
    ),
    "21 prepared transaction": (
        "acceptance/test_horizon",
        "test_a_prepared_transaction_that_holds_the_horizon_is_named",
    ),
    "22 inactive slot": ("acceptance/test_horizon", "test_a_slot_without_a_reader_is_named"),
    "23 autovacuum off": (
        "acceptance/test_doctor",
        "test_autovacuum_that_is_off_for_a_table_is_found",
    ),
    "24 clock of the client": ("acceptance/test_doctor", "test_a_clock_that_is_off_is_found"),
    "25 connections used up": ("acceptance/test_doctor", "test_few_free_connections_are_found"),
    "26 load silent for 15 minutes": ("contract/test_diagnose", "load"),
    "27 sequence behind": (
        "migrations/test_replication",
        "test_ids_go_on_after_an_upgrade_by_replication",
    ),
    "29 worker stopped, after 40 s": ("contract/test_diagnose", "overdue"),
    "30 read-only database": (
        "contract/test_diagnose",
        "test_a_database_that_refuses_changes_is_named",
    ),
    "31 worker of an older release": (
        "acceptance/test_doctor",
        "test_a_live_worker_of_an_older_release_is_named",
    ),
}


@pytest.fixture
def dsn(dsn: str) -> str:
    """The test's own database, with the routine `now` of the release."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(load_routines("postgresql")["now"].body)
    return dsn


@pytest.mark.parametrize("name", AILMENTS)
def test_the_cause_is_named_and_nothing_else(dsn: str, store: Store, sql: Sql, name: str) -> None:
    prepare, finding, reason, says = AILMENTS[name]
    assert examine(dsn) == []
    request = prepare(store, sql)
    assert [one.finding for one in examine(dsn)] == ([finding] if finding else [])
    if request is not None:
        found = store.explain(request)
        assert found.reason == reason
        assert says in found.message


def test_each_of_the_32_ailments_has_a_test(repository: Path) -> None:
    numbers = [int(name.split()[0]) for name in (*AILMENTS, *ELSEWHERE)]
    assert sorted(numbers) == list(range(1, 33))
    for module, name in ELSEWHERE.values():
        tree = ast.parse((repository / "tests" / f"{module}.py").read_text())
        functions = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
        assert name in functions, (module, name)
