"""The worker with real processes, real signals and a real database.

No test sleeps: each waits for an event of the worker, for a line of its log, or for a pipe that a
task reads.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowlease.errors import ConfigError, InvalidRequest
from rowlease.events import (
    ChildDied,
    Events,
    Failed,
    Finished,
    ProgressKept,
    Renewed,
    Started,
    StoreLost,
    StoreRecovered,
    WorkerIdle,
)
from rowlease.store import Store
from rowlease.store.postgresql.store import PostgresStore
from rowlease.tasks.task import Registry, task
from rowlease.testing import frozen
from rowlease.worker import Worker
from rowlease.worker.claims import leases, receiver_state
from tests.acceptance.tasks import HOUR, act
from tests.acceptance.workers import (
    PATIENCE,
    SHORT_LEASE,
    Emitted,
    Sql,
    drain,
    errors,
    line,
    open_gate,
    put,
    statuses,
    worker_process,
    working,
)
from tests.waiting import until


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe: a reader blocks until a test writes to it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


# -- outcomes ------------------------------------------------------------------------------------


def test_a_worker_runs_all_waiting_requests_and_keeps_their_results(store: Store, sql: Sql) -> None:
    ids = put(store, *({"n": n} for n in range(500)))
    summary = drain(store)
    assert (summary.claimed, summary.finished, summary.failed) == (500, 500, 0)
    results = sql("select request_id, result from rowlease.queue_history")
    assert dict(results) == {one: {"did": "ok", "n": n} for n, one in enumerate(ids)}
    assert statuses(sql) == {"Complete": 500}


def test_a_result_of_none_is_null(store: Store, sql: Sql) -> None:
    put(store, "chatter")
    drain(store)
    assert sql("select result from rowlease.queue_history") == [(None,)]


def test_a_failing_task_is_retried_and_then_a_dead_letter(store: Store, sql: Sql) -> None:
    (one,) = put(store, "fail", max_attempts=3, retry_base=timedelta(0))
    failed: list[Any] = []
    events = Events()
    events.subscribe(failed.append, Failed)
    summary = drain(store, events=events)
    assert (summary.failed, summary.dead) == (3, 1)
    assert str(summary).startswith("0 finished, 3 failed, 1 dead in ")
    assert [event.dead for event in failed] == [False, False, True]
    assert statuses(sql) == {"Failed": 1}
    assert errors(sql)[one] == "ValueError: no luck today"
    found = store.get_request(one)
    assert found
    assert [(each.attempt_number, each.outcome) for each in found.attempts] == [
        (1, "failed"),
        (2, "failed"),
        (3, "failed"),
    ]
    for each, event in zip(found.attempts, failed, strict=True):
        assert (each.error, each.error_type) == ("ValueError: no luck today", "ValueError")
        assert (event.error, event.error_type) == (each.error, each.error_type)
        assert event.traceback == each.traceback
        assert each.traceback
        assert 'raise ValueError("no luck today")' in each.traceback
        assert "rowlease/worker" not in each.traceback


def test_a_task_can_ask_for_a_retry_and_for_a_dead_letter(store: Store, sql: Sql) -> None:
    later, never = put(store, "retry", "dead")
    summary = drain(store)
    assert (summary.failed, summary.dead) == (2, 1)
    assert errors(sql) == {later: "come back later", never: "never again"}
    assert sql(
        "select request_id, status, due_time > now() + interval '50 minutes' from rowlease.queue"
        " order by 1"
    ) == [(later, "Scheduled", True), (never, "Failed", False)]


@pytest.mark.parametrize(
    ("action", "error_text"),
    [
        ("mute", "Unprintable: <exception str() failed>"),
        ("leave", "SystemExit: left"),
        ("huge", "ValueError: the result of task act is 2000002 bytes of JSON; the limit is"),
        (
            "object",
            "ValueError: the result of task act is not JSON: object cannot be written as JSON",
        ),
        ("nan", "ValueError: the result of task act is not JSON: Out of range float"),
    ],
    ids=str,
)
def test_mistakes_of_a_task_are_in_its_last_error(
    action: Any, error_text: str, store: Store, sql: Sql
) -> None:
    (one,) = put(store, action, max_attempts=1)
    put(store, "ok")
    summary = drain(store, concurrency=1)
    assert (summary.finished, summary.failed, summary.crashed) == (1, 1, 0)
    assert error_text in errors(sql)[one].partition("\n")[0]


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_arguments_that_do_not_fit_make_a_dead_letter_at_once(
    executor: str, store: Store, sql: Sql
) -> None:
    (wrong,) = put(store, {"n": 1}, kind="endless", max_attempts=9)
    (blamed,) = put(store, "type error", max_attempts=9)
    drain(store, executor=executor)
    assert errors(sql)[wrong] == (
        "the payload does not fit the task endless(): got an unexpected keyword argument 'n'"
    )
    assert errors(sql)[blamed].startswith("TypeError: the task's own")
    assert sql("select status, num_attempts from rowlease.queue order by request_id") == [
        ("Failed", 1),
        ("Scheduled", 1),
    ]


def test_a_request_of_an_unknown_kind_is_declined_with_a_reason(store: Store, sql: Sql) -> None:
    put(store, {}, kind="nobody knows")
    summary = drain(store)
    assert (summary.failed, summary.abandoned, summary.declined) == (0, 0, 1)
    assert list(errors(sql).values()) == [
        "no task is named 'nobody knows'; the known tasks are: act, endless"
    ]
    assert statuses(sql) == {"Scheduled": 1}


@pytest.mark.parametrize("action", ["chatter", "close", "fork"])
def test_a_task_that_damages_its_process_harms_no_other_request(
    action: str, store: Store, sql: Sql
) -> None:
    odd = 50
    ids = put(store, *(action if n == odd else {"n": n} for n in range(200)))
    put(store, "chatter")
    summary = drain(store, concurrency=1)
    assert (summary.finished, summary.failed) == (201, 0)
    results: dict[int, Any] = dict(sql("select request_id, result from rowlease.queue_history"))
    assert [results.pop(one) for one in list(results) if one not in ids or one == ids[odd]] == [
        None,
        None,
    ]
    assert results == {one: {"did": "ok", "n": n} for n, one in enumerate(ids) if n != odd}


# -- crashes and time limits ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "how"),
    [
        ("exit", "exited with code 3"),
        ("kill", "was killed by signal 9 (SIGKILL)"),
        ("segfault", "was killed by signal 11 (SIGSEGV)"),
    ],
)
def test_a_crash_fails_the_running_request_and_no_other(
    action: str, how: str, store: Store, sql: Sql
) -> None:
    put(store, *["ok"] * 200)
    (poison,) = put(store, action, max_attempts=1)
    put(store, *["ok"] * 200)
    emitted, events = Emitted(), Events()
    events.subscribe(emitted)
    summary = drain(store, events=events)
    assert (summary.finished, summary.failed, summary.crashed) == (400, 1, 1)
    assert errors(sql) == {poison: f"the process running this request {how}"}
    assert statuses(sql) == {"Complete": 400, "Failed": 1}
    # No other request ran twice: the outcomes from before the crash were delivered.
    assert sql("select max(num_attempts) from rowlease.queue_history") == [(1,)]
    started = [event.request.request_id for event in emitted.rest() if isinstance(event, Started)]
    assert len(started) == len(set(started)) == 401


def test_an_idle_child_that_dies_is_replaced(store: Store) -> None:
    with working(store) as (_, emitted):
        put(store, "ok")
        emitted.first(Finished)
        (child,) = heard_children(emitted)
        os.kill(child, signal.SIGKILL)
        assert emitted.first(ChildDied).request is None
        put(store, "ok")
        emitted.first(Finished)


def heard_children(emitted: Emitted) -> list[int]:
    from rowlease.events import ChildStarted

    return [event.pid for event in emitted.rest() if isinstance(event, ChildStarted)]


def test_a_task_past_its_time_limit_is_killed_and_fails(store: Store, sql: Sql) -> None:
    put(store, {}, kind="endless", max_attempts=1)
    put(store, *["ok"] * 50)
    summary = drain(store, concurrency=1)
    assert (summary.finished, summary.failed, summary.crashed) == (50, 1, 1)
    assert list(errors(sql).values()) == [
        "the process running this request was given up because the task ran past its time limit of "
        "0:00:00.300000"
    ]


def test_short_requests_do_not_wait_behind_a_long_one(store: Store, gate: Path) -> None:
    put(store, *["ok"] * 300)
    with working(store, concurrency=2) as (_, emitted):
        for _ in range(300):
            emitted.first(Finished)
        # By now both children have prefetched requests.
        (long,) = put(store, {"do": "wait", "gate": str(gate)}, priority=1)
        put(store, *["ok"] * 300)
        for _ in range(300):
            assert emitted.first(Finished).request.request_id != long
        open_gate(gate)
        assert emitted.first(Finished).request.request_id == long


# -- the end of a worker -------------------------------------------------------------------------


def test_a_burst_ends_when_only_scheduled_requests_are_left(store: Store, sql: Sql) -> None:
    put(store, "ok")
    put(store, "ok", delay=HOUR)
    assert drain(store).finished == 1
    assert statuses(sql) == {"Complete": 1, "Scheduled": 1}
    assert drain(store).claimed == 0
    assert sql("select count(*) from rowlease.worker") == [(0,)]


def test_a_burst_waits_for_a_request_that_maintain_is_making_claimable(
    dsn: str, store: Store, sql: Sql
) -> None:
    # At noon: a maintain() on another day adds a partition, and its lock stops the worker's start.
    noon = datetime.now(UTC).replace(hour=12)
    with frozen(store, noon) as clock, psycopg.connect(dsn) as connection:
        put(store, "ok", delay=HOUR)
        clock.advance(HOUR)
        connection.execute("select rowlease.maintain()")
        with working(store, burst=True) as (_, emitted):
            emitted.first(WorkerIdle)
            connection.commit()
            emitted.first(Finished)
    assert statuses(sql) == {"Complete": 1}


def test_another_worker_completes_each_request_of_a_killed_worker_once(
    dsn: str, store: Store, sql: Sql
) -> None:
    put(store, *({"n": n} for n in range(2000)))
    with frozen(store) as clock:
        with worker_process(dsn) as process:
            line(process, "finished")
            process.kill()
            process.wait()
        done = statuses(sql).get("Complete", 0)
        assert 0 < done < 2000
        clock.advance(HOUR)
        with working(store) as (_, emitted):
            for _ in range(2000 - done):
                emitted.first(Finished)
    assert statuses(sql) == {"Complete": 2000}
    assert sql("select count(distinct request_id) from rowlease.queue_history") == [(2000,)]


def test_children_do_not_outlive_a_killed_worker(dsn: str, store: Store, gate: Path) -> None:
    put(store, {"do": "wait", "gate": str(gate)})
    with worker_process(dsn, concurrency=1) as process:
        child = int(line(process, "child started").split("pid=")[1])
        line(process, "started request_id")
        pidfd = os.pidfd_open(child)
        process.kill()
        with os.fdopen(pidfd):
            import select

            assert select.select([pidfd], [], [], PATIENCE)[0]


def test_sigterm_lets_running_tasks_finish_and_abandons_the_rest(
    dsn: str, store: Store, gate: Path, sql: Sql
) -> None:
    put(store, {"do": "wait", "gate": str(gate)})
    with worker_process(dsn, concurrency=1) as process:
        line(process, "started request_id")
        put(store, *["ok"] * 5)
        process.terminate()
        line(process, "worker stopping")
        open_gate(gate)
        assert line(process, "1 finished in")
        assert process.wait() == 0
    assert statuses(sql) == {"Complete": 1, "Pending": 5}
    assert sql("select count(*) from rowlease.worker") == [(0,)]


def test_sigterm_works_while_another_session_holds_the_gate_of_a_limited_queue(
    dsn: str, store: Store, gate: Path, sql: Sql
) -> None:
    store.configure_queue("default", max_in_flight=2)
    put(store, {"do": "wait", "gate": str(gate)}, "ok")
    with psycopg.connect(dsn) as dba, worker_process(dsn, concurrency=2) as process:
        line(process, "finished request_id")
        dba.execute("select from rowlease.gate for update")
        put(store, "ok")
        waiting = "select count(*) from pg_locks where not granted"
        until(lambda: sql(waiting) != [(0,)])
        process.terminate()
        stopped = time.monotonic()
        line(process, "worker stopping")
        open_gate(gate)
        assert line(process, "2 finished in")
        assert process.wait() == 0
        assert time.monotonic() - stopped < 30
    assert statuses(sql) == {"Complete": 2, "Pending": 1}


@pytest.mark.parametrize("terms", [1, 2])
def test_requests_that_outlive_the_grace_time_are_abandoned(
    terms: int, dsn: str, store: Store, gate: Path, sql: Sql
) -> None:
    put(store, {"do": "wait", "gate": str(gate)})
    grace = timedelta(seconds=0.2) if terms == 1 else HOUR
    with worker_process(dsn, concurrency=1, grace=grace) as process:
        line(process, "started request_id")
        process.terminate()
        line(process, "worker stopping")
        if terms == 2:
            process.terminate()
        assert line(process, "1 handed back")
        assert process.wait() == 0
    assert sql("select status, num_attempts from rowlease.queue") == [("Pending", 0)]


# -- leases --------------------------------------------------------------------------------------


def test_a_lease_is_renewed_while_the_task_runs(store: Store, gate: Path, sql: Sql) -> None:
    put(store, {"do": "wait", "gate": str(gate)})
    with working(store, lease=SHORT_LEASE) as (_, emitted):
        lease = emitted.first(Started).request
        for _ in range(2):
            assert emitted.first(Renewed).count == 1
        ((expires, token),) = sql("select lock_expires_time, lock_token from rowlease.queue")
        assert expires > lease.lock_expires_time
        assert token == lease.lock_token
        open_gate(gate)
        emitted.first(Finished)


def test_a_worker_that_was_suspended_beyond_its_lease_is_refused_and_reports_it(
    dsn: str, store: Store, gate: Path, tmp_path: Path, sql: Sql
) -> None:
    put(store, {"do": "wait once", "gate": str(gate), "mark": str(tmp_path / "mark")})
    with frozen(store) as clock, worker_process(dsn, concurrency=1) as stopped:
        line(stopped, "started request_id")
        stopped.send_signal(signal.SIGSTOP)
        clock.advance(HOUR)
        with working(store) as (_, emitted):
            emitted.first(Finished)
        open_gate(gate)
        stopped.send_signal(signal.SIGCONT)
        assert "request_id=1" in line(stopped, "lease lost")
        stopped.terminate()
        assert "1 lost" in line(stopped, "0 finished")
    assert sql("select result, num_attempts from rowlease.queue_history") == [("second", 2)]


# -- waking up, and a database that is away ------------------------------------------------------


def test_an_idle_worker_starts_a_request_at_a_notification(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It does not claim below its floor either: without a notification it sleeps for an hour.
    monkeypatch.setattr(receiver_state, "FLOOR_DROPPED", 0.0)
    with working(store, poll=HOUR) as (_, emitted):
        for _ in range(3):
            emitted.first(WorkerIdle, lambda event: event.announced)
            put(store, "ok")
            emitted.first(Finished)


def test_an_idle_worker_starts_a_request_when_it_becomes_due(store: Store) -> None:
    with working(store, poll=HOUR) as (_, emitted):
        put(store, "ok", delay=timedelta(seconds=0.3))
        emitted.first(Finished)


def test_a_worker_that_lost_its_listener_connects_again(store: Store, sql: Sql) -> None:
    with working(store, poll=HOUR) as (_, emitted):
        emitted.first(WorkerIdle)
        sql(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        emitted.first(WorkerIdle)
        put(store, "ok")
        emitted.first(Finished)


def test_a_store_that_was_closed_keeps_no_connection_that_was_in_use(store: Store) -> None:
    assert isinstance(store, PostgresStore)
    with store.connection() as used:
        store.close()
        used.execute("select 1")
    assert used.closed


@pytest.mark.parametrize(
    ("away", "back", "says"),
    [
        ("allow_connections false", "allow_connections true", "not currently accepting"),
        # In a failover the old server is away like this, until its address is that of the new one.
        (
            "set default_transaction_read_only = on",
            "reset default_transaction_read_only",
            "read-only",
        ),
    ],
    ids=["gone", "read-only"],
)
def test_a_task_continues_while_the_database_is_away_and_its_outcome_arrives_later(
    server_dsn: str, store: Store, gate: Path, away: str, back: str, says: str
) -> None:
    import psycopg

    put(store, {"do": "wait", "gate": str(gate)})
    with (
        psycopg.connect(server_dsn, autocommit=True) as admin,
        working(store) as (_, emitted),
    ):
        emitted.first(Started)
        name = store.where.rpartition("/")[2]
        admin.execute(f"alter database {name} {away}")
        store.close()  # no call that begins from here on gets a connection of before the change
        open_gate(gate)
        emitted.first(StoreLost, lambda event: says in event.error)
        admin.execute(f"alter database {name} {back}")
        emitted.first(StoreRecovered)
        emitted.first(Finished)


def test_a_task_is_killed_before_its_lease_ends_when_the_database_stays_away(
    server_dsn: str, store: Store, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    # A second earlier, because signals may arrive late on a busy machine.
    monkeypatch.setattr(leases, "LEASE_MARGIN_SHARE", 1.0)
    put(store, {"do": "wait", "gate": str(gate)})
    with (
        psycopg.connect(server_dsn, autocommit=True) as admin,
        working(store, lease=SHORT_LEASE) as (_, emitted),
    ):
        lease = emitted.first(Started).request
        name = store.where.rpartition("/")[2]
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name]
        )
        died = emitted.first(ChildDied)
        ((over,),) = admin.execute("select clock_timestamp() >= %s", [lease.lock_expires_time])
        assert "could not be renewed" in died.how
        admin.execute(f"alter database {name} allow_connections true")
        again = emitted.first(Started).request
        assert again.request_id == lease.request_id
        assert again.lock_token > lease.lock_token
        assert not over
        open_gate(gate)
        emitted.first(Finished)


def test_the_progress_of_a_running_task_can_be_read(store: Store, gate: Path, sql: Sql) -> None:
    (request_id,) = put(store, {"do": "report", "gate": str(gate)})
    with working(store, lease=SHORT_LEASE) as (_, emitted):
        token = emitted.first(Started).request.lock_token
        assert emitted.first(ProgressKept).count == 1
        found = sql("select request_id, lock_token, fraction, note from rowlease.progress")
        assert found == [(request_id, token, 0.25, "a quarter")]
        open_gate(gate)
        emitted.first(Finished)


def test_a_running_task_is_asked_to_stop_when_the_worker_drains(store: Store, sql: Sql) -> None:
    put(store, "obey", max_attempts=1)
    with working(store) as (worker, emitted):
        emitted.first(Started)
        worker.stop()
        emitted.first(Failed)
    assert statuses(sql) == {"Failed": 1}


# -- what is refused at the start ----------------------------------------------------------------


def test_an_unknown_queue_ends_the_worker_with_a_message(store: Store) -> None:
    with pytest.raises(InvalidRequest, match='queue "nowhere" does not exist'):
        drain(store, queues=["nowhere"])


def test_a_task_that_children_cannot_import_is_refused(store: Store) -> None:
    @task
    def local() -> None: ...

    with pytest.raises(ConfigError, match="move it to the top level of a module"):
        Worker(store, [local])


def test_the_error_of_an_import_in_a_child_is_shown(dsn: str, tmp_path: Path) -> None:
    module = tmp_path / "only_once.py"
    module.write_text(
        "import os\nfrom rowlease import task\n"
        "assert 'SEEN' not in os.environ, 'imported twice'\nos.environ['SEEN'] = '1'\n"
        "@task\ndef one(): pass\n"
    )
    code = (
        f"import sys; sys.path[:] = [{str(tmp_path)!r}, *{sys.path!r}]\n"
        "from rowlease.worker import Worker; Worker(sys.argv[1], 'only_once').run()"
    )
    ended = subprocess.run([sys.executable, "-c", code, dsn], capture_output=True, text=True)
    assert "could not import the tasks: AssertionError: imported twice" in ended.stderr


def test_tasks_of_the_main_script_can_be_run(dsn: str, tmp_path: Path, store: Store) -> None:
    script = tmp_path / "app.py"
    script.write_text(
        "import sys\nfrom rowlease import task\nfrom rowlease.worker import Worker\n"
        "_, dsn, factor = sys.argv\n"  # a child sees what the script was called with
        "@task\ndef times(x): return int(factor) * x\n"
        "if __name__ == '__main__':\n"
        "    print(Worker(dsn, [times], burst=True).run())\n"
    )
    put(store, {"x": 21}, kind="times")
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), dsn, "2"]
    ended = subprocess.run(command, capture_output=True, text=True, env=path)
    assert ended.stdout.startswith("1 finished"), ended.stderr


def test_a_script_that_starts_a_worker_in_its_children_is_told_so(
    dsn: str, tmp_path: Path, store: Store
) -> None:
    script = tmp_path / "app.py"
    script.write_text(
        "import sys\nfrom rowlease import Worker, task\n"
        "@task\ndef ping(): pass\n"
        "Worker(sys.argv[1], [ping], burst=True, concurrency=1).run()\n"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), dsn]
    ended = subprocess.run(command, capture_output=True, text=True, env=path)
    assert ended.returncode == 1
    assert "begin what only the program itself must do with `if __name__" in ended.stderr
    assert "ModuleNotFoundError" not in ended.stderr


def test_a_registry_is_accepted(store: Store) -> None:
    assert (
        Worker(store, Registry([act]), burst=True, concurrency=1, events=Events()).run().claimed
        == 0
    )
