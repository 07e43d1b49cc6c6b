"""Makes responses: renders templates, and sets cookies and the headers of every response."""

from __future__ import annotations

from functools import cache, partial
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Message, Send

from rowlease.counts import first_line
from rowlease.dashboard import formats, links
from rowlease.dashboard.actions import ACTIONS
from rowlease.dashboard.guard import (
    COOKIE,
    HEADERS,
    LOCAL_NAMES,
    LOGIN_SECONDS,
    STRICT_TRANSPORT,
    host_name,
)


def page(
    request: Request, where: str, template: str, context: dict[str, Any], status: int = 200
) -> Response:
    """A page.

    Args:
        where: the DSN without the password.
    """
    text = (
        templates()
        .get_template(template)
        .render(
            base=base(request),
            path=path(request),
            here=here(request),
            visitor=request.scope.get("visitor"),
            where=where,
            **context,
        )
    )
    return HTMLResponse(text, status, headers={"cache-control": "no-store"})


@cache
def templates() -> Environment:
    found = Environment(
        loader=PackageLoader("rowlease.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (
        "visible", "cut", "pretty", "number", "rate", "span", "milliseconds",
        "moment", "exact",
    )  # fmt: skip
    found.filters.update({name: getattr(formats, name) for name in names})
    found.filters |= {"quoted": partial(quote, safe=""), "first_line": first_line}
    found.globals.update(filters=links, actions=ACTIONS)
    return found


def with_headers(request: Request, send: Send) -> Send:
    """A `send` that adds the security headers to the response."""

    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if request.scope["scheme"] == "https":
                headers["strict-transport-security"] = STRICT_TRANSPORT
        await send(message)

    return adding


def set_cookie(response: Response, request: Request, value: str) -> None:
    is_plain = request.scope["scheme"] == "http" and host_name(request) in LOCAL_NAMES
    response.set_cookie(
        COOKIE,
        value,
        max_age=round(LOGIN_SECONDS),
        path=base(request) or "/",
        secure=not is_plain,
        httponly=True,
        samesite="lax",
    )


#: The key of a scope with the dashboard's own `root_path`, which a mount inside of it changes.
BASE = "rowlease.base"


def base(request: Request) -> str:
    """The path below which the dashboard is mounted."""
    return str(request.scope[BASE])


def path(request: Request) -> str:
    """The path of a request below `base`."""
    return str(request.scope["path"]).removeprefix(base(request)) or "/"


def here(request: Request) -> str:
    """The path and the query of a request."""
    query = request.scope["query_string"].decode("ascii", "replace")
    return path(request) + (f"?{query}" if query else "")
