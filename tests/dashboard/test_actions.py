"""The actions: each shows what it would do, changes nothing, and does it when that is confirmed."""

from __future__ import annotations

from rowlease.store import Store
from tests.dashboard.conftest import Browser
from tests.dashboard.test_pages import enqueued, plain


def test_a_queue_is_paused_and_resumed(store: Store, browser: Browser) -> None:
    enqueued(store, "{}", "{}")
    preview = browser.submit("/queue?name=default", "/actions/pause")
    assert "2 are waiting" in plain(preview)
    assert not store.list_queues()[0].paused
    assert "The queue default is paused." in plain(browser.confirm(preview))
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
