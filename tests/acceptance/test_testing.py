"""`rowlease.testing`, as users test their own tasks with it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rowlease
from rowlease import AsyncClient, Client, DeadLetter, Retry, Task, current, task
from rowlease.errors import AccessDenied, ConfigError, RowleaseError, UnknownTask
from rowlease.store import open_store
from rowlease.store.postgresql.scratch import set_clock
from rowlease.testing import (
    assert_enqueued,
    drain,
    drain_async,
    enqueued,
    frozen,
    refute_enqueued,
)

Sql = Callable[..., list[tuple[Any, ...]]]
SOURCE = Path(rowlease.__file__).parents[1]
NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)


@task(max_attempts=2)
def act(do: str = "ok", **given: Any) -> Any:
    """One task for every way a request can go."""
    match do:
        case "fail":
            raise ValueError("no luck today")
        case "retry":
            raise Retry("later", after=timedelta(minutes=1))
        case "dead":
            raise DeadLetter("never")
        case "attempt":
            context = current()
            return [context.attempt, context.max_attempts, context.should_stop]
        case "leave":
            sys.exit(3)
    return {"did": do, **given}


def test_a_drain_does_not_start_what_has_expired(client: Client) -> None:
    with frozen(client, NEW_YEAR) as clock:
        late = client.enqueue(act.with_options(expires=timedelta(minutes=1)))
        clock.advance(minutes=2)
        client.enqueue(act.with_options(expires=timedelta(minutes=1)))
        assert [ran.outcome for ran in drain(client, act)] == ["ok"]
    read = late.read()
    assert read
    assert (read.status, read.last_error) == ("Cancelled", "it expired before it started")


@task
async def later(name: str) -> str:
    return f"hello {name}"


@task(cron="0 3 * * *", time_zone="Europe/Berlin")
def nightly(scheduled_time: str) -> str:
    return scheduled_time


TASKS: list[Task[..., Any]] = [act, later, nightly]


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with Client(dsn) as opened:
        yield opened


def statuses(sql: Sql) -> dict[str, int]:
    return dict(sql("select status, count(*) from rowlease.requests group by 1"))


# -- drain -------------------------------------------------------------------------------------


def test_what_is_pending_runs_here_and_the_database_knows(client: Client, sql: Sql) -> None:
    client.enqueue(act, n=1)
    client.enqueue(later.with_options(priority=5), "Ann")
    first, second = drain(client, TASKS)
    assert (first.kind, first.result, first.outcome) == ("later", "hello Ann", "ok")
    assert (second.kind, second.result, second.error) == ("act", {"did": "ok", "n": 1}, None)
    assert sql("select kind, status, result::text from rowlease.requests order by kind") == [
        ("act", "Complete", '{"did":"ok","n":1}'),
        ("later", "Complete", '"hello Ann"'),
    ]
    assert drain(client.store, TASKS) == []


def test_what_a_task_enqueues_runs_too_whatever_its_queue(client: Client) -> None:
    @task
    def grow(depth: int) -> None:
        if depth:
            client.enqueue(grow.with_options(queue="other"), depth - 1)

    client.store.configure_queue("other")
    client.enqueue(grow, 3)
    assert [ran.request.queue_name for ran in drain(client, grow)] == ["default"] + ["other"] * 3


def test_only_the_queues_that_are_named_are_drained(client: Client) -> None:
    client.store.configure_queue("other")
    client.enqueue(act)
    client.enqueue(act.with_options(queue="other"))
    assert len(drain(client, act, queues=["other"])) == 1
    assert len(enqueued(client)) == 1


def test_what_a_task_raises_is_raised_when_the_database_knows(client: Client, sql: Sql) -> None:
    client.enqueue(act, "fail")
    client.enqueue(act)
    with pytest.raises(ValueError, match="no luck today"):
        drain(client, act)
    assert statuses(sql) == {"Scheduled": 1, "Pending": 1}
    (error,) = (error for (error,) in sql("select last_error from rowlease.queue") if error)
    assert error.startswith("ValueError: no luck today")


def test_what_a_task_raises_may_be_looked_at_instead(client: Client, sql: Sql) -> None:
    for do in ("fail", "retry", "dead", "ok"):
        client.enqueue(act, do)
    ran = drain(client, act, reraise=False)
    assert [type(one.error).__name__ for one in ran] == [
        "ValueError",
        "Retry",
        "DeadLetter",
        "NoneType",
    ]
    assert statuses(sql) == {"Scheduled": 2, "Failed": 1, "Complete": 1}


def test_signals_of_a_task_are_no_errors(client: Client) -> None:
    client.enqueue(act, "retry")
    client.enqueue(act, "dead")
    assert len(drain(client, act)) == 2


def test_what_ends_a_process_ends_the_test_and_counts_as_an_attempt(
    client: Client, sql: Sql
) -> None:
    client.enqueue(act, "leave")
    with pytest.raises(SystemExit):
        drain(client, act, reraise=False)
    assert sql("select status, num_attempts from rowlease.queue") == [("Scheduled", 1)]


def test_a_request_without_a_task_is_an_error(client: Client, sql: Sql) -> None:
    client.enqueue_untyped("ghost")
    with pytest.raises(UnknownTask, match="no task is named 'ghost'; the known tasks are: act"):
        drain(client, act)
    assert statuses(sql) == {"Scheduled": 1}


@pytest.mark.parametrize(
    "call",
    [lambda where: drain(where, act), enqueued, lambda where: frozen(where).__enter__()],
    ids=["drain", "enqueued", "frozen"],
)
def test_what_has_no_requests_is_named(call: Any) -> None:
    with pytest.raises(ConfigError, match="where is a NoneType; it must be an open Client"):
        call(None)


def test_a_task_that_enqueues_itself_for_ever_ends_the_drain(client: Client, sql: Sql) -> None:
    @task
    def again() -> None:
        client.enqueue(again)

    client.enqueue(again)
    with pytest.raises(RowleaseError, match="limit of 5 requests is reached, and more are"):
        drain(client, again, limit=5)
    assert statuses(sql) == {"Complete": 5, "Pending": 1}


def test_a_task_may_ask_for_its_attempt(client: Client) -> None:
    client.enqueue(act, "attempt")
    (ran,) = drain(client, act)
    assert ran.result == [1, 2, False]
    with pytest.raises(RowleaseError, match="works only in a task that a worker runs"):
        current()


def test_in_an_event_loop_coroutines_run_in_that_loop(dsn: str, sql: Sql) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        @task
        async def meet(again: bool = False) -> bool:
            await asyncio.sleep(0)
            if again:
                await opened.enqueue(meet)
            assert current().attempt == 1
            return asyncio.get_running_loop() is loop

        async with AsyncClient(dsn) as opened:
            await opened.enqueue(meet, again=True)
            await opened.enqueue(act, "fail")
            assert_enqueued(opened, meet, {"again": True}, count=1)
            with frozen(opened, NEW_YEAR):
                ran = await drain_async(opened, [meet, act], reraise=False)
            refute_enqueued(opened, meet)
        assert [(one.result, type(one.error)) for one in ran] == [
            (True, type(None)),
            (None, ValueError),
            (True, type(None)),
        ]

    asyncio.run(main())
    assert statuses(sql) == {"Complete": 2, "Scheduled": 1}


# -- frozen ------------------------------------------------------------------------------------


def test_what_is_scheduled_becomes_due_when_the_test_moves_the_clock(
    client: Client, dsn: str, sql: Sql
) -> None:
    with frozen(client, NEW_YEAR) as clock:
        client.enqueue(act.with_options(delay=timedelta(days=1)))
        with Client(dsn) as other:  # everybody has this time
            other.enqueue(act.with_options(due_time=NEW_YEAR + timedelta(days=2)))
        assert drain(client, act) == []
        clock.advance(days=1)
        assert len(drain(client, act)) == 1
        clock.move_to(NEW_YEAR + timedelta(days=2))
        assert len(drain(client, act)) == 1
        assert sql("select max(completion_time) from rowlease.queue_history") == [(clock.now,)]
    client.enqueue(act)
    ((waits_since,),) = sql("select now() - due_time from rowlease.queue")
    assert timedelta(0) <= waits_since < timedelta(minutes=1)


def test_a_failed_attempt_is_retried_when_its_time_has_come(client: Client, sql: Sql) -> None:
    with frozen(client) as clock:
        client.enqueue(act, "retry")
        for _ in range(2):
            assert len(drain(client, act)) == 1
            assert drain(client, act) == []
            clock.advance(timedelta(minutes=1))
        assert drain(client, act) == []
    assert statuses(sql) == {"Failed": 1}


def test_schedules_fire_when_the_test_moves_the_clock(client: Client) -> None:
    with frozen(client, NEW_YEAR) as clock:
        assert drain(client, TASKS, schedules=True) == []
        clock.advance(hours=2)
        (ran,) = drain(client, TASKS, schedules=True)
        assert ran.result == "2030-01-01T02:00:00Z"
        clock.advance(days=3)
        (ran,) = drain(client, TASKS, schedules=True)
        assert ran.result == "2030-01-04T02:00:00Z"


def test_the_clock_runs_again_whatever_happens(client: Client, sql: Sql) -> None:
    with pytest.raises(ZeroDivisionError), frozen(client, NEW_YEAR):
        _ = 1 / 0
    client.enqueue(act)
    assert sql("select due_time < '2030-01-01' from rowlease.queue") == [(True,)]


def test_a_time_without_a_zone_is_refused(client: Client) -> None:
    with (
        pytest.raises(ConfigError, match="has no time zone"),
        frozen(client, datetime(2030, 1, 1)),
    ):
        pass


def test_the_clock_of_a_database_that_is_no_test_s_is_never_stopped(
    server_dsn: str, dsn: str
) -> None:
    store = open_store(server_dsn)  # where others make their databases from
    try:
        with pytest.raises(ConfigError, match="would stop for all clients"):
            set_clock(store, NEW_YEAR)
    finally:
        store.close()


def test_only_the_owner_stops_the_clock(dsn: str, client: Client, sql: Sql) -> None:
    import psycopg

    name = f"rowlease_test_worker_{os.getpid()}"
    sql(f"create role {name} login password 'x' in role rowlease_worker, rowlease_producer")
    try:
        info = psycopg.conninfo.conninfo_to_dict(dsn)
        other = f"postgresql://{name}:x@{info['host']}:{info['port']}/{info['dbname']}"
        store = open_store(other)
        with pytest.raises(AccessDenied):
            set_clock(store, NEW_YEAR)
        store.close()
    finally:
        sql(f"drop role {name}")


# -- assertions --------------------------------------------------------------------------------


def test_what_waits_is_listed_in_the_order_it_was_enqueued(client: Client) -> None:
    client.enqueue(act.with_options(dedup_key="d", group_key="g", priority=3), n=1)
    client.enqueue(later.with_options(delay=timedelta(hours=1)), "Ann")
    first, second = enqueued(client)
    assert (first.kind, first.payload, first.status) == ("act", {"n": 1}, "Pending")
    assert (first.queue, first.priority) == ("default", 3)
    assert (first.dedup_key, first.group_key) == ("d", "g")
    assert (second.kind, second.payload, second.status) == ("later", {"name": "Ann"}, "Scheduled")
    assert enqueued(client, later) == enqueued(client.store, "later") == [second]
    assert enqueued(client, queue="default", payload={"n": 1}) == [first]
    drain(client, TASKS)
    assert [one.kind for one in enqueued(client)] == ["later"]


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ({}, True),
        ({"to": "ann"}, True),
        ({"at": {"y": 2}}, True),
        ({"to": "ann", "cc": (1, 2), "at": {"x": 1, "y": 2}}, True),
        ({"cc": [1]}, False),
        ({"to": None}, False),
        ({"bcc": None}, False),
        ([], False),
    ],
)
def test_a_payload_is_found_by_some_of_its_items(client: Client, payload: Any, found: bool) -> None:
    client.enqueue(act, to="ann", cc=[1, 2], at={"x": 1, "y": 2})
    assert bool(enqueued(client, payload=payload)) == found


def test_an_assertion_holds_or_says_what_there_is(client: Client) -> None:
    client.enqueue(act, to="ann")
    with frozen(client, NEW_YEAR):
        client.enqueue(later.with_options(delay=timedelta(hours=1)), "Bob")
    (found,) = assert_enqueued(client, act, {"to": "ann"})
    assert found.payload == {"to": "ann"}
    assert_enqueued(client, count=2)
    refute_enqueued(client, act, {"to": "bob"})
    shown = (
        'waiting requests:\n  1 act {"to": "ann"} in default, Pending\n'
        '  2 later {"name": "Bob"} in default, Scheduled for 2030-01-01 01:00:00 UTC'
    )
    with pytest.raises(AssertionError) as missed:
        assert_enqueued(client, act, {"to": "bob"}, queue="default")
    assert str(missed.value) == (
        "expected a waiting request of kind 'act' with payload {'to': 'bob'} in queue 'default'; "
        f"found 0; {shown}"
    )
    with pytest.raises(AssertionError, match="expected 3 waiting requests of any kind; found 2"):
        assert_enqueued(client, count=3)
    with pytest.raises(AssertionError, match="expected no waiting request of kind 'act'; found 1"):
        refute_enqueued(client, act)


def test_an_assertion_about_empty_queues_reports_that_none_waits(client: Client) -> None:
    with pytest.raises(AssertionError, match=r"no request waits$"):
        assert_enqueued(client, act)
    assert_enqueued(client, count=0)


# -- the plugin --------------------------------------------------------------------------------

TESTS = """
import sys
assert "rowlease.client.client" not in sys.modules and "sqlalchemy" not in sys.modules
from datetime import UTC, datetime, timedelta

import pytest
from rowlease import Client, task
from rowlease.testing import assert_enqueued, drain, frozen, refute_enqueued


@task
def remind(who):
    return who


def sign_up(client, who):
    client.enqueue(remind.with_options(delay=timedelta(days=1)), who)


@pytest.mark.parametrize("who", ["ann", "bob"])
def test_a_new_user_is_reminded_a_day_later(rowlease_client, who):
    with frozen(rowlease_client, datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        sign_up(rowlease_client, who)
        assert_enqueued(rowlease_client, remind, {"who": who}, count=1)
        assert drain(rowlease_client, remind) == []
        clock.advance(days=1)
        assert [ran.result for ran in drain(rowlease_client, remind)] == [who]


def test_each_test_has_a_database_of_its_own(rowlease_dsn):
    assert "rowlease_test_" in rowlease_dsn
    with Client(rowlease_dsn) as client:
        refute_enqueued(client)


def test_a_failure_shows_what_waits(rowlease_client):
    sign_up(rowlease_client, "ann")
    assert_enqueued(rowlease_client, remind, {"who": "bob"})
"""


@pytest.mark.parametrize("server", ["given", "embedded"])
def test_a_user_s_own_tests_run_with_the_fixtures(
    server: str, server_dsn: str, tmp_path: Path
) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ROWLEASE")}
    given = {"ROWLEASE_TEST_DSN": server_dsn} if server == "given" else {}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "rowlease.testing.plugin",
         "-q", "-W", "error", "--basetemp", str(tmp_path / "base")],
        cwd=tmp_path,
        env={**kept, **given, "PYTHONPATH": str(SOURCE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )  # fmt: skip
    assert "1 failed, 3 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "a waiting request of kind 'remind' with payload {'who': 'bob'}; found 0" in ran.stdout
    assert '1 remind {"who": "ann"} in default, Scheduled for' in ran.stdout
    assert "waiting.py" not in ran.stdout, "the traceback ends in the user's own test"


def test_the_plugin_is_found_by_its_entry_point(repository: Path) -> None:
    import tomllib

    with (repository / "pyproject.toml").open("rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["pytest11"]
    assert points == {"rowlease": "rowlease.testing.plugin"}


def test_finding_the_plugin_imports_no_driver() -> None:
    code = (
        "import sys, rowlease.testing.plugin;"
        "heavy = 'psycopg', 'sqlalchemy', 'rowlease.client.client';"
        "print([m for m in heavy if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "[]\n"
