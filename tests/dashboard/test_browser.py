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
