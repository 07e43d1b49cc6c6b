"""Promise 2: at least once, never lost."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy.orm import Session as OrmSession

from rowlease.errors import (
    ConfigError,
    InvalidRequest,
    LeaseLost,
    QueueFull,
    RoutineError,
    StoreUnavailable,
)
from rowlease.model import Failure, Held, LeasedRequest, NewRequest, Outcome
from rowlease.store.routines import load_routines
from tests.contexts import context_of
from tests.contract.sessions import Clock, PostgresSession, Session

MICROSECOND = timedelta(microseconds=1)
AT_ONCE = Failure("x", after=timedelta(0))

# -- receipts ------------------------------------------------------------------------------------


def test_a_repeated_enqueue_answers_with_the_ids_of_the_first(store: Session) -> None:
    (live,) = store.put(dedup_key="k")
    requests = [
        NewRequest(kind="new"),
        NewRequest(kind="duplicate", dedup_key="k"),
        NewRequest(kind="first", dedup_key="twice"),
        NewRequest(kind="second", dedup_key="twice"),
    ]
    first = store.enqueue_many("default", requests, receipt_key="call")
    assert [answer.outcome for answer in first] == ["ok", "duplicate", "ok", "duplicate"]
    assert first[1].request_id == live
    assert first[3].request_id == first[2].request_id
    before = store.everything()
    again = store.enqueue_many("default", requests, receipt_key="call")
    assert [answer.request_id for answer in again] == [answer.request_id for answer in first]
    assert {answer.outcome for answer in again} == {Outcome.REPEAT}
    assert store.everything() == before


def test_a_repeated_enqueue_is_known_even_when_its_requests_are_finished(store: Session) -> None:
    first = store.enqueue_many("default", [NewRequest(kind="a")], receipt_key="call")
    store.complete(store.claim())
    again = store.enqueue_many("default", [NewRequest(kind="a")], receipt_key="call")
    assert again == [first[0]._replace(outcome=Outcome.REPEAT)]
    assert store.rows("queue", "request_id") == []


@pytest.mark.parametrize("keyed", [False, True], ids=["without keys", "with keys"])
def test_texts_arrive_as_they_were_sent_and_answers_in_their_order(
    store: Session, keyed: bool
) -> None:
    texts = [
        "NULL",
        'say "a"',
        "back\\slash",
        '\\"',
        "{a,b}",
        "a, b",
        " a",
        "'",
        "ä€😀\n\t",
    ]
    requests = [
        NewRequest(
            kind=text,
            payload=json.dumps({"text": text}, ensure_ascii=bool(place % 2)),
            dedup_key=text if keyed else None,
        )
        for place, text in enumerate(texts)
    ]
    answers = store.enqueue_many("default", requests)
    assert [answer.outcome for answer in answers] == [Outcome.OK] * len(texts)
    leased = {each.request_id: each for each in store.claim(limit=len(texts))}
    for request, answer in zip(requests, answers, strict=True):
        assert answer.request_id
        found = leased[answer.request_id]
        assert (found.kind, found.payload) == (request.kind, request.payload)


def test_a_receipt_with_a_blank_at_its_end_is_not_another_one(store: Session) -> None:
    store.enqueue_many("default", [NewRequest(kind="a")], receipt_key="call")
    with pytest.raises(InvalidRequest, match="ends in a blank"):
        store.enqueue_many("default", [NewRequest(kind="a")], receipt_key="call ")


def test_an_empty_call_has_a_receipt_too(store: Session) -> None:
    assert store.enqueue_many("default", [], receipt_key="call") == []
    assert store.enqueue_many("default", [], receipt_key="call") == []


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_two_calls_with_one_key_at_once_enqueue_once(
    store: Session, another: Callable[[], Session], ending: str
) -> None:
    def enqueue(session: Session) -> Any:
        requests = [NewRequest(kind="a"), NewRequest(kind="b")]
        return session.enqueue_many("default", requests, receipt_key="call")

    one, two = store, another()
    one.begin()
    first = enqueue(one)
    second = two.waiting(lambda: enqueue(two))
    getattr(one, ending)()
    answers = second.result()
    if ending == "commit":
        assert [answer.request_id for answer in answers] == [answer.request_id for answer in first]
    assert {answer.outcome for answer in answers} == {"repeat" if ending == "commit" else "ok"}
    assert store.rows("queue", "request_id", "kind") == [
        (answers[0].request_id, "a"),
        (answers[1].request_id, "b"),
    ]


def test_a_call_that_enqueued_nothing_leaves_its_key_unused(store: Session) -> None:
    store.configure_queue("default", capacity=1)
    two = [NewRequest(kind="a"), NewRequest(kind="b")]
    with pytest.raises(QueueFull):
        store.enqueue_many("default", two, receipt_key="call")
    with pytest.raises(InvalidRequest):
        store.enqueue_many("default", [NewRequest(kind="")], receipt_key="call")
    store.put()
    (waits,) = store.enqueue_many("default", two[:1], receipt_key="call", wait=timedelta(seconds=1))
    assert waits.outcome == Outcome.FULL
    store.complete(store.claim())
    (answer,) = store.enqueue_many(
        "default", two[:1], receipt_key="call", waiter_id=waits.request_id
    )
    assert answer.outcome == Outcome.OK


def test_a_receipt_is_kept_for_a_day(store: Session, clock: Clock) -> None:
    def enqueue() -> Outcome:
        (answer,) = store.enqueue_many("default", [NewRequest(kind="a")], receipt_key="call")
        return answer.outcome

    enqueue()
    clock.advance(hours=24)
    store.maintain()
    assert enqueue() == Outcome.REPEAT
    clock.advance(seconds=1)
    store.maintain()
    assert enqueue() == Outcome.OK


def test_one_bad_request_refuses_its_whole_call(store: Session) -> None:
    with pytest.raises(InvalidRequest, match="priority"):
        store.enqueue_many("default", [NewRequest(kind="a"), NewRequest(kind="b", priority=-1)])
    with pytest.raises(InvalidRequest, match="JSON"):
        store.enqueue_many("default", [NewRequest(kind="a"), NewRequest(kind="b", payload="{")])
    assert store.everything() == []


def test_the_short_form_for_one_request_is_the_same_way_in(store: Session, clock: Clock) -> None:
    def enqueue() -> list[Any]:
        return store._call(
            "enqueue",
            p_queue_name="default",
            p_kind="a",
            p_payload='{"n": 1}',
            p_priority=300,
            p_delay_ms=1000,
            p_dedup_key="k",
            p_group_key="g",
            p_max_attempts=2,
            p_retry_base_ms=5,
            p_receipt_key="call",
        )

    ((request, outcome, requested),) = enqueue()
    assert (outcome, enqueue()) == ("ok", [(request, "repeat", requested)])
    row = store.row(request)
    assert row["requested_time"] == datetime(1970, 1, 1, tzinfo=UTC) + requested * MICROSECOND
    assert (row["status"], row["due_time"] - clock.now) == ("Scheduled", timedelta(seconds=1))
    assert (row["priority"], row["max_attempts"], row["retry_base_ms"]) == (9, 2, 5)
    assert (row["payload"], row["dedup_key"], row["group_key"]) == ({"n": 1}, "k", "g")


# -- a claim whose answer was lost ---------------------------------------------------------------


def test_leases_that_a_worker_does_not_know_are_disowned(store: Session, clock: Clock) -> None:
    store.configure_queue("other")
    store.put(6)
    store.put(queue="other")
    known = store.claim("one", 2)
    others = store.claim("two")
    lost = [*store.claim("one", 2), *store.dequeue("one", ["other"], 1).requests]
    before = [store.row(one.request_id) for one in (*known, *others)]
    clock.advance(seconds=1)
    answers = store.disown("one", ["default", "other"], known)
    assert sorted(answers) == [(one.request_id, Outcome.OK) for one in lost]
    for one in lost:
        row = store.row(one.request_id)
        assert (row["status"], row["num_attempts"], row["num_crashes"]) == ("Pending", 0, 0)
    assert [store.row(one.request_id) for one in (*known, *others)] == before
    assert store.depth() == store.counted()
    assert [one.request_id for one in store.claim("two", 9)] == [
        *(one.request_id for one in lost[:2]),
        others[0].request_id + 3,
    ]
    assert store.disown("one", ["default", "other"], known) == []
    assert store.complete(known) == [Outcome.OK] * 2


def test_only_the_queues_that_are_named_are_looked_at(store: Session) -> None:
    store.configure_queue("other")
    store.put(queue="other")
    store.dequeue("one", ["other"], 1)
    assert store.disown("one", ["default"], []) == []


def test_an_older_lease_of_a_request_that_is_held_does_not_count_as_the_present_one(
    store: Session,
) -> None:
    store.put()
    older = store.claim("one")
    store.abandon(older)
    (lost,) = store.claim("one")
    assert store.disown("one", ["default"], older) == [(lost.request_id, Outcome.OK)]


def test_an_outcome_that_arrives_first_is_not_disowned(
    store: Session, another: Callable[[], Session]
) -> None:
    store.put()
    (held,) = store.claim("one")
    two = another()
    store.begin()
    store.complete([held], ["1"])
    handing_back = two.waiting(lambda: two.disown("one", ["default"], []))
    store.commit()
    assert handing_back.result() == [(held.request_id, Outcome.REPEAT)]
    assert store.row(held.request_id)["status"] == "Complete"


def test_ids_and_tokens_that_do_not_fit_disown_nothing(store: Session) -> None:
    store.put()
    (held,) = store.claim("one")
    with pytest.raises(RoutineError, match="arrays must have the same length"):
        store._call(
            "disown",
            p_worker_id="one",
            p_queue_names=["default"],
            p_request_ids=[held.request_id],
            p_lock_tokens=[],
        )
    assert store.row(held.request_id)["locked_by"] == "one"


# -- in the caller's transaction -----------------------------------------------------------------


class Caller:
    """A connection of the caller's own, and how its library ends a transaction."""

    def __init__(self, connection: Any, run: Callable[[str], Any]) -> None:
        self.connection = connection
        self.run = run


@contextmanager
def of_the_driver(store: Session) -> Iterator[Caller]:
    connection = store.driver_connection()
    yield Caller(connection, connection.execute)
    with suppress(Exception):  # an error may have closed it
        connection.close()


@contextmanager
def sqlalchemy_connection(store: Session) -> Iterator[Caller]:
    engine = store.sqlalchemy_engine()
    with engine.connect() as connection:
        yield Caller(connection, lambda text: connection.execute(sa.text(text)))
    engine.dispose()


@contextmanager
def sqlalchemy_session(store: Session) -> Iterator[Caller]:
    engine = store.sqlalchemy_engine()
    with OrmSession(engine) as session:
        yield Caller(session, lambda text: session.execute(sa.text(text)))
    engine.dispose()


@pytest.fixture(params=[of_the_driver, sqlalchemy_connection, sqlalchemy_session])
def caller(request: pytest.FixtureRequest, store: Session) -> Iterator[Caller]:
    with request.param(store) as opened:
        yield opened


def test_after_an_error_nothing_of_the_callers_transaction_is_committed(
    store: Session, caller: Caller
) -> None:
    store.execute("create table effects (note varchar(10))")
    caller.run("insert into effects values ('before')")
    with pytest.raises(InvalidRequest) as raised:
        store.enqueue_many("nowhere", [NewRequest(kind="a")], connection=caller.connection)
    if store.ends_transactions:
        assert "your transaction was rolled back" in str(raised.value)
    # PostgreSQL rolls back here, and SQL Server's driver has no connection any more.
    with suppress(Exception):
        caller.run("insert into effects values ('after')")
    with suppress(Exception):
        caller.connection.commit()
    with suppress(Exception):
        caller.connection.rollback()
    assert store.execute("select note from effects") == []
    store.execute("drop table effects")


def test_a_full_queue_does_not_end_the_callers_transaction(store: Session, caller: Caller) -> None:
    store.execute("create table effects (note varchar(10))")
    store.configure_queue("default", capacity=1)
    caller.run("insert into effects values ('before')")
    two = [NewRequest(kind="a")] * 2
    with pytest.raises(QueueFull, match='"default" is full: 2 more cannot fit; wait for workers'):
        store.enqueue_many("default", two, receipt_key="x", connection=caller.connection)
    caller.run("insert into effects values ('after')")
    store.enqueue_many("default", two[:1], receipt_key="x", connection=caller.connection)
    caller.connection.commit()
    assert len(store.execute("select note from effects")) == 2
    assert [status for (status,) in store.rows("queue", "status")] == ["Pending"]
    store.execute("drop table effects")


def test_an_enqueue_is_part_of_the_callers_transaction(store: Session, caller: Caller) -> None:
    request = [NewRequest(kind="a")]
    store.enqueue_many("default", request, receipt_key="call", connection=caller.connection)
    assert store.rows("queue", "kind") == []
    caller.connection.rollback()
    assert store.everything() == []
    (answer,) = store.enqueue_many(
        "default", request, receipt_key="call", connection=caller.connection
    )
    assert answer.outcome == Outcome.OK
    caller.connection.commit()
    assert store.rows("queue", "kind") == [("a",)]
    assert [counts[2:] for counts in store.depth()] == [(0, 1, 0, 0)]


def test_a_completion_is_part_of_the_callers_transaction(store: Session, caller: Caller) -> None:
    store.execute("drop table if exists effects")
    store.execute("create table effects (request_id bigint)")
    store.put()
    (held,) = store.claim()

    def work() -> list[Outcome]:
        caller.run(f"insert into effects values ({held.request_id})")
        return store.complete([held], ["1"], connection=caller.connection)

    assert work() == [Outcome.OK]
    caller.connection.rollback()
    assert store.row(held.request_id)["status"] == "Processing"
    assert store.execute("select request_id from effects") == []

    assert work() == [Outcome.OK]
    caller.connection.commit()
    assert store.row(held.request_id)["status"] == "Complete"
    with pytest.raises(LeaseLost, match="this attempt has already completed it") as refused:
        work()
    assert (refused.value.request_id, refused.value.outcome) == (held.request_id, "repeat")
    caller.connection.rollback()
    assert store.execute("select request_id from effects") == [(held.request_id,)]
    store.execute("drop table effects")


def test_a_late_completion_in_the_callers_transaction_is_an_error(
    store: Session, clock: Clock, caller: Caller
) -> None:
    store.put(2)
    late, other = store.claim("one", 2)
    clock.advance(seconds=31)
    (held, _) = store.claim("two", 2)
    with pytest.raises(LeaseLost, match="roll this transaction back") as refused:
        store.complete([held, other], connection=caller.connection)
    assert (refused.value.request_id, refused.value.outcome) == (other.request_id, "lease_lost")
    caller.connection.rollback()
    assert store.row(held.request_id)["status"] == "Processing"
    with pytest.raises(LeaseLost, match="holds no such request"):
        store.complete([Held(10**9, late.lock_token)], connection=caller.connection)


def test_a_task_completes_its_request_on_a_connection_of_its_own(
    store: Session, clock: Clock, caller: Caller
) -> None:
    store.execute("drop table if exists effects")
    store.execute("create table effects (request_id bigint)")
    store.put()
    (late,) = store.claim("one")
    clock.advance(seconds=31)
    (held,) = store.claim("two")

    def work(leased: LeasedRequest) -> None:
        caller.run(f"insert into effects values ({held.request_id})")
        context_of(leased).complete(caller.connection, {"pages": 3})

    with pytest.raises(LeaseLost) as refused:
        work(late)
    assert (refused.value.request_id, refused.value.outcome) == (held.request_id, "lease_lost")
    caller.connection.rollback()
    work(held)
    assert store.row(held.request_id)["status"] == "Processing"
    caller.connection.rollback()
    work(held)
    caller.connection.commit()
    assert store.execute("select request_id from effects") == [(held.request_id,)]
    assert store.row(held.request_id)["result"] == {"pages": 3}
    # The outcome that the worker reports afterwards is a repeat.
    assert store.complete([held], ["null"]) == [Outcome.REPEAT]
    assert store.row(held.request_id)["result"] == {"pages": 3}
    store.execute("drop table effects")


def test_where_each_statement_commits_by_itself_nothing_is_completed(store: Session) -> None:
    store.put()
    (held,) = store.claim()
    engine = store.sqlalchemy_engine(isolation_level="AUTOCOMMIT")
    with (
        closing(store.driver_connection()) as driver,
        engine.connect() as connection,
        OrmSession(engine) as session,
    ):
        driver.autocommit = True
        for wrong in (driver, connection, session):
            with pytest.raises(ConfigError, match="autocommit"):
                store.complete([held], connection=wrong)
            with pytest.raises(ConfigError, match="autocommit"):
                context_of(held).complete(wrong)
    engine.dispose()
    with pytest.raises(ConfigError, match="must be a"):
        context_of(held).complete(object())  # type: ignore[call-overload]
    assert store.row(held.request_id)["status"] == "Processing"


@pytest.mark.only_on("postgresql", why="SQL Server's driver has no connections for asyncio")
@pytest.mark.parametrize("library", ["psycopg", "connection", "session"])
def test_a_coroutine_completes_its_request_on_a_connection_of_its_own(
    store: Session, clock: Clock, library: str
) -> None:
    store.put()
    (late,) = store.claim("one")
    clock.advance(seconds=31)
    (held,) = store.claim("two")

    async def work() -> None:
        opened: Any
        if library == "psycopg":
            opened = await psycopg.AsyncConnection.connect(cast("PostgresSession", store).dsn)
        else:
            pytest.importorskip("greenlet", reason="sqlalchemy[asyncio] is not installed")
            asynchronous = importlib.import_module("sqlalchemy.ext.asyncio")
            engine = asynchronous.create_async_engine(
                store.sqlalchemy_engine().url, poolclass=sa.NullPool
            )
            session = asynchronous.AsyncSession(engine)
            opened = engine.connect() if library == "connection" else session
        async with opened as connection:
            with pytest.raises(LeaseLost):
                await context_of(late).complete(connection)
            await connection.rollback()
            await context_of(held).complete(connection, [1, 2])
            assert store.row(held.request_id)["status"] == "Processing"
            await connection.rollback()
            await context_of(held).complete(connection, [1, 2])
            await connection.commit()
            with pytest.raises(LeaseLost, match="already completed"):
                await context_of(held).complete(connection, [1, 2])
            await connection.rollback()
            if library == "psycopg":
                await connection.set_autocommit(True)
                with pytest.raises(ConfigError, match="autocommit"):
                    await context_of(held).complete(connection, [1, 2])

    asyncio.run(work())
    assert store.row(held.request_id)["result"] == [1, 2]


@pytest.mark.only_on("postgresql", why="psycopg alone lets a connection say what rows are")
def test_what_a_connection_makes_of_rows_does_not_matter(store: Session) -> None:
    store.put(2)
    first, second = store.claim(limit=2)
    with closing(store.driver_connection()) as connection:
        connection.row_factory = dict_row
        connection.cursor_factory = psycopg.RawCursor
        context_of(first).complete(connection)
        assert store.complete([second], connection=connection) == [Outcome.OK]
        (added,) = store.enqueue_many("default", [NewRequest(kind="b")], connection=connection)
        connection.commit()
    assert added.outcome == Outcome.OK
    assert store.row(first.request_id)["status"] == "Complete"


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_callers_isolation_level_makes_no_difference_to_what_is_kept(
    store: Session, level: str
) -> None:
    with closing(store.driver_connection()) as connection:
        connection.execute(f"set transaction isolation level {level}")
        (added,) = store.enqueue_many("default", [NewRequest(kind="a")], connection=connection)
        connection.commit()
        (held,) = store.claim()
        assert held.request_id == added.request_id
        connection.execute(f"set transaction isolation level {level}")
        assert store.complete([held], connection=connection) == [Outcome.OK]
        with pytest.raises(LeaseLost, match="already completed"):
            store.complete([held], connection=connection)
        connection.commit()
    assert store.row(held.request_id)["status"] == "Complete"


@pytest.mark.only_on("postgresql", why="a database of SQL Server has no default level to set")
def test_the_databases_default_isolation_level_is_not_taken(
    store: Session, another: Callable[[], Session]
) -> None:
    ((database,),) = store.execute("select current_database()")
    store.execute(f"alter database {database} set default_transaction_isolation = 'serializable'")
    one, two = another(), another()
    store.execute(f"alter database {database} reset default_transaction_isolation")
    one.put()
    held = one.claim()
    one.begin()
    one.abandon(held)
    late = two.waiting(lambda: two.complete(held))
    one.commit()
    assert late.result() == [Outcome.REPEAT]


def test_what_is_not_a_connection_is_refused_before_anything_is_done(store: Session) -> None:
    with pytest.raises(ConfigError, match="not int"):
        store.enqueue_many("default", [NewRequest(kind="a")], connection=1)
    assert store.everything() == []


# -- a request leaves the queue only by complete, cancel and purge ---------------------------------


#: Those that delete, and what `complete`, `cancel` and `purge` have them do it.
REMOVERS = {
    "postgresql": {"complete", "complete_one", "cancel_requests", "purge_requests"},
    "sqlserver": {"complete_held", "take_out", "purge_found"},
}


def test_no_other_routine_deletes_from_the_queue(engine: str) -> None:
    # T-SQL deletes by the alias q, which is always the queue.
    removes = re.compile(
        r"(delete\s+from|truncate(\s+table)?)\s+rowlease\.queue\b|delete\s+q\b", re.IGNORECASE
    )
    found = {
        name for name, routine in load_routines(engine).items() if removes.search(routine.body)
    }
    assert found == REMOVERS[engine]


def test_whatever_else_is_done_to_them_no_request_is_lost(store: Session, clock: Clock) -> None:
    store.configure_queue("default", max_attempts=2, max_crashes=2)
    ids = store.put(8) + store.put(2, delay=timedelta(minutes=5)) + store.put(2, group_key="g")
    floor = None
    for turn in range(40):
        claim = store.dequeue(f"worker {turn}", ["default"], 3, slots=2, floor=floor)
        floor = claim.floor
        match turn % 5:
            case 0:
                store.fail(claim.requests, [AT_ONCE] * len(claim.requests))
            case 1:
                store.abandon(claim.requests)
            case 2:
                store.renew(claim.requests)
                store.operate("requeue", queue="default", limit=2)
            case 3:
                failed = [(held, Failure("x", dead=True)) for held in claim.requests]
                store.exchange("other", ["default"], 1, failed=failed)
            case _:
                store.pause("default")
                store.resume("default")
        clock.advance(seconds=turn)
        store.maintain()
        assert store.rows("requests", "request_id") == [(id,) for id in sorted(ids)]
    assert sum(sum(counts[2:]) for counts in store.depth()) == len(ids)


def test_a_request_behind_a_duplicate_of_its_group_is_not_forgotten(store: Session) -> None:
    store.put(dedup_key="k")
    store.claim()
    answers = store.enqueue_many(
        "default",
        [
            NewRequest(kind="first", group_key="g", dedup_key="k"),
            NewRequest(kind="second", group_key="g"),
            NewRequest(kind="third", group_key="g"),
        ],
    )
    assert [answer.outcome for answer in answers] == ["duplicate", "ok", "ok"]
    assert [held.kind for held in store.claim(limit=9)] == ["second"]


def test_a_request_whose_queues_settings_are_gone_is_not_lost(store: Session) -> None:
    store.configure_queue("old")
    done, dropped = store.put(2, queue="old")
    (held,) = store.dequeue("one", ["old"], 1).requests
    assert held.request_id == done
    store.remove("queue_settings", queue_name="old")
    assert store.complete([held]) == [Outcome.OK]
    assert store.cancel([dropped]) == [Outcome.OK]
    assert store.rows("queue_history", "request_id", "status") == [
        (done, "Complete"),
        (dropped, "Cancelled"),
    ]


# -- a connection cut at every step ----------------------------------------------------------------

#: A life of a request, step by step. Each step takes the session it is made on and what the last
#: one answered, and may be made again.
STEPS: dict[str, Callable[[Session, Clock, Any], Any]] = {}


def step(make: Callable[[Session, Clock, Any], Any]) -> Callable[[Session, Clock, Any], Any]:
    STEPS[make.__name__] = make
    return make


@step
def enqueue(store: Session, clock: Clock, last: Any) -> None:
    store.enqueue_many("default", [NewRequest(kind="a")] * 2, receipt_key="call")


@step
def dequeue(store: Session, clock: Clock, last: Any) -> list[LeasedRequest]:
    return store.claim(limit=2)


@step
def fail(store: Session, clock: Clock, last: list[LeasedRequest]) -> None:
    assert set(store.fail(last, [AT_ONCE] * 2)) <= {Outcome.OK, Outcome.REPEAT}


@step
def dequeue_again(store: Session, clock: Clock, last: Any) -> list[LeasedRequest]:
    return store.claim(limit=2)


@step
def renew(store: Session, clock: Clock, last: list[LeasedRequest]) -> list[LeasedRequest]:
    assert {answer.outcome for answer in store.renew(last)} == {Outcome.OK}
    return last


@step
def exchange(store: Session, clock: Clock, last: list[LeasedRequest]) -> list[LeasedRequest]:
    done = [(last[0], None)]
    given_up = [(last[1], Failure("x", dead=True))]
    answer = store.exchange("one", ["default"], 1, completed=done, failed=given_up)
    assert {*answer.completed, *answer.failed} <= {Outcome.OK, Outcome.REPEAT}
    return last


@step
def requeue(store: Session, clock: Clock, last: list[LeasedRequest]) -> None:
    store.requeue([last[1].request_id])


@step
def dequeue_once_more(store: Session, clock: Clock, last: Any) -> list[LeasedRequest]:
    return store.claim(limit=2)


@step
def complete(store: Session, clock: Clock, last: list[LeasedRequest]) -> None:
    assert set(store.complete(last)) <= {Outcome.OK, Outcome.REPEAT}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("when", ["before its commit", "before its answer"])
def test_a_connection_cut_at_any_step_loses_nothing_and_doubles_nothing(
    store: Session, another: Callable[[], Session], clock: Clock, name: str, when: str
) -> None:
    answer: Any = None
    cut = another()
    for step_name, make in STEPS.items():
        if step_name == name:
            if when == "before its commit":
                cut.begin()
            make(cut, clock, answer)
            cut.kill()
            with pytest.raises(StoreUnavailable):
                make(cut, clock, answer)
            if isinstance(made := make(store, clock, answer), list) and not made:
                # The answer that got lost was a lease: it runs out.
                clock.advance(seconds=31)
                made = make(store, clock, answer)
            answer = made
        else:
            answer = make(store, clock, answer)
    assert [row for (row,) in store.rows("queue_history", "status")] == ["Complete"] * 2
    assert store.rows("queue", "request_id") == []
    assert store.depth() == []


@pytest.mark.parametrize("word", ["complete", "fail", "abandon", "cancel"])
def test_a_connection_cut_while_it_waits_for_a_lock_has_done_nothing(
    store: Session, another: Callable[[], Session], word: str
) -> None:
    (request,) = store.put()
    (held,) = store.claim()
    before = store.everything()
    store.begin()
    store.complete([held])
    calls: dict[str, Callable[[Session], Any]] = {
        "complete": lambda session: session.complete([held]),
        "fail": lambda session: session.fail([held], [AT_ONCE]),
        "abandon": lambda session: session.abandon([held]),
        "cancel": lambda session: session.cancel([request]),
    }
    two = another()
    call = two.waiting(lambda: calls[word](two))
    two.kill()
    with pytest.raises(StoreUnavailable):
        call.result()
    store.rollback()
    assert store.everything() == before
    assert store.complete([held]) == [Outcome.OK]


# -- history ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_history_keeps_what_the_queue_knew(store: Session, clock: Clock, end: str) -> None:
    (request,) = store.put(
        payload='{"n": 1}',
        priority=3,
        dedup_key="k",
        group_key="g",
        max_attempts=7,
        retry_base=timedelta(milliseconds=5),
    )
    store.claim(slots=0)
    clock.advance(seconds=31)
    store.claim()
    clock.advance(seconds=31)
    (held,) = store.claim()
    store.abandon([held])
    if end == "complete":
        (held,) = store.claim("two")
        store.cancel([request])
    before = store.row(request)
    clock.advance(seconds=1)
    if end == "complete":
        assert store.complete([held], ['{"found": 2}']) == [Outcome.OK]
    else:
        assert store.cancel([request]) == [Outcome.OK]
    after = store.row(request)
    changed = {name for name in after if after[name] != before[name]}
    assert after["completion_time"] == clock.now
    assert after["num_crashes"] == 1
    assert "ran out" in after["last_error"]
    if end == "complete":
        assert changed == {"status", "completion_time", "result"}
        assert (after["status"], after["result"]) == ("Complete", {"found": 2})
        assert after["cancel_requested"]
    else:
        assert changed == {"status", "completion_time", "cancel_requested", "returned"}
        assert after["status"] == "Cancelled"


def test_without_history_payload_and_result_are_dropped_and_repeat_is_still_returned(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", keep_history=False)
    *done, dropped = store.put(4, payload='{"secret": 1}')
    held, *others = store.claim(limit=3)
    store.complete([held], ['{"secret": 2}'])
    store.complete(others, ['{"secret": 2}'] * 2)
    store.cancel([dropped])
    for request in (*done, dropped):
        row = store.row(request)
        assert (row["payload"], row["result"]) == (None, None)
    clock.advance(hours=23)
    store.maintain()
    assert store.complete([held]) == [Outcome.REPEAT]
    assert store.cancel([dropped]) == [Outcome.NOT_FOUND]


def test_a_request_can_be_completed_on_a_day_without_a_partition(
    store: Session, clock: Clock
) -> None:
    done: list[LeasedRequest] = []
    clock.advance(days=1000)  # away from the days that other tests have prepared

    def work() -> None:
        store.put()
        done.extend(store.claim())
        assert store.complete(done[-1:]) == [Outcome.OK]

    work()
    store.maintain()
    work()
    clock.advance(days=1)
    work()
    clock.advance(days=3)
    work()
    store.maintain()
    work()
    clock.advance(days=1)
    store.maintain()
    work()
    assert store.complete(done) == [Outcome.REPEAT] * 6
    assert len(store.rows("queue_history", "request_id")) == 6


def test_history_is_forgotten_after_its_retention_and_not_before(
    store: Session, clock: Clock
) -> None:
    store.configure_queue("default", retention_days=2)
    store.maintain()
    store.put(2)
    first = store.claim()
    store.complete(first)
    clock.advance(days=2)
    store.maintain()
    second = store.claim()
    store.complete(second)
    assert store.complete([*first, *second]) == [Outcome.REPEAT] * 2
    clock.advance(days=1)
    store.maintain()
    assert store.complete([*first, *second]) == [Outcome.NOT_FOUND, Outcome.REPEAT]


def test_the_last_owner_of_a_finished_request_is_known(store: Session) -> None:
    store.put()
    (held,) = store.claim("worker 7")
    store.complete([Held(held.request_id, held.lock_token)])
    assert store.rows("queue_history", "locked_by", "lock_token") == [("worker 7", held.lock_token)]
