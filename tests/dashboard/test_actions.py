"""The actions: each shows what it would do, changes nothing, and does it when that is confirmed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from starlette.datastructures import QueryParams

from rowlease.dashboard import actions
from rowlease.errors import InvalidRequest
from rowlease.model import Failure
from rowlease.store import Store
from tests.audited import VERBS
from tests.dashboard.conftest import Browser, Forms
from tests.dashboard.test_pages import enqueued, plain

DEAD = Failure("TimeoutError: no answer\nat 3", None, True)


def status(store: Store, number: int) -> str:
    found = store.get_request(number)
    assert found is not None
    return found.status


def dead_letters(store: Store, count: int) -> list[int]:
    ids = enqueued(store, *["{}"] * count)
    store.fail(store.dequeue("host:1:ab", ["default"], count).requests, [DEAD] * count)
    return ids


def asked(browser: Browser, verb: str, **fields: object) -> httpx.Response:
    """The preview of an action on requests that were selected in the list."""
    form = browser.form("/requests", "/actions/requeue")
    return browser.post(f"/actions/{verb}", {**form.fields, **fields})


def test_a_queue_is_paused_and_resumed(store: Store, browser: Browser) -> None:
    enqueued(store, "{}", "{}")
    preview = browser.submit("/queue?name=default", "/actions/pause")
    assert "2 are waiting" in plain(preview)
    assert not store.list_queues()[0].paused
    assert "The queue default is paused." in plain(browser.confirm(preview))
    assert store.list_operations()[0].actor == "operator of the dashboard, 127.0.0.1"
    assert store.list_queues()[0].paused
    preview = browser.submit("/queue?name=default", "/actions/resume")
    assert store.list_queues()[0].paused
    browser.confirm(preview)
    assert not store.list_queues()[0].paused


def test_a_schedule_is_paused_resumed_and_fired(store: Store, browser: Browser) -> None:
    store.put_schedule("<nightly>", "0 3 * * *", "clean_up")

    def is_paused() -> bool:
        return store.list_schedules()[0].paused

    preview = browser.submit("/schedules", "/actions/pause-schedule")
    assert not is_paused()
    browser.confirm(preview)
    assert is_paused()
    browser.confirm(browser.submit("/schedules", "/actions/resume-schedule"))
    assert not is_paused()
    preview = browser.submit("/schedules", "/actions/fire-schedule")
    assert store.find_requests().requests == []
    done = browser.confirm(preview)
    assert "<nightly> has enqueued the request" in plain(done)
    assert len(store.find_requests().requests) == 1


#: The actions with a page of their own: the page, and what is written into its form.
EDITS = {
    "configure-queue": ("/queue/edit?name=default", {"capacity": "7"}),
    "put-schedule": ("/schedules/edit?name=nightly", {"cron": "0 4 * * *"}),
    "enqueue": ("/requests/new", {"kind": "tidy"}),
}


@pytest.mark.parametrize("verb", actions.ACTIONS)
def test_every_action_is_in_the_audit_with_its_operator(
    verb: str, store: Store, browser: Browser
) -> None:
    enqueued(store, "{}")
    store.put_schedule("nightly", "0 3 * * *", "clean_up")
    if verb == "resume-schedule":
        store.pause_schedule("nightly")
    if verb == "resume":
        store.pause("default")
    before = len(store.list_operations())
    if verb in VERBS:
        form = browser.form("/requests?filter=queue%3Adefault", "/actions/requeue")
        preview = browser.post(f"/actions/{verb}", form.fields)
    elif verb in EDITS:
        page, given = EDITS[verb]
        preview = browser.submit(page, f"/actions/{verb}", **given)
    else:
        page = "/schedules" if "schedule" in verb else "/queue?name=default"
        preview = browser.submit(page, f"/actions/{verb}")
    browser.confirm(preview)
    done, *rest = store.list_operations()
    assert len(rest) == before
    assert done.verb == verb.replace("-", "_")
    assert done.actor == "operator of the dashboard, 127.0.0.1"
    row = plain(browser.get("/audit"))
    assert done.verb.replace("_", " ") in row


def test_dead_letters_of_a_group_are_requeued(store: Store, browser: Browser) -> None:
    ids = dead_letters(store, 12)
    enqueued(store, "{}")
    (other,) = store.dequeue("host:1:ab", ["default"], 1).requests
    store.fail([other], [Failure("ValueError: no", None, True)])
    group = next(form for form in Forms(browser.get("/dead-letters").text).found
                 if "TimeoutError" in str(form.fields.get("filter")))  # fmt: skip
    preview = browser.post("/actions/requeue", group.fields)
    assert "12 requests would be requeued" in plain(preview)
    assert "10 of 12 are listed" in plain(preview)
    assert status(store, ids[0]) == "Failed"
    assert "12 requests were requeued" in plain(browser.confirm(preview))
    assert {status(store, number) for number in ids} == {"Pending"}
    assert status(store, other.request_id) == "Failed"


def test_selected_requests_are_cancelled(store: Store, browser: Browser) -> None:
    first, second, third = enqueued(store, "{}", "{}", "{}")
    preview = asked(browser, "cancel", id=[str(first), str(second)])
    assert "2 requests would be cancelled" in plain(preview)
    assert status(store, first) == "Pending"
    browser.confirm(preview)
    assert [status(store, n) for n in (first, second, third)] == [
        "Cancelled",
        "Cancelled",
        "Pending",
    ]


def test_without_a_selection_the_filter_decides(store: Store, browser: Browser) -> None:
    ids = enqueued(store, "{}", "{}", priority=3)
    (other,) = enqueued(store, "{}")
    form = browser.form("/requests?filter=priority%3A3", "/actions/requeue")
    preview = browser.post("/actions/purge", form.fields)
    assert "no request that would be deleted" in plain(preview)  # purge takes dead letters
    preview = browser.post("/actions/cancel", form.fields)
    browser.confirm(preview)
    assert {status(store, number) for number in ids} == {"Cancelled"}
    assert status(store, other) == "Pending"


def test_an_action_on_every_request_is_refused(store: Store, browser: Browser) -> None:
    (number,) = enqueued(store, "{}")
    answer = asked(browser, "cancel")
    assert answer.status_code == 400
    assert "the filter selects every request" in plain(answer)
    assert status(store, number) == "Pending"


def test_a_priority_is_changed(store: Store, browser: Browser) -> None:
    (number,) = enqueued(store, "{}")
    preview = asked(browser, "reprioritise", id=str(number))
    assert 'name="priority"' in preview.text
    form = next(form for form in Forms(preview.text).found if "back" in form.fields)
    fields = {**form.fields, "confirmed": "yes", "priority": "7"}
    assert browser.post("/actions/reprioritise", {**fields, "priority": "-1"}).status_code == 400
    browser.post("/actions/reprioritise", fields)
    found = store.get_request(number)
    assert found is not None
    assert found.priority == 7


def test_a_due_time_is_changed(store: Store, browser: Browser) -> None:
    (number,) = enqueued(store, "{}")
    preview = asked(browser, "reschedule", id=str(number))
    form = next(form for form in Forms(preview.text).found if "back" in form.fields)
    fields = {**form.fields, "confirmed": "yes"}
    assert browser.post("/actions/reschedule", {**fields, "delay": "soon"}).status_code == 400
    browser.post("/actions/reschedule", {**fields, "delay": "2h"})
    found = store.get_request(number)
    assert found is not None
    assert found.due_time > datetime.now(UTC) + timedelta(hours=1)


def test_a_lease_is_broken(store: Store, browser: Browser) -> None:
    (number,) = enqueued(store, "{}")
    store.dequeue("host:1:ab", ["default"], 1)
    preview = browser.submit("/workers", "/actions/break")
    assert status(store, number) == "Processing"
    browser.confirm(preview)
    assert status(store, number) == "Pending"


def test_dead_letters_are_purged(store: Store, browser: Browser) -> None:
    (number,) = dead_letters(store, 1)
    preview = browser.submit(f"/requests/{number}", "/actions/purge")
    assert status(store, number) == "Failed"
    browser.confirm(preview)
    assert store.get_request(number) is None


def test_a_long_action_is_interrupted_and_goes_on(
    store: Store, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = enqueued(store, *["{}"] * 2500, priority=3)
    form = browser.form("/requests?filter=priority%3A3", "/actions/requeue")
    preview = browser.post("/actions/cancel", form.fields)
    assert "2,500 requests would be cancelled" in plain(preview)
    monkeypatch.setattr(actions, "ACTION_SECONDS", 0.0)
    page, turns = browser.confirm(preview), 1
    while "not finished" in page.text:
        fields = next(form for form in Forms(page.text).found if "back" in form.fields).fields
        page = browser.post("/actions/cancel", {**fields, "confirmed": "yes"})
        turns += 1
    assert turns >= 3
    assert {one.status for one in store.find_requests(limit=3000).requests} == {"Cancelled"}
    (one,) = store.list_operations()
    assert (one.verb, one.num_requests, one.status) == ("cancel", len(ids), "Finished")
    assert one.actor == "operator of the dashboard, 127.0.0.1"


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("pause", {"queue": "nothing"}),
        ("fire-schedule", {"schedule": "nothing"}),
        ("cancel", {"id": "x"}),
        ("cancel", {"filter": "stat:x"}),
        ("requeue", {"filter": "status:pending queue:default"}),
    ],
)
def test_what_cannot_be_done_is_said(
    verb: str, fields: dict[str, str], store: Store, browser: Browser
) -> None:
    enqueued(store, "{}")
    answer = asked(browser, verb, **fields)
    assert answer.status_code == 400
    assert "Go to the overview" in plain(answer)


@pytest.mark.parametrize("field", ["id", "operation_id"])
@pytest.mark.parametrize("number", ["9" * 5000, str(2**63), "x", "-1"])
def test_a_number_that_is_no_id_is_refused(field: str, number: str, store: Store) -> None:
    form = QueryParams({"filter": "queue:default", field: number})
    with pytest.raises(InvalidRequest, match="is not a whole number of 0 or more"):
        actions.ACTIONS["purge"].run(store, form, "ann")
    assert store.list_operations() == []
