"""The audit: whatever an operator changes is a row of `operations`, with the operator's name.

tests/acceptance/test_cli_verbs.py and tests/dashboard/test_actions.py ask the same of commands
and of the dashboard.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from rowlease.errors import LoadLost
from rowlease.model import Begun, Outcome, StreamBatch
from tests.audited import CHANGES
from tests.contract.sessions import Clock, Session


class Case(NamedTuple):
    """A call that changes something.

    Attributes:
        filter: what it changes, as the audit names it.
        arguments: of the routine, without the actor.
        before: makes what it changes.
        verb: its verb in the audit; empty means the name of the routine.
    """

    filter: dict[str, Any]
    arguments: dict[str, Any]
    before: Callable[[Session], object] = lambda _: None
    verb: str = ""


def nightly(store: Session) -> None:
    store.put_schedule("nightly", "0 3 * * *", "clean_up")
    store.remove("operation", verb="put_schedule")


def paused_nightly(store: Session) -> None:
    nightly(store)
    store.pause_schedule("nightly")
    store.remove("operation", verb="pause_schedule")


def a_batch(store: Session) -> None:
    batch = StreamBatch("clicks", "q", 0)
    begun = store.begin_load(batch.load_id, "default", "one", batch=batch)
    assert isinstance(begun, Begun)
    store.promote(batch.load_id, begun.run_number, 0)
    store.maintain()


QUEUE, SCHEDULE = {"queue": "default"}, {"schedule": "nightly"}
OF_QUEUE, OF_SCHEDULE = {"p_queue_name": "default"}, {"p_schedule_name": "nightly"}
#: The calls, by routine.
CALLS = {
    "pause": Case(QUEUE, OF_QUEUE),
    "resume": Case(QUEUE, OF_QUEUE),
    "configure_queue": Case(QUEUE, {**OF_QUEUE, "p_settings": '{"capacity": 7}'}),
    "delete_queue": Case(QUEUE, OF_QUEUE),
    "recount": Case(QUEUE, OF_QUEUE),
    "discard_load": Case({"load_id": "mail"}, {"p_load_id": "mail"}, lambda s: s.begun("mail")),
    "forget_stream": Case({"stream": "clicks"}, {"p_stream_name": "clicks"}, a_batch),
    "put_schedule": Case(
        SCHEDULE, {**OF_SCHEDULE, "p_cron": "0 3 * * *", "p_kind": "clean_up"}
    ),
    "pause_schedule": Case(SCHEDULE, OF_SCHEDULE, nightly),
    "resume_schedule": Case(SCHEDULE, OF_SCHEDULE, paused_nightly),
    "fire_schedule": Case(SCHEDULE, OF_SCHEDULE, nightly),
    "remove_schedule": Case(SCHEDULE, OF_SCHEDULE, nightly),
    "enqueue_by_operator": Case(QUEUE, {**OF_QUEUE, "p_kind": "tidy"}, verb="enqueue"),
    "operate": Case(
        {"queue": "default", "status": ["Failed"]},
        {"p_verb": "purge", "p_filter": '{"queue": "default"}'},
        verb="purge",
    ),
}  # fmt: skip


@pytest.mark.parametrize("actor", ["ann", None])
@pytest.mark.parametrize("routine", CHANGES)
def test_a_change_is_in_the_audit_with_its_operator(
    routine: str, actor: str | None, store: Session
) -> None:
    case = CALLS[routine]
    case.before(store)
    with store.acting_as("operator"):
        store._call(routine, **case.arguments, p_actor=actor)
    ((verb, chosen, told, login, status),) = store.rows(
        "operations", "verb", "filter", "actor", "login", "status"
    )
    assert (verb, shown(chosen), told) == (case.verb or routine, case.filter, actor)
    assert login
    assert status == "Finished"


def test_what_changes_nothing_is_not_in_the_audit(store: Session) -> None:
    run = store.begun("mail")
    store.put_schedule("nightly", "0 3 * * *", "clean_up")
    store.pause_schedule("nightly")
    noted = store.rows("operations", "verb")
    assert store.put_schedule("nightly", "0 3 * * *", "clean_up")[0] == Outcome.REPEAT
    assert store.pause_schedule("nightly") == Outcome.REPEAT
    for call in (store.pause_schedule, store.resume_schedule, store.remove_schedule):
        assert call("never") == Outcome.NOT_FOUND
    assert store.fire_schedule("never")[0].outcome == Outcome.NOT_FOUND
    assert store.discard_load("mail", dry_run=True) == 0
    store.end_run("mail", run)
    assert store.rows("operations", "verb") == noted


def test_a_schedule_that_fires_by_itself_is_not_in_the_audit(store: Session, clock: Clock) -> None:
    store.put_schedule("nightly", "0 3 * * *", "clean_up", actor="host:1:ab")
    (due,) = store.claim_schedules("host:1:ab").due
    store.fire_schedule("nightly", due.lock_token, [], clock.now + timedelta(hours=1))
    assert store.rows("operations", "verb", "actor") == [("put_schedule", "host:1:ab")]


def test_a_new_schedule_and_its_change_are_in_the_audit(store: Session) -> None:
    for time_zone in ("UTC", "Europe/Berlin"):
        store.put_schedule("nightly", "0 3 * * *", "clean_up", time_zone=time_zone)
    assert [shown(told) for (told,) in store.rows("operations", "arguments")] == [
        {"cron": "0 3 * * *", "time_zone": time_zone, "kind": "clean_up", "queue": "default"}
        for time_zone in ("Europe/Berlin", "UTC")
    ]


def test_a_queue_that_is_deleted_with_its_requests_has_one_operator(store: Session) -> None:
    store.configure_queue("old", actor="ann")
    store.put(queue="old")
    store.delete_queue("old", purge=True, dry_run=True, actor="ann")
    store.delete_queue("old", purge=True, actor="ann")
    assert store.rows("operations", "verb", "actor") == [
        ("configure_queue", "ann"),
        ("delete_queue", "ann"),
        ("purge", "ann"),
    ]


def test_a_load_is_discarded(store: Session) -> None:
    store.staged("mail", [{}])
    run = store.staged("mail", [{"dedup_key": "k"}] * 2, "two")
    store.lay("mail", run, [{"kind": "a"}] * 3, part=1)
    store.report_load("mail", run, 5)
    assert store.discard_load("mail", dry_run=True) == 5
    assert store.discard_load("mail") == 5
    ((status,),) = store.rows("load", "status")
    assert status == "Ended"
    with pytest.raises(LoadLost, match='the run of load "mail" was ended'):
        store.promote("mail", run, 5)
    with pytest.raises(LoadLost, match='the run of load "mail" was ended; nothing is left'):
        store.discard_load("mail")
    store.maintain()
    assert store.rows("lane", "kind") == store.rows("lane_part", "part") == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_load_that_cannot_be_discarded_is_refused(dry_run: bool, store: Session) -> None:
    with pytest.raises(LoadLost, match='there is no load "mail"; list the loads'):
        store.discard_load("mail", dry_run=dry_run)
    run = store.staged("mail", [{}])
    store.promote("mail", run, 1)
    with pytest.raises(
        LoadLost, match="is promoted, so its rows are requests; cancel the requests"
    ):
        store.discard_load("mail", dry_run=dry_run)
    assert store.rows("operations", "verb") == []


def shown(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value
