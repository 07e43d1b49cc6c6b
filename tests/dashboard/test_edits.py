"""The settings of a queue, schedules and new requests, from the page to the database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from rowlease.store import Store
from tests.dashboard.conftest import OPERATOR, READER, Browser, Visit
from tests.dashboard.test_pages import plain


def test_settings_are_shown_before_and_after_and_set_when_confirmed(
    store: Store, browser: Browser
) -> None:
    store.configure_queue("default", capacity=100)
    given = {"capacity": "none", "policy": "weighted", "policy_weights": "[1, 2]", "rate": "5/1m"}
    preview = browser.submit("/queue/edit?name=default", "/actions/configure-queue", **given)
    assert "4 settings of the queue default would change" in plain(preview)
    assert "capacity 100 none" in plain(preview)
    assert "policy strict weighted" in plain(preview)
    assert store.show_queue("default")["capacity"] == 100
    assert "4 settings of the queue default changed" in plain(browser.confirm(preview))
    now = store.show_queue("default")
    assert [now[name] for name in given] == [None, "weighted", [1, 2], "5/1m"]


def test_only_the_settings_that_the_visitor_has_changed_are_set(
    store: Store, browser: Browser
) -> None:
    form = browser.form("/queue/edit?name=default", "/actions/configure-queue")
    store.configure_queue("default", max_attempts=9)  # by another operator, meanwhile
    preview = browser.post(form.action, {**form.fields, "capacity": "7"})
    assert "1 setting of the queue default would change" in plain(preview)
    browser.confirm(preview)
    now = store.show_queue("default")
    assert (now["capacity"], now["max_attempts"]) == (7, 9)


def test_settings_that_are_the_same_need_no_confirmation(browser: Browser) -> None:
    preview = browser.submit("/queue/edit?name=default", "/actions/configure-queue")
    assert "Nothing would change" in plain(preview)
    assert "confirmed" not in preview.text


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("capacity", "-1", "out of range"),
        ("capacity", "many", "out of range"),
        ("rate", "0/1m", "out of range"),
        ("policy_weights", '["a"]', "must be an array of non-negative numbers"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_changes(
    setting: str, value: str, says: str, store: Store, browser: Browser
) -> None:
    before = store.show_queue("default")
    page = "/queue/edit?name=default"
    preview = browser.submit(page, "/actions/configure-queue", **{setting: value})
    refused = browser.confirm(preview)
    assert refused.status_code == 400
    assert says in plain(refused)
    assert store.show_queue("default") == before


def test_a_schedule_is_created_and_changed(store: Store, browser: Browser) -> None:
    given = {
        "schedule": "<nightly>",
        "cron": "0  3 * * *",
        "time_zone": "Europe/Berlin",
        "kind": "clean_up",
        "payload": '{"day": "{scheduled_time}"}',
    }
    preview = browser.submit("/schedules/edit", "/actions/put-schedule", **given)
    assert "The schedule <nightly> would be created. Its next firing would be at" in plain(preview)
    assert store.list_schedules() == []
    browser.confirm(preview)
    (made,) = store.list_schedules()
    assert made.schedule_name == "<nightly>"
    assert (made.cron, made.time_zone, made.kind) == ("0 3 * * *", "Europe/Berlin", "clean_up")
    assert made.payload == given["payload"]
    page = "/schedules/edit?name=%3Cnightly%3E"
    assert "Nothing would change" in plain(browser.submit(page, "/actions/put-schedule"))
    preview = browser.submit(page, "/actions/put-schedule", priority="3", catch_up="2")
    assert "would be changed" in plain(preview)
    assert "priority 0 3 catch_up 1 2" in plain(preview)
    browser.confirm(preview)
    (changed,) = store.list_schedules()
    assert changed[:6] == made[:6]
    assert (changed.priority, changed.catch_up) == (3, 2)


def test_a_schedule_keeps_its_headers(store: Store, browser: Browser) -> None:
    store.put_schedule("nightly", "0 3 * * *", "clean_up", headers='{"tenant": "a"}')
    page = "/schedules/edit?name=nightly"
    browser.confirm(browser.submit(page, "/actions/put-schedule", priority="3"))
    assert json.loads(store.list_schedules()[0].headers or "") == {"tenant": "a"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cron": "0 3 * *"}, "wrong number of fields"),
        ({"time_zone": "Mars"}, "which this host does not know"),
        ({"queue": "nowhere"}, "does not exist"),
        ({"payload": "[1]"}, "it must be a mapping of arguments by name"),
        ({"payload": '{"a": 1, "a": 2}'}, "names 'a' twice"),
        ({"payload": "{"}, "the payload is not JSON"),
        ({"priority": "-1"}, "write a whole number"),
        ({"kind": ""}, "the kind is missing"),
    ],
)
def test_a_wrong_schedule_is_refused_before_a_confirmation(
    given: dict[str, str], says: str, store: Store, browser: Browser
) -> None:
    store.put_schedule("nightly", "0 3 * * *", "clean_up")
    before = store.list_schedules()
    page = "/schedules/edit?name=nightly"
    refused = browser.submit(page, "/actions/put-schedule", **given)
    assert refused.status_code == 400
    assert says in plain(refused)
    assert store.list_schedules() == before


def test_a_request_is_enqueued_when_confirmed(store: Store, browser: Browser) -> None:
    given = {"kind": "tidy", "payload": '{"n": [1, "\u00e4"]}', "priority": "3", "due": "5m"}
    preview = browser.submit("/requests/new", "/actions/enqueue", **given)
    assert "A request of the kind tidy would be enqueued, due in 5m" in plain(preview)
    assert store.find_requests().requests == []
    done = browser.confirm(preview)
    (made,) = store.find_requests().requests
    assert f"The request {made.request_id} is enqueued" in plain(done)
    assert (made.kind, made.priority, made.queue_name) == ("tidy", 3, "default")
    assert json.loads(made.payload or "") == {"n": [1, "\u00e4"]}
    assert made.due_time - made.requested_time == timedelta(minutes=5)
    (noted, *_) = store.list_operations()
    assert json.loads(noted.arguments) == {"kind": "tidy", "request_id": made.request_id}


def test_a_request_is_due_at_a_time(store: Store, browser: Browser) -> None:
    given = {"kind": "tidy", "due": "2099-01-01T08:00+01:00"}
    preview = browser.submit("/requests/new?queue=default", "/actions/enqueue", **given)
    assert "due at 2099-01-01 07:00:00" in plain(preview)
    browser.confirm(preview)
    (made,) = store.find_requests().requests
    assert made.due_time == datetime(2099, 1, 1, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": ""}, "the kind is missing"),
        ({"kind": "t", "queue": "nowhere"}, "does not exist"),
        ({"kind": "t", "payload": "1"}, "it must be a mapping of arguments by name"),
        ({"kind": "t", "priority": "x"}, "write a whole number"),
        ({"kind": "t", "due": "soon"}, "due: "),
    ],
)
def test_a_wrong_request_is_refused_before_a_confirmation(
    given: dict[str, str], says: str, store: Store, browser: Browser
) -> None:
    refused = browser.submit("/requests/new", "/actions/enqueue", **given)
    assert refused.status_code == 400
    assert says in plain(refused)
    assert store.find_requests().requests == []


def test_a_full_queue_takes_no_request_of_an_operator(store: Store, browser: Browser) -> None:
    store.configure_queue("default", capacity=1)
    for status, says in ((200, "is enqueued"), (409, "is full")):
        preview = browser.submit("/requests/new", "/actions/enqueue", kind="tidy")
        answer = browser.confirm(preview)
        assert answer.status_code == status
        assert says in plain(answer)
    assert store.list_operations()[0].verb == "enqueue"
    assert len([one for one in store.list_operations() if one.verb == "enqueue"]) == 1


EDIT_PAGES = ["/queue/edit?name=default", "/schedules/edit", "/requests/new"]


@pytest.mark.parametrize("page", EDIT_PAGES)
def test_a_reader_gets_no_form(page: str, visit: Visit) -> None:
    reader = visit(reader_token=READER, operator_token=OPERATOR)
    reader.log_in(READER)
    assert "Only operators may make changes" in plain(reader.get(page))
    assert 'class="edit"' not in reader.get(page).text
    for path in ("/requests", "/schedules", "/queue?name=default"):
        shown = reader.get(path).text
        assert "/edit" not in shown
        assert "/requests/new" not in shown


@pytest.mark.parametrize("verb", ["configure-queue", "put-schedule", "enqueue"])
def test_a_reader_may_not_send_the_form(verb: str, store: Store, visit: Visit) -> None:
    reader = visit(reader_token=READER, operator_token=OPERATOR)
    reader.log_in(READER)
    given = {"queue": "default", "kind": "tidy", "capacity": "1", "confirmed": "yes"}
    assert reader.post(f"/actions/{verb}", given).status_code == 403
    assert store.list_operations() == []


def test_a_page_of_a_queue_or_schedule_that_is_gone_is_not_found(browser: Browser) -> None:
    for page in ("/queue/edit?name=gone", "/queue/edit", "/schedules/edit?name=gone"):
        assert browser.get(page).status_code == 404
