"""Bad input: every engine refuses it with the same message, which says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from rowlease.errors import (
    InvalidRequest,
    LoadDiffers,
    LoadLost,
    QueueFull,
    RoutineError,
    RowleaseError,
)
from rowlease.model import Held, NewRequest
from rowlease.store import Store
from rowlease.store.routines import packaged_folder
from tests.contract.sessions import Session

HELD = Held(1, 1)
LONG = "[" + "1," * 524_288 + "1]"
NO_QUEUE = (
    'queue "nowhere" does not exist; create it with `rowlease queue create nowhere`, '
    "or in SQL with rowlease.configure_queue"
)
HEADERS = "headers must be a JSON object of strings, of at most 8192 bytes"
LENGTHS = "request ids, lock tokens and the other arrays must have the same length"
DEQUEUE = (
    "dequeue needs a worker id, queues, a limit of 1 to 10000 and a lease of 100 to 86400000 ms"
)
WEIGHTS = (
    "policy_weights must be an array of non-negative numbers: the weights of priority 0, "
    "priority 1 and so on"
)
SCHEDULE = (
    "a schedule needs a name without a blank at its end, a cron expression of five fields (minute "
    "hour day month weekday) or six (the first for seconds), a time zone and a catch-up of 1 to "
    "1000 firings"
)
BLANK = "a name or key ends in a blank; leave the blank out"
RANGE = 'a setting of queue "default" is out of range'
FULL = (
    'queue "default" is full: 1 of 2 places are taken; 2 more cannot fit; wait for workers, or '
    "raise the capacity: rowlease queue set default capacity=3"
)
WAITED_FOR = (
    'queue "default" is full: 1 of 2 places are taken and 2 reserved; 1 more cannot fit; wait '
    "for workers, or raise the capacity: rowlease queue set default capacity=4"
)


class Bad(NamedTuple):
    """A call that every engine refuses.

    Attributes:
        code: of sql/README.md; empty if the store itself refuses.
        says: the message. After a colon an engine may have its own text.
    """

    code: str
    call: Callable[[Session], Any]
    error: type[RowleaseError]
    says: str


def enqueue(queue: str = "default", **fields: Any) -> Callable[[Store], Any]:
    return lambda store: store.enqueue_many(queue, [NewRequest(**{"kind": "a", **fields})])


def enqueue_two(**fields: Any) -> Callable[[Store], Any]:
    good = NewRequest(kind="a")
    return lambda store: store.enqueue_many(
        "default", [good, NewRequest(**{"kind": "a", **fields})]
    )


def dequeue(*arguments: Any, **options: Any) -> Callable[[Store], Any]:
    return lambda store: store.dequeue(*arguments, **options)


def configure(**settings: Any) -> Callable[[Store], Any]:
    return lambda store: store.configure_queue("default", **settings)


def promote(
    load_id: str = "x", queue: str = "default", count: int = 1, **row: Any
) -> Callable[[Session], Any]:
    def call(store: Session) -> Any:
        return store.promote(load_id, store.staged(load_id, [row], queue=queue), count)

    return call


def begin_for_another_queue(store: Session) -> Any:
    store.configure_queue("mail")
    store.begin_load("x", "mail", "one")
    return store.begin_load("x", "default", "two")


def begin_with_other_columns(store: Session) -> Any:
    run = store.begun("x", "one", "a")
    store.promote("x", run, 0)
    return store.begin_load("x", "default", "two", "b")


def enqueue_too_many(store: Session) -> Any:
    store.configure_queue("default", capacity=2)
    store.put()
    return store.put(2)


def enqueue_before_another(store: Session) -> Any:
    store.configure_queue("default", capacity=2)
    store.put()
    store.enqueue_many("default", [NewRequest(kind="a")] * 2, wait=timedelta(seconds=9))
    return store.put()


def enqueue_the_key_of_another_with_a_blank(store: Session) -> Any:
    store.put(dedup_key="order-7")
    return store.put(dedup_key="order-7 ")


def by_inbox_with_a_blank(store: Session) -> None:
    store.insert("inbox", queue_name="default", kind="a", dedup_key="order-7 ")


def complete_with(result: str) -> Callable[[Session], Any]:
    def call(store: Session) -> Any:
        store.put()
        return store.complete(store.claim(), [result])

    return call


def delete_in_use(store: Session) -> None:
    store.put()
    store.delete_queue("default")


REFUSED = [
    Bad("RL001", dequeue("one", ["default"], 0), RoutineError, DEQUEUE),
    Bad("RL001", dequeue("one", ["default"], 10_001), RoutineError, DEQUEUE),
    Bad("RL001", dequeue("", ["default"], 1), RoutineError, DEQUEUE),
    Bad("RL001", dequeue("one", ["default"], 1, lease=timedelta(0)), RoutineError, DEQUEUE),
    Bad("RL001", lambda s: s.exchange("one", ["default"], 10_001), RoutineError, DEQUEUE),
    Bad("RL001", lambda s: s.complete([HELD], ["1", "2"]), RoutineError, LENGTHS),
    Bad("RL001", lambda s: s.fail([HELD], []), RoutineError, LENGTHS),
    Bad("RL001", lambda s: s.renew([HELD], started=[]), RoutineError, LENGTHS),
    Bad("RL001", lambda s: s.purge(["Processing"]), RoutineError,
        "purge takes requests that are Scheduled, Pending, Failed, Complete, Cancelled"),
    Bad("RL002", enqueue("nowhere"), InvalidRequest, NO_QUEUE),
    Bad("RL002", dequeue("one", ["nowhere"], 1), InvalidRequest, NO_QUEUE),
    Bad("RL002", promote(queue="nowhere"), InvalidRequest, NO_QUEUE),
    Bad("RL002", lambda s: s.pause("nowhere"), InvalidRequest, NO_QUEUE),
    Bad("RL002", lambda s: s.resume("nowhere"), InvalidRequest, NO_QUEUE),
    Bad("RL002", lambda s: s.show_queue("nowhere"), InvalidRequest, NO_QUEUE),
    Bad("RL002", lambda s: s.delete_queue("nowhere"), InvalidRequest, NO_QUEUE),
    Bad("RL002", lambda s: s.depth("nowhere"), InvalidRequest, NO_QUEUE),
    Bad("RL002", lambda s: s.insert("inbox", queue_name="nowhere", kind="a"), InvalidRequest,
        NO_QUEUE),
    Bad("RL003", enqueue(priority=-40_000), InvalidRequest,
        "priority is -40000; it must be 0 or more, and bigger is more urgent"),
    Bad("RL003", enqueue(priority=-1), InvalidRequest,
        "priority is -1; it must be 0 or more, and bigger is more urgent"),
    Bad("RL003", enqueue_two(priority=-40_000), InvalidRequest,
        "priority is -40000; it must be 0 or more, and bigger is more urgent"),
    Bad("RL004", enqueue(payload=LONG), InvalidRequest,
        "payload is 1048579 bytes; the limit is 1048576. Store large data elsewhere and enqueue "
        "a reference"),
    Bad("RL004", enqueue_two(payload=LONG), InvalidRequest,
        "payload is 1048579 bytes; the limit is 1048576. Store large data elsewhere and enqueue "
        "a reference"),
    Bad("RL004", enqueue(payload='"' + "€" * 349_525 + '"'), InvalidRequest,
        "payload is 1048577 bytes; the limit is 1048576. Store large data elsewhere and enqueue "
        "a reference"),
    Bad("RL005", enqueue_too_many, QueueFull, FULL),
    Bad("RL005", enqueue_before_another, QueueFull, WAITED_FOR),
    Bad("RL006", enqueue(kind=""), InvalidRequest,
        "kind must be a task name of 1 to 200 characters"),
    Bad("RL006", enqueue(kind="x" * 201), InvalidRequest,
        "kind must be a task name of 1 to 200 characters"),
    Bad("RL006", enqueue_two(kind=""), InvalidRequest,
        "kind must be a task name of 1 to 200 characters"),
    Bad("RL006", promote(kind=""), InvalidRequest,
        "kind must be a task name of 1 to 200 characters"),
    Bad("RL007", enqueue(max_attempts=0), InvalidRequest,
        "max_attempts is 0; it must be 1 or more"),
    Bad("RL007", enqueue_two(max_attempts=0), InvalidRequest,
        "max_attempts is 0; it must be 1 or more"),
    Bad("RL008", promote(count=3), LoadDiffers,
        'load "x" has the wrong number of staged rows (1; expected: 3); write it again'),
    Bad("RL009", begin_for_another_queue, InvalidRequest,
        'load "x" belongs to queue "mail", not to "default"; use another load id'),
    Bad("RL009", begin_with_other_columns, InvalidRequest,
        'load "x" was enqueued from other columns: a, not b; use another load id'),
    Bad("RL010", configure(nonsense=1), InvalidRequest,
        'there is no setting "nonsense"; the settings are the columns of queue_settings'),
    Bad("RL010", configure(policy_weights=[1, "2"]), InvalidRequest, WEIGHTS),
    Bad("RL010", configure(policy_weights={"0": 1}), InvalidRequest, WEIGHTS),
    Bad("RL010", configure(policy="random"), InvalidRequest, RANGE),
    Bad("RL010", configure(max_priority=256), InvalidRequest, RANGE),
    Bad("RL010", configure(max_priority=10**9), InvalidRequest, RANGE),
    Bad("RL010", configure(max_attempts="many"), InvalidRequest, RANGE),
    Bad("RL010", configure(rate="0/1m"), InvalidRequest,
        f"{RANGE}: a rate is like 100/1m; to stop a queue, pause it"),
    Bad("RL010", configure(group_rate="0"), InvalidRequest,
        f"{RANGE}: a rate is like 100/1m; to stop a queue, pause it"),
    Bad("RL010", configure(lease_seconds=None), InvalidRequest, RANGE),
    Bad("RL013", lambda s: s.put_schedule("", "0 0 * * *", "a"), InvalidRequest, SCHEDULE),
    Bad("RL002", lambda s: s.put_schedule("nightly", "0 0 * * *", "a", queue="nowhere"),
        InvalidRequest, NO_QUEUE),
    Bad("RL014", lambda s: s.promote("x", 1, 0), LoadLost,
        'load "x" does not exist: it was not begun, or had no report for a day; begin it'),
    Bad("RL016", enqueue(headers="[]"), InvalidRequest, HEADERS),
    Bad("RL016", enqueue_two(headers='{"a": 1}'), InvalidRequest, HEADERS),
    Bad("RL016", promote(headers="[]"), InvalidRequest, HEADERS),
    Bad("RL017", lambda s: s.enqueue_many("default", [NewRequest(kind="a")], after="x"),
        InvalidRequest,
        'there is no batch "x" to wait for; enqueue its requests, or promote its load, first'),
    Bad("RL015", delete_in_use, InvalidRequest,
        'queue "default" cannot be deleted, because it has requests (1 waiting, 0 running, '
        "0 failed): purge or cancel them first"),
    Bad("22P02", enqueue(payload="{"), InvalidRequest, "a payload, result or header is not JSON"),
    Bad("22P02", complete_with("{"), InvalidRequest, "a payload, result or header is not JSON"),
    Bad("22P02", promote(payload="{"), InvalidRequest, "a payload, result or header is not JSON"),
    Bad("", enqueue(dedup_key="k" * 401), InvalidRequest, "a name or key is too long"),
    Bad("", enqueue(group_key="g" * 201), InvalidRequest, "a name or key is too long"),
    Bad("", enqueue(dedup_key="order-7 "), InvalidRequest, BLANK),
    Bad("", enqueue_two(group_key="customer "), InvalidRequest, BLANK),
    Bad("", enqueue(kind="resize "), InvalidRequest, BLANK),
    Bad("", promote(dedup_key="order-7 "), InvalidRequest, BLANK),
    Bad("", promote(kind="resize "), InvalidRequest, BLANK),
    Bad("", enqueue_the_key_of_another_with_a_blank, InvalidRequest, BLANK),
    Bad("", by_inbox_with_a_blank, InvalidRequest, BLANK),
    Bad("RL002", enqueue("default "), InvalidRequest, NO_QUEUE.replace("nowhere", "default ")),
    Bad("RL002", dequeue("one", ["default "], 1), InvalidRequest,
        NO_QUEUE.replace("nowhere", "default ")),
    Bad("RL010", lambda s: s.configure_queue("images "), InvalidRequest,
        "the name of a queue must not end in a blank"),
    Bad("RL001", lambda s: s.begin_load("x ", "default", "one"), RoutineError,
        "a load id has 1 to 100 characters and no blank at its end, and the name of its run has "
        "1 to 200"),
    Bad("RL013", lambda s: s.put_schedule("nightly ", "0 0 * * *", "a"), InvalidRequest, SCHEDULE),
    Bad("", enqueue(due_time=datetime(9999, 12, 31, 12, tzinfo=UTC)), InvalidRequest,
        "a due time is out of range; due times are from year 1 to 9999-12-31 in UTC"),
    Bad("", promote(due_time=datetime(9999, 12, 31, 12, tzinfo=UTC)), InvalidRequest,
        "a due time is out of range; due times are from year 1 to 9999-12-31 in UTC"),
    Bad("", promote(dedup_key="k" * 401), InvalidRequest, "a name or key is too long"),
    Bad("", enqueue(dedup_key="a\0b"), InvalidRequest,
        "a string has a character that the database refuses"),
]  # fmt: skip


@pytest.fixture(params=REFUSED, ids=lambda bad: f"{bad.code} {bad.says[:40]}".strip())
def bad(request: pytest.FixtureRequest) -> Bad:
    found: Bad = request.param
    return found


def test_bad_input_is_refused_in_the_same_sentence_everywhere(store: Session, bad: Bad) -> None:
    with pytest.raises(bad.error) as refused:
        bad.call(store)
    answered = str(refused.value)
    assert answered == bad.says or answered.startswith(f"{bad.says}: ")
    assert type(refused.value) is bad.error


def test_every_code_of_our_own_is_among_them() -> None:
    table = (packaged_folder("sql") / "README.md").read_text(encoding="utf-8")
    assert {bad.code for bad in REFUSED} >= set(re.findall(r"^\| `(RL\d{3})`", table, re.MULTILINE))


@pytest.mark.only_on("postgresql", why="there alone one request has a way of its own")
def test_more_payloads_than_kinds_are_refused(store: Session) -> None:
    with pytest.raises(InvalidRequest, match="kind must be a task name"):
        store._call("enqueue_many", p_queue_name="default", p_kinds=["a"], p_payloads=["{}", "{}"])


@pytest.mark.only_on("sqlserver", why="elsewhere lists are arrays")
def test_lists_of_a_caller_in_sql_may_have_blanks_and_line_ends(store: Session) -> None:
    store.put(2)
    done, failed = store.claim(limit=2)
    store.execute(
        "exec rowlease.exchange @p_worker_id = N'me', @p_queue_names = N' [\"default\"] ',"
        " @p_limit = 0,"
        f" @p_complete_ids = N' [ {done.request_id} ]\n',"
        f" @p_complete_tokens = N'[{done.lock_token}\n] ',"
        f" @p_fail_ids = N'[ {failed.request_id}] ', @p_fail_tokens = N' [{failed.lock_token}]',"
        " @p_errors = N'[\"no\"]'"
    )
    assert store.row(done.request_id)["status"] == "Complete"
    assert store.row(failed.request_id)["num_attempts"] == 1
