"""An outcome that the database refuses ends its attempt; the worker and other requests continue."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rowlease.events import (
    ChildDied,
    Failed,
    Finished,
    OutcomeRefused,
    ProgressKept,
    ScheduleFired,
    Snoozed,
    StoreLost,
    StoreRecovered,
    WorkerIdle,
)
from rowlease.model import NewRequest
from rowlease.store import Store, migrate, open_store
from tests.acceptance.refused_tasks import (
    deep,
    euro,
    note,
    ok,
    ok_in_the_loop,
    stop_the_loop,
    write_into_pipes,
)
from tests.acceptance.workers import Sql, errors, working
from tests.conftest import in_database

TASKS = [ok, deep, euro, note, write_into_pipes]


def put(store: Store, *kinds: tuple[str, str], **options: Any) -> list[int]:
    options = {"max_attempts": 1, **options}
    requests = [NewRequest(kind=kind, payload=payload, **options) for kind, payload in kinds]
    return [answer.request_id or 0 for answer in store.enqueue_many("default", requests)]


@pytest.fixture
def latin1(server_dsn: str) -> Iterator[str]:
    """A database that lacks most characters."""
    name = f"rowlease_test_latin1_{os.getpid()}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        provider = "locale_provider libc" if connection.info.server_version >= 150_000 else ""
        connection.execute(
            f"create database {name} template template0 encoding 'LATIN1' {provider}"
            " lc_collate 'C' lc_ctype 'C'"
        )
        try:
            dsn = in_database(server_dsn, name)
            migrate(dsn)
            yield dsn
        finally:
            connection.execute(f"drop database {name} with (force)")


def test_a_result_that_is_nested_too_deep_fails_and_the_others_are_delivered(
    store: Store, sql: Sql
) -> None:
    first, poison, last = put(store, ("ok", "{}"), ("deep", "{}"), ("ok", "{}"))
    with working(store, TASKS) as (_, emitted):
        assert {emitted.first(Finished).request.request_id for _ in range(2)} == {first, last}
        printed = emitted.first(Failed)
    assert printed.request.request_id == poison
    assert "it is nested more than 500 levels deep" in errors(sql)[poison]


def test_a_character_that_the_encoding_lacks_fails_only_its_own_request(latin1: str) -> None:
    with closing(open_store(latin1)) as store, psycopg.connect(latin1, autocommit=True) as look:
        returned, raised, good = put(
            store, ("euro", '{"do": "return"}'), ("euro", '{"do": "raise"}'), ("ok", "{}")
        )
        with working(store, TASKS) as (_, emitted):
            assert emitted.first(Finished).request.request_id == good
            for _ in range(2):
                emitted.first(Failed)
        found: dict[int, str] = dict(
            look.execute("select request_id, last_error from rowlease.queue").fetchall()
        )
    assert found[returned].startswith("the database refused the result: a string has a character")
    assert found[raised] == "ValueError: 5 \\u20ac"


def test_a_reason_of_a_snooze_that_the_encoding_lacks_is_kept_escaped(latin1: str) -> None:
    with closing(open_store(latin1)) as store, psycopg.connect(latin1, autocommit=True) as look:
        put(store, ("euro", '{"do": "snooze"}'))
        with working(store, TASKS) as (_, emitted):
            emitted.first(Snoozed)
        reasons = look.execute("select outcome, error from rowlease.attempt").fetchall()
    assert reasons == [("snoozed", "5 \\u20ac")]


@pytest.mark.parametrize(
    ("text", "kept"), [("bad \0 note", "bad \N{REPLACEMENT CHARACTER} note"), ("\ud800", "?")]
)
def test_a_note_that_no_database_accepts_is_kept_escaped(
    text: str, kept: str, store: Store, sql: Sql, tmp_path: Any
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    put(store, ("note", f'{{"text": {json.dumps(json.dumps(text)[1:-1])}, "gate": "{gate}"}}'))
    with working(store, TASKS, lease=timedelta(seconds=1)) as (_, emitted):
        assert emitted.first(ProgressKept).count == 1
        assert sql("select note from rowlease.progress") == [(kept,)]
        gate.write_text("")
        emitted.first(Finished)


def test_a_note_that_the_encoding_lacks_is_kept_escaped(latin1: str, tmp_path: Any) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with closing(open_store(latin1)) as store, psycopg.connect(latin1, autocommit=True) as look:
        put(store, ("note", f'{{"text": "5 \\u20ac", "gate": "{gate}"}}'))
        with working(store, TASKS, lease=timedelta(seconds=1)) as (_, emitted):
            emitted.first(ProgressKept)
            found = look.execute("select note from rowlease.progress").fetchall()
            gate.write_text("")
            emitted.first(Finished)
    assert found == [("5 \\u20ac",)]


def test_an_outcome_that_is_refused_in_every_form_is_dropped_and_reported(latin1: str) -> None:
    with closing(open_store(latin1)) as store, psycopg.connect(latin1, autocommit=True) as look:
        look.execute(
            "create function public.refuse() returns trigger language plpgsql as $$ begin"
            " if new.last_error like 'the database refused%' then raise exception 'not even that';"
            " end if; return new; end $$;"
            "create trigger refuse before update on rowlease.queue"
            " for each row execute function public.refuse()"
        )
        poison, good = put(store, ("euro", '{"do": "return"}'), ("ok", "{}"))
        with working(store, TASKS) as (_, emitted):
            assert emitted.first(Finished).request.request_id == good
            printed = emitted.first(OutcomeRefused)
            assert printed.request.request_id == poison
            assert "not even that" in printed.error
            put(store, ("ok", "{}"))
            emitted.first(Finished)
        # It is still leased: the lease runs out, which counts as a crash.
        left = look.execute("select request_id, status from rowlease.queue").fetchall()
    assert left == [(poison, "Processing")]


@pytest.mark.parametrize(
    ("form", "mistake"),
    [
        ("no such code", "written into the pipe to its worker"),
        ("endless", "written into the pipe to its worker"),
        ("no number", "written into the pipe to its worker"),
        ("no text", "answered for another"),
        ("no seconds", "answered for another"),
    ],
)
def test_a_task_that_writes_into_the_pipe_ends_only_its_own_process(
    form: str, mistake: str, store: Store
) -> None:
    put(store, ("write_into_pipes", f'{{"form": "{form}"}}'), ("ok", "{}"))
    with working(store, TASKS) as (_, emitted):
        assert emitted.first(Finished, lambda event: event.request.kind == "ok")
        assert emitted.first(ChildDied).how == f"was killed because a task had {mistake}"


def test_an_event_loop_that_a_task_has_stopped_runs_on(store: Store) -> None:
    put(store, ("stop_the_loop", "{}"), ("ok_in_the_loop", "{}"))
    with working(store, [stop_the_loop, ok_in_the_loop], concurrency=2) as (_, emitted):
        assert {emitted.first(Finished).request.kind for _ in range(2)} == {
            "stop_the_loop",
            "ok_in_the_loop",
        }


@pytest.mark.parametrize(
    "time",
    ["-infinity", "infinity", "0001-01-01 00:00+00", "4000-01-01 BC", "9999-12-31 23:59:59+00"],
)
def test_a_time_that_was_set_by_hand_ends_no_worker(time: str, store: Store, sql: Sql) -> None:
    put_schedules(store, "odd", "plain")
    sql("update rowlease.schedule set next_time = %s where schedule_name = 'odd'", [time])
    sql(
        "update rowlease.schedule set next_time = date_trunc('minute', now())"
        " where schedule_name <> 'odd'"
    )
    put(store, ("ok", "{}"))
    sql("update rowlease.queue set requested_time = %s", [time])
    with working(store, TASKS) as (_, emitted):
        assert emitted.first(ScheduleFired, lambda event: event.schedule == "plain")
        for _ in range(2):
            emitted.first(Finished)


def test_a_routine_that_is_gone_for_a_moment_ends_no_worker(store: Store, sql: Sql) -> None:
    with working(store, TASKS) as (_, emitted):
        emitted.first(WorkerIdle)
        sql("alter routine rowlease.exchange rename to exchange_taken_away")
        put(store, ("ok", "{}"))
        assert "lacks an object of this version" in emitted.first(StoreLost).error
        sql("alter routine rowlease.exchange_taken_away rename to exchange")
        emitted.first(StoreRecovered)
        emitted.first(Finished)


def put_schedules(store: Store, *names: str) -> None:
    for name in names:
        store.put_schedule(name, "* * * * *", "ok")


@pytest.mark.parametrize("time", ["-infinity", "infinity"])
def test_a_lease_s_end_that_was_set_by_hand_stops_no_claim(
    time: str, store: Store, sql: Sql
) -> None:
    put(store, ("ok", "{}"))
    store.dequeue("gone", ["default"], 1)
    sql("update rowlease.queue set lock_expires_time = %s", [time])
    put(store, ("ok", "{}"))
    with working(store, TASKS) as (_, emitted):
        emitted.first(Finished)
