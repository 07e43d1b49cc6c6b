"""The dashboard: any path, query, form and header, as bytes on the wire can say them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from anyio.from_thread import start_blocking_portal
from hypothesis import strategies as st

from rowlease.dashboard import Dashboard
from rowlease.dashboard.actions import ACTIONS
from rowlease.dashboard.guard import COOKIE
from rowlease.dashboard.pages import PAGES
from rowlease.declared_queues import QueueSettings
from tests.fuzz.surfaces import Meet, Surface, Unexplained
from tests.fuzz.texts import filter_text
from tests.fuzz.values import (
    CRONS,
    DURATIONS,
    NUMBERS,
    TIMES,
    ZONES,
    Draw,
    anything,
    fill,
    json_texts,
)

HOST = b"localhost:8642"
VISITOR = "a-cookie-of-the-fuzzer"
FIELDS = [
    "name", "queue", "filter", "id", "operation_id", "confirmed", "back", "schedule", "cron",
    "kind", "time_zone", "payload", "priority", "catch_up", "delay", "at", "due_time", "after",
    "before", "batch", "days", "next", "token", "csrf", "x", "look", *QueueSettings.__annotations__,
]  # fmt: skip

RIGHT = {
    "name": ["default", "mail", "schedule 1"], "queue": ["default", "mail"], "kind": ["a"],
    "schedule": ["schedule 1"], "cron": ["* * * * *"], "time_zone": ["UTC"], "payload": ["{}"],
    "filter": ["kind:a", "status:failed", "id:3", ""], "id": ["1", "3"], "confirmed": ["yes"],
    "priority": ["0", "3"], "catch_up": ["1"], "delay": ["5s"], "days": ["90"], "after": ["5"],
}  # fmt: skip
odd = st.sampled_from([*NUMBERS, *TIMES, *DURATIONS, *CRONS, *ZONES])
raw_paths = st.binary(max_size=20).map(lambda raw: "/" + quote_from_bytes(raw))
header_values = st.one_of(
    st.binary(max_size=30), st.sampled_from([b"bytes=0-,-1", b"\xff", b"a=b;c", b"*"])
)
HEADERS = (
    b"host", b"cookie", b"origin", b"accept", b"content-type", b"content-length", b"range",
    b"if-none-match", b"x-forwarded-for", b"transfer-encoding", b"if-modified-since",
)  # fmt: skip
PATHS = ("/login", "/logout", "/static/", "/static/..%2f..%2fguard.py", "//x", "*", "")
METHODS = ("POST", "HEAD", "PUT", "OPTIONS", "x")


class Sent(NamedTuple):
    """A request on the wire."""

    routine: str
    method: str
    path: str
    query: list[tuple[str, str]]
    form: list[tuple[str, str]] | bytes | None
    headers: list[tuple[bytes, bytes]]


def text(draw: Draw) -> str:
    return (filter_text(draw) if draw.is_rare(5) else str(draw.any(anything, json_texts, odd)))[
        :8000
    ]


def fields(draw: Draw) -> list[tuple[str, str]]:
    """Of a query or a form that may be right, with some that are not."""
    found = [(name, draw.one(RIGHT[name])) for name in draw.some(RIGHT)]
    for _ in range(draw.one([0, 0, 1, 2])):
        found.append((draw.of(anything) if draw.is_rare(9) else draw.one(FIELDS), text(draw)))
    return found


def path(draw: Draw) -> str:
    part = draw.one("123") if not draw.is_rare() else escaped(text(draw))
    if not draw.is_rare():
        return str(draw.one(sorted(PAGES))).replace("{id}", part)
    others = (draw.one(PATHS), draw.of(raw_paths), f"/static/{part}", f"/requests/1/{part}")
    return str(draw.one(others))


def escaped(given: str) -> str:
    return quote(given, safe="", errors="surrogatepass")


def something_sent(draw: Draw) -> Sent:
    if draw.is_rare(9):
        body = draw.one([draw.of(header_values), fields(draw)])
        return Sent("anything", draw.one(METHODS), path(draw), fields(draw), body, headers(draw))
    if draw.is_rare(2):
        verb = draw.one(sorted(ACTIONS))
        return Sent(f"the action {verb}", "POST", f"/actions/{verb}", [], fields(draw), [])
    more = headers(draw) if draw.is_rare() else []
    return Sent("a page", "GET", path(draw), fields(draw), None, more)


def headers(draw: Draw) -> list[tuple[bytes, bytes]]:
    return [(name, draw.of(header_values)) for name in draw.some(HEADERS, 2)]


def coded(fields: list[tuple[str, str]]) -> bytes:
    return "&".join(
        "=".join(quote(part, errors="surrogatepass") for part in pair) for pair in fields
    ).encode()


@contextmanager
def opened(dsn: str) -> Iterator[Meet]:
    fill(dsn)
    with (
        closing(Dashboard(dsn, local_role="operator")) as dashboard,
        start_blocking_portal() as portal,
    ):
        csrf = ""

        def meet(sent: Sent) -> bool:
            status, page = portal.call(answer, dashboard, sent, csrf)
            if status >= 500:
                raise Unexplained(f"HTTP {status}: {page[-600:]!r}")
            if b"Traceback" in page:
                raise Unexplained("a traceback")
            return status >= 400

        start = Sent("", "GET", "/requests/new", [], None, [])
        _, page = portal.call(answer, dashboard, start, csrf)
        csrf = page.partition(b'name="csrf" value="')[2].partition(b'"')[0].decode()
        assert csrf
        yield meet


async def answer(dashboard: Dashboard, sent: Sent, csrf: str) -> tuple[int, bytes]:
    """The status and the body of the answer."""
    form = sent.form
    if isinstance(form, list):
        form = coded([("csrf", csrf), *form])
    raw = sent.path.encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "http",
        # As uvicorn decodes it.
        "path": unquote_to_bytes(raw).decode(errors="replace"),
        "raw_path": raw,
        "root_path": "",
        "query_string": coded(sent.query),
        "headers": [
            (b"host", HOST),
            (b"cookie", f"{COOKIE}={VISITOR}".encode()),
            (b"origin", b"http://" + HOST),
            (b"content-type", b"application/x-www-form-urlencoded"),
            *sent.headers,
        ],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8642),
    }
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": form or b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    await dashboard(scope, receive, send)
    return status, body


SURFACE = Surface("the dashboard", something_sent, opened, share=12)
