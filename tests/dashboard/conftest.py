"""A dashboard of the test's own database, and browsers that send it requests in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html.parser import HTMLParser
from typing import Any, NamedTuple

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from rowlease.dashboard import Dashboard

LOCAL = "http://localhost:8642"
READER, OPERATOR = "reader-token-of-a-test", "operator-token-of-a-test"


class Form(NamedTuple):
    """A form of a page, with the values of its fields."""

    action: str
    fields: dict[str, Any]


class Forms(HTMLParser):
    """Reads the forms of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[Form] = []
        self._long = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(Form(given.get("action", ""), {}))
        elif tag == "input" and given.get("type") in ("hidden", "text"):
            fields, name, value = self.found[-1].fields, given["name"], given["value"]
            fields[name] = [*fields[name], value] if name in fields else [value]
        elif tag == "textarea":
            self._long = given["name"]

    def handle_data(self, data: str) -> None:
        if self._long:
            self.found[-1].fields[self._long] = [data.removeprefix("\n")]
            self._long = ""


class Browser:
    """Sends requests as a browser does: with cookies, and with Origin in each form."""

    def __init__(
        self, portal: BlockingPortal, made: Dashboard, site: str = LOCAL, address: str = "127.0.0.1"
    ) -> None:
        self.site, self.dashboard = site, made
        self._portal = portal
        transport = httpx.ASGITransport(made, client=(address, 50_000))
        self._client = httpx.AsyncClient(transport=transport, base_url=site)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def sent() -> httpx.Response:
            return await self._client.request(method, path, **options)

        return self._portal.call(sent)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.send("GET", path, **options)

    def post(self, path: str, data: Any, **headers: str) -> httpx.Response:
        return self.send("POST", path, data=data, headers={"origin": self.site, **headers})

    def form(self, path: str, action: str) -> Form:
        """The first form of a page that is sent to this action."""
        page = self.get(path)
        assert page.status_code == 200, page.text
        return next(form for form in Forms(page.text).found if form.action == action)

    def submit(self, path: str, action: str, **fields: Any) -> httpx.Response:
        """Fill in a form of a page and send it."""
        form = self.form(path, action)
        return self.post(action, {**form.fields, **fields})

    def confirm(self, preview: httpx.Response) -> httpx.Response:
        """Press the button of a preview."""
        assert preview.status_code == 200, preview.text
        form = next(form for form in Forms(preview.text).found if "back" in form.fields)
        return self.post(str(preview.request.url.path), {**form.fields, "confirmed": "yes"})

    def log_in(self, token: str) -> httpx.Response:
        return self.submit("/login", "/login?next=%2F", token=token)


Visit = Callable[..., Browser]


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def made(dsn: str) -> Iterator[Callable[..., Dashboard]]:
    """Makes dashboards of the test's database."""
    with ExitStack() as stack:

        def make(**options: Any) -> Dashboard:
            dashboard = Dashboard(dsn, **options)
            stack.callback(dashboard.close)
            return dashboard

        yield make


@pytest.fixture
def visit(portal: BlockingPortal, made: Callable[..., Dashboard]) -> Visit:
    """Opens a browser on a new dashboard."""

    def open_browser(*, site: str = LOCAL, address: str = "127.0.0.1", **options: Any) -> Browser:
        return Browser(portal, made(**options), site, address)

    return open_browser


@pytest.fixture
def browser(visit: Visit) -> Browser:
    """A browser on this machine that may act."""
    return visit(local_role="operator")
