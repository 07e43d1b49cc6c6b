"""What the pages show, of an empty database, of one request and of many."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from rowlease.client.find_requests import find
from rowlease.dashboard import Dashboard, pages
from rowlease.model import Failure, Found, NewRequest
from rowlease.store import Store
from tests.dashboard.conftest import Browser, Visit

PATHS = [path for path in pages.PAGES if "{" not in path and path not in ("/queue", "/queue/edit")]
ERROR = Failure(
    "TimeoutError: no answer\nsecond line", None, True, "TimeoutError", "Traceback: line 1"
)


def enqueued(store: Store, *payloads: str, queue: str = "default", **fields: Any) -> list[int]:
    """Enqueue requests; their ids."""
    news = [NewRequest(kind="resize", payload=payload, **fields) for payload in payloads]
    return [one.request_id or 0 for one in store.enqueue_many(queue, news)]


def filled(store: Store) -> None:
    """Something of everything."""
    enqueued(store, *(f'{{"n": {n}}}' for n in range(70)))
    enqueued(store, "{}", delay=timedelta(hours=1), priority=5)
    held = store.dequeue("host:1:ab", ["default"], 6).requests
    store.fail(held[:2], [ERROR, ERROR])
    store.fail(held[2:3], [Failure("later", timedelta(hours=1))])
    store.complete(held[3:4], ['{"bytes": 3}'])
    store.worker_heartbeat(
        "host:1:ab", host="host", pid=1, version="1", queues=["default"], slots=8, busy=2
    )
    store.put_schedule("nightly", "0 3 * * *", "clean_up")
    store.begin_load("flights", "default", "a run")
    store.maintain()
    store.configure_queue("paused one")
    store.pause("paused one")


STATES: dict[str, Callable[[Store], object]] = {
    "empty": lambda store: None,
    "one": lambda store: enqueued(store, '{"image": "a.png"}'),
    "many": filled,
}


@pytest.fixture(params=STATES)
def state(request: pytest.FixtureRequest, store: Store) -> str:
    STATES[request.param](store)
    return str(request.param)


def plain(response: httpx.Response) -> str:
    """The text of a page."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", response.text)))


def shown(response: httpx.Response) -> str:
    """A page without hidden fields, which hold text exactly."""
    return re.sub(r'<input type="hidden"[^>]*>', "", response.text)


def is_strict(page: str) -> bool:
    """Whether a page has no script, style or handler that its policy forbids."""
    inline = re.search(r"<style|<script(?![^>]* src=)|<[^>]* (style|on[a-z]+)=", page)
    foreign = re.search(r"(src|href|action)=\"(?!/|#)", page)
    return inline is None and foreign is None


def test_every_page_of_every_state_is_shown(state: str, browser: Browser) -> None:
    for path in [*PATHS, "/queue?name=default", "/queue/edit?name=default"]:
        page = browser.get(path)
        assert page.status_code == 200, page.text
        assert page.text.count("<h1>") == 1
        assert is_strict(page.text), path


def test_an_empty_database_says_what_to_do(browser: Browser) -> None:
    for path, advice in {
        "/requests": "rowlease enqueue",
        "/workers": "rowlease worker",
        "/schedules": "@task(cron=",
        "/loads": "rowlease spark-enqueue",
        "/dead-letters": "mend the cause",
    }.items():
        assert advice in plain(browser.get(path)), path


def test_the_history_has_days_of_all_queues_or_of_one_and_kinds(
    store: Store, browser: Browser
) -> None:
    filled(store)
    store.maintain()
    page = plain(browser.get("/history?days=90"))
    assert "today 1" in page
    assert "Today 1 3 2" in page
    assert re.search("resize 1 2 0 2 [0-9]+ ms", page)
    of_queue = plain(browser.get("/history?queue=paused%20one"))
    assert "Today 0 0 0" in of_queue
    assert "None in the last 30 days" in of_queue
    assert "resize" not in of_queue
    assert browser.get("/history?days=31").status_code == 404


def test_health_lists_what_the_doctor_finds(browser: Browser) -> None:
    # The clock of a test's database can be stopped, which differs from the release.
    text = plain(browser.get("/health"))
    assert "drift routine rowlease.now" in text
    assert "What to do: delete the row of rowlease.schema_info and run `rowlease migrate`" in text
    assert plain(browser.get("/health")) == text


def test_health_without_findings_says_so(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "examine", lambda dsn: [])
    assert "Nothing is wrong" in plain(visit().get("/health"))


def test_the_overview_has_the_figures(store: Store, browser: Browser) -> None:
    filled(store)
    text = plain(browser.get("/"))
    assert "Waiting 64 2 scheduled for later" in text
    assert "Dead letters 2" in text
    assert "Running 2 2 of 8 slots, 1 worker" in text
    assert "1 in all" in text


def test_the_first_page_says_that_charts_begin_soon(store: Store, browser: Browser) -> None:
    filled(store)
    assert "The chart begins in a few seconds." in plain(browser.get("/"))


def test_charts_are_drawn_from_the_second_sample_on(store: Store, browser: Browser) -> None:
    filled(store)
    browser.get("/")
    store.complete(store.dequeue("host:1:ab", ["default"], 3).requests)
    browser.dashboard._samples.expire()
    page = browser.get("/")
    assert page.text.count('class="area"') == 1
    assert re.search("Waiting, by priority, from .* ago until now. priority 0: 61", page.text)
    assert "p99" in plain(page)
    assert "no attempt has failed" in plain(page)


def test_a_queue_shows_its_settings_and_what_is_claimed_next(
    store: Store, browser: Browser
) -> None:
    first, _ = enqueued(store, "{}", "{}")
    (urgent,) = enqueued(store, "{}", priority=7)
    page = browser.get("/queue?name=default")
    assert re.findall(r'class="id" href="/requests/(\d+)"', page.text)[:2] == [
        str(urgent),
        str(first),
    ]
    assert "max_in_flight not set" in plain(page)


def test_a_queue_may_have_any_name(store: Store, browser: Browser) -> None:
    name = "a/../b?c=d&e#f <i>\u202e\"'"
    store.configure_queue(name)
    assert f'href="/queue?name={quote(name, safe="")}"' in browser.get("/queues").text
    page = browser.get(f"/queue?name={quote(name)}")
    assert page.status_code == 200
    assert "&lt;i&gt;" in page.text
    assert "\\u202e" in page.text
    assert "\u202e" not in shown(page)


def test_requests_are_found_by_a_filter(store: Store, browser: Browser) -> None:
    filled(store)
    text = plain(browser.get("/requests?filter=status:failed"))
    assert text.count("✕ Failed") == 2
    assert "TimeoutError: no answer" in text
    assert "second line" not in text
    assert "No request matches" in plain(browser.get("/requests?filter=kind:nothing"))


def test_a_wrong_filter_is_marked(browser: Browser) -> None:
    page = browser.get("/requests?filter=status:failed%20stat:x")
    assert page.status_code == 200
    assert 'aria-invalid="true"' in page.text
    assert "there is no key 'stat'" in plain(page)


def test_older_requests_are_on_the_next_page(store: Store, browser: Browser) -> None:
    ids = enqueued(store, *["{}"] * 120)
    path, found = "/requests?filter=queue:default", []
    while path:
        page = browser.get(path).text
        found += [int(one) for one in re.findall(r'class="id" href="/requests/(\d+)"', page)]
        link = re.search(r'rel="next" href="([^"]*)"', page)
        path = html.unescape(link[1]) if link else ""
    assert found == sorted(ids, reverse=True)


def test_a_request_shows_its_payload_attempts_and_explanation(
    store: Store, browser: Browser
) -> None:
    enqueued(store, '{"image": "a.png"}')
    (held,) = store.dequeue("host:1:ab", ["default"], 1).requests
    store.fail([held], [ERROR])
    text = plain(browser.get(f"/requests/{held.request_id}"))
    for part in (
        "dead letter it is a dead letter after attempt 1 of",
        '"image": "a.png"',
        "Attempt 1 host:1:ab",
        "Traceback: line 1",
        "second line",
    ):
        assert part in text, part


def test_hostile_text_is_shown_as_text(store: Store, browser: Browser) -> None:
    evil = "<script>alert(1)</script>\u202e\u0007\u200b\x7f"
    payload = json.dumps({evil: evil}, ensure_ascii=True)
    (number,) = enqueued(store, payload, dedup_key="<b>k", group_key='"><i>')
    (held,) = store.dequeue("<u>w</u>:1:ab", ["default"], 1).requests
    store.fail([held], [Failure(evil, None, True, "<b>", f"<svg onload=x>{evil}")])
    for path in (f"/requests/{number}", "/requests", "/dead-letters", "/"):
        page = shown(browser.get(path))
        assert is_strict(page), path
        for raw in ("<script>alert", "<svg onload", "<b>k", "<i>", "<u>w", "\u202e", "\x07"):
            assert raw not in page, (path, raw)
    page = browser.get(f"/requests/{number}").text
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("\\u202e") >= 2
    assert "\\x07" in page


def test_a_long_payload_is_cut_and_can_be_opened_whole(store: Store, browser: Browser) -> None:
    payload = json.dumps({"x": "<i>" + "y" * 1_000_000})
    (number,) = enqueued(store, payload)
    page = browser.get(f"/requests/{number}")
    assert len(page.content) < 60_000
    assert "The first 20,000 of 1,000,0" in plain(page)
    whole = browser.get(f"/requests/{number}/payload")
    assert whole.text == payload
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["cache-control"] == "no-store"


def test_a_link_to_the_requests_of_a_group_finds_them(store: Store, browser: Browser) -> None:
    key = 'a "b" \\ c:d'
    (number,) = enqueued(store, "{}", group_key=key)
    page = browser.get(f"/requests/{number}").text
    link = re.search(r'href="(/requests\?filter=group[^"]*)"', page)
    assert link
    assert f'href="/requests/{number}"' in browser.get(html.unescape(link[1])).text


NOT_THERE = (
    "/nothing",
    "/queue",
    "/queue?name=nothing",
    "/requests/1",
    f"/requests/{2**63}",
    f"/requests/{10**400}",
    f"/requests/{'9' * 4301}",  # more digits than Python converts
    f"/requests/{'9' * 4301}/payload",
    f"/requests?after={'9' * 4301}",
    f"/requests?after={2**63}",
    "/requests/1/payload",
    "/requests?after=x",
    "/static/../application.py",
    "/static/nothing",
    "/actions/nothing",
)


def test_what_is_not_there_is_not_found(browser: Browser) -> None:
    for path in NOT_THERE:
        page = browser.get(path)
        assert page.status_code in (404, 405), path
        assert is_strict(page.text)
        assert "/static/static/" not in page.text


def test_a_search_that_has_found_nothing_yet_continues_by_itself(
    store: Store, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page ends in time, and a search through millions of requests needs no visitor."""
    monkeypatch.setattr(pages, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(pages, "FIRST_LOOK_ROWS", 2)
    enqueued(store, *["{}"] * 5)
    enqueued(store, "{}", dedup_key="one")
    enqueued(store, *["{}"] * 5)
    path, pages_read = "/requests?filter=dedup:one", 0
    refresh = r'http-equiv="refresh" content="0;url=([^"]*)"'
    while found := re.search(refresh, browser.get(path).text):
        path, pages_read = html.unescape(found[1]), pages_read + 1
    assert pages_read == 2
    assert plain(browser.get(path)).count("resize") == 1


def test_a_search_reads_more_at_each_step(
    store: Store, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of the newest requests reads few; one of rare requests takes few steps."""
    looked = []

    def noted(*given: Any) -> Found:
        looked.append(given[-1])
        return find(*given)

    monkeypatch.setattr(pages, "SEARCH_SECONDS", 60.0)
    monkeypatch.setattr(pages, "FIRST_LOOK_ROWS", 2)
    monkeypatch.setattr(pages, "MAX_READ_PER_CALL", 4)
    monkeypatch.setattr(pages, "find", noted)
    enqueued(store, *["{}"] * 11)
    assert "No request matches" in plain(browser.get("/requests?filter=dedup:one"))
    assert looked == [2, 4, 4, 4]


def test_batches_show_how_much_is_done(store: Store, browser: Browser) -> None:
    store.enqueue_many("default", [NewRequest(kind="resize")] * 3, batch_id="May <1>")
    held = store.dequeue("host:1:ab", ["default"], 2).requests
    store.complete(held[:1])
    store.fail(held[1:], [Failure("no answer", dead=True)])
    page = browser.get("/loads")
    assert re.search(r"May <1> ◷ Open 2 3 1 1 1 0 ", plain(page)), plain(page)
    link = "/requests?filter=load%3A%22May%20%3C1%3E%22%20status%3Afailed"
    assert link in page.text
    assert plain(browser.get(link)).count("✕ Failed default resize") == 1


def test_a_field_that_is_not_a_text_of_the_request_is_not_found(
    store: Store, browser: Browser
) -> None:
    (number,) = enqueued(store, "{}")
    assert browser.get(f"/requests/{number}/_asdict").status_code == 404
    assert browser.get(f"/requests/{number}/result").status_code == 404


def test_leases_show_the_time_left(store: Store, browser: Browser) -> None:
    enqueued(store, "{}")
    store.dequeue("host:1:ab", ["default"], 1, lease=timedelta(hours=1))
    left = re.search(r'data-seconds="(\d+)"', browser.get("/workers").text)
    assert left
    assert 3000 < int(left[1]) <= 3600


def test_a_database_that_is_away_is_said_on_the_page(visit: Visit, portal: Any) -> None:
    away = Dashboard("postgresql://u:secret@127.0.0.1:1/x")
    page = Browser(portal, away).get("/")
    away.close()
    assert page.status_code == 503
    assert "cannot reach the database" in page.text
    assert "secret" not in page.text


def test_a_reader_sees_no_actions(store: Store, visit: Visit) -> None:
    filled(store)
    for path in [*PATHS, "/queue?name=default", "/requests/1"]:
        assert "/actions/" not in visit(local_role="reader").get(path).text, path
