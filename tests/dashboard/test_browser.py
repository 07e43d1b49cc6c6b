"""The pages in a real browser: scripts, colours, widths, keys and accessibility.

They run where Chromium is installed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import uvicorn

from rowlease.dashboard import Dashboard
from rowlease.model import Failure, NewRequest
from rowlease.store import Store, open_store
from tests import machine
from tests.conftest import in_database, scratch_database
from tests.dashboard.test_pages import PATHS, enqueued, filled

pytestmark = machine.needs("chromium")
#: Milliseconds that a browser may take on a busy machine.
PATIENCE = 60_000
EVIL = '<script>document.title = "run"</script><img src=x onerror="document.title=1">\u202e'


@pytest.fixture(scope="module")
def database(server_dsn: str, template: str) -> Iterator[str]:
    with scratch_database(server_dsn, template) as name:
        yield in_database(server_dsn, name)


@pytest.fixture(scope="module")
def store(database: str) -> Iterator[Store]:
    with closing(open_store(database)) as opened:
        filled(opened)
        enqueued(opened, "{}", group_key=EVIL, dedup_key=EVIL, priority=9)
        yield opened


@contextmanager
def serving(made: Dashboard) -> Iterator[str]:
    """The URL of a server in a thread."""
    server = uvicorn.Server(uvicorn.Config(made, port=0, log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
            assert thread.is_alive()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def site(database: str, store: Store) -> Iterator[str]:
    with closing(Dashboard(database, local_role="operator")) as made, serving(made) as url:
        yield url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        # A container's root may not make the namespaces of the sandbox.
        browser = started.chromium.launch(
            executable_path=machine.path_of("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@contextmanager
def tab(chromium: Any, **options: Any) -> Iterator[Any]:
    """A tab whose errors fail the test."""
    context = chromium.new_context(**options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    yield page
    assert errors == []
    context.close()


PAGES = [
    *PATHS,
    "/queue?name=default",
    "/queue/edit?name=default",
    "/schedules/edit?name=nightly",
    "/requests/1",
    "/requests/72",
    "/requests?filter=status:failed",
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_no_page_is_wider_than_a_phone(
    scheme: str, chromium: Any, site: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    axe, found = Axe(), list[str]()
    with tab(
        chromium, color_scheme=scheme, viewport={"width": 390, "height": 844}, bypass_csp=True
    ) as page:
        for path in PAGES:
            page.goto(site + path)
            result = axe.run(page)
            found += [f"{path}: {each['id']}" for each in result.response["violations"]]
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not wide, path
    assert found == []


#: The longest names without a blank: of a queue, a load or a batch, and of others.
SHORT, LONG = "n" * 100, "x" * 200


def name_at_length(store: Store) -> int:
    """Fill every table of the pages with names of the greatest length; a request's id."""
    worker = f"{LONG[:190]}:7:ab"
    store.configure_queue(SHORT)
    given = {"kind": LONG, "group_key": LONG, "dedup_key": LONG * 2}
    news = [NewRequest(payload="{}", **given)]  # type: ignore[arg-type]
    store.enqueue_many(SHORT, news, batch_id=SHORT)
    (held,) = store.dequeue(worker, [SHORT], 1).requests
    store.fail([held], [Failure(LONG * 2, None, True, LONG, LONG * 4)])
    store.enqueue_many(SHORT, [NewRequest(kind=LONG, payload=f'{{"{LONG}": "{LONG}"}}')] * 2)
    store.dequeue(worker, [SHORT], 1)
    store.worker_heartbeat(
        worker, host=LONG[:190], pid=7, version="1", queues=[SHORT], slots=8, busy=2
    )
    store.put_schedule(LONG, "0 3 * * *", LONG, queue=SHORT, actor=LONG)
    store.begin_load(SHORT, SHORT, worker)
    return held.request_id


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_long_names_wrap_at_every_width(
    width: int, chromium: Any, server_dsn: str, template: str
) -> None:
    with scratch_database(server_dsn, template) as name:
        dsn = in_database(server_dsn, name)
        with closing(open_store(dsn)) as store:
            number = name_at_length(store)
        with (
            closing(Dashboard(dsn, local_role="operator")) as made,
            serving(made) as url,
            tab(chromium, viewport={"width": width, "height": 900}) as page,
        ):
            for path in [
                *PATHS,
                f"/queue?name={SHORT}",
                f"/queue/edit?name={SHORT}",
                f"/schedules/edit?name={LONG}",
                f"/requests/{number}",
            ]:
                page.goto(url + path)
                assert page.evaluate(WIDE) == [], path


#: What does not fit: the page, a cell beside its table, and on a screen a whole table.
WIDE = """
() => [...document.querySelectorAll("html, .scroll, th, td, dd, p, h1, h2, li, pre")]
  .filter(one => {
    if (one.matches("html")) return one.scrollWidth > innerWidth;
    if (one.matches(".scroll")) return innerWidth >= 1400 && one.scrollWidth > one.clientWidth;
    const room = one.closest(".scroll") ?? document.querySelector("main");
    return one.getBoundingClientRect().width > room.clientWidth;
  })
  .map(one => `${one.tagName} ${one.className}: ${one.textContent.trim().slice(0, 30)}`)
"""


def test_no_policy_is_violated_and_hostile_text_is_not_run(chromium: Any, site: str) -> None:
    with tab(chromium) as page:
        for path in PAGES:
            page.goto(site + path)
            assert page.title().endswith("rowlease")
        assert page.locator("img[src=x]").count() == 0


def test_a_page_is_kept_up_to_date_until_it_is_paused(
    chromium: Any, site: str, store: Store
) -> None:
    with tab(chromium) as page:
        page.clock.install()
        page.goto(f"{site}/queues")
        store.configure_queue("appeared")
        page.clock.run_for(6_000)
        page.get_by_role("link", name="appeared").wait_for()
        page.get_by_role("button", name="Pause updates").click()
        store.configure_queue("later")
        with page.expect_event("framenavigated", predicate=lambda _: True):
            page.reload()  # the choice outlives a page
        assert (
            page.get_by_role("button", name="Pause updates").get_attribute("aria-pressed") == "true"
        )


def test_a_request_is_found_and_acted_on_by_keys_alone(
    chromium: Any, site: str, store: Store
) -> None:
    with tab(chromium) as page:
        page.goto(f"{site}/requests")
        page.keyboard.press("/")
        page.keyboard.type("status:failed")
        page.keyboard.press("Enter")
        page.wait_for_url("**filter=status*")
        page.goto(f"{site}/queue?name=default")
        page.get_by_role("button", name="Pause", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_text("Workers will claim no more").wait_for()
        assert "default" not in {one.queue_name for one in store.list_queues() if one.paused}
        page.get_by_role("button", name="Pause", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_text("The queue default is paused").wait_for()
    store.resume("default")


def test_pages_and_forms_work_without_scripts(chromium: Any, site: str, store: Store) -> None:
    with tab(chromium, java_script_enabled=False) as page:
        page.goto(f"{site}/requests")
        page.locator("#filter").fill("kind:resize status:failed")
        page.locator("#filter").press("Enter")
        page.locator("th a.id").first.click()
        page.get_by_text("TimeoutError: no answer").first.wait_for()
        assert not page.get_by_role("button", name="Pause updates").is_visible()
