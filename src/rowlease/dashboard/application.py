"""The ASGI application: routes, the guard before them, and the templates behind them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from rowlease.dashboard import rendering
from rowlease.dashboard.actions import ACTIONS
from rowlease.dashboard.guard import (
    COOKIE,
    Guard,
    Refused,
    Role,
    Visitor,
    local_path,
    read_form,
)
from rowlease.dashboard.pages import PAGES, Examined, Visit, payload
from rowlease.dashboard.samples import Samples
from rowlease.errors import (
    AccessDenied,
    ConfigError,
    InvalidRequest,
    QueueFull,
    RoutineError,
    RowleaseError,
    SchemaMismatch,
    StoreUnavailable,
)
from rowlease.store import open_store

#: The time limit of a call to the database. Then the page says that there was no answer.
PAGE_CALL_TIMEOUT = timedelta(seconds=20)
#: The maximum number of pages made at the same time, and the maximum that wait for their turn.
AT_ONCE, WAITING = 8, 64
#: Seconds in which a form must have arrived.
FORM_SECONDS = 10
STATUS = (
    (StoreUnavailable, 503),
    (SchemaMismatch, 503),
    (AccessDenied, 403),
    (InvalidRequest, 400),
    (QueueFull, 409),
    (RoutineError, 400),
    (ConfigError, 400),
)
log = logging.getLogger("rowlease.dashboard")


class Dashboard:
    """The dashboard of a database, as an ASGI application.

    Without tokens and without `authorize`, it answers only visitors on this machine. Pages work
    without JavaScript. No page counts the rows of the queue.

    Args:
        dsn: the database. Its user needs the role rowlease_reader. If visitors may make changes, it
            needs rowlease_operator instead.
        reader_token, operator_token: the tokens with which a visitor logs in, 16 characters or
            more. Readers see everything; operators also change requests and queues.
        local_role: the role of visitors on this machine if there are no tokens.
        authorize: a function of the program in which the dashboard is mounted. It gets the
            connection and returns the visitor's role, or None to refuse. It replaces tokens.

    Raises:
        ConfigError: the DSN or a token cannot be used.
    """

    def __init__(
        self,
        dsn: str,
        *,
        reader_token: str | None = None,
        operator_token: str | None = None,
        local_role: Role = "reader",
        authorize: Callable[[HTTPConnection], Role | None] | None = None,
    ) -> None:
        tokens: dict[Role, str] = {}
        if reader_token is not None:
            tokens["reader"] = reader_token
        if operator_token is not None:
            tokens["operator"] = operator_token
        self._guard = Guard(tokens, local_role, authorize)
        self._store = open_store(
            dsn, application_name="rowlease dashboard", call_timeout=PAGE_CALL_TIMEOUT
        ).within(PAGE_CALL_TIMEOUT)
        self._samples = Samples(self._store)
        self._examined = Examined(dsn)
        self._limiter = CapacityLimiter(AT_ONCE)
        self._app = self._routes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[rendering.BASE] = str(scope.get("root_path", "")).rstrip("/")
        request = Request(scope, receive)
        await self._guarded(request)(scope, receive, rendering.with_headers(request, send))

    def close(self) -> None:
        """Close the connections to the database. Call this after the last request."""
        self._samples.close()
        self._store.close()

    # -- requests ----------------------------------------------------------------------------------

    def _guarded(self, request: Request) -> ASGIApp:
        """The application that answers: the routes, a redirect to the login page, or a refusal."""
        if {"content-length", "transfer-encoding"} <= set(request.headers):
            # A proxy may take another length, and then sees other requests on the connection.
            return self._refusal(request, Refused(400, "the request has two lengths"))
        try:
            visitor = self._guard.visitor(request)
        except Refused as refused:
            return self._refusal(request, refused)
        request.scope["visitor"] = visitor
        path = rendering.path(request)
        if path.startswith("/static/") or path in ("/login", "/logout"):
            return self._app
        may_change = request.method not in ("GET", "HEAD")
        if visitor.role is None:
            if may_change:
                return self._refusal(request, Refused(403, "you are not logged in"))
            return RedirectResponse(
                f"{rendering.base(request)}/login?next={quote(rendering.here(request), safe='')}",
                303,
            )
        if may_change and not visitor.may_act:
            return self._refusal(request, Refused(403, "only operators may make changes"))
        return self._app

    def _page(self, template: str, make: Callable[[Visit], dict[str, Any]]) -> Any:
        async def endpoint(request: Request) -> Response:
            view = self._view(request)
            return await self._answer(request, lambda: self._render(request, template, make(view)))

        return endpoint

    async def _payload(self, request: Request) -> Response:
        view = self._view(request)

        def plain() -> Response:
            return Response(
                payload(view),
                headers={"cache-control": "no-store"},
                media_type="text/plain; charset=utf-8",
            )

        return await self._answer(request, plain)

    async def _action(self, request: Request) -> Response:
        """Show what an action would do. If the form is `confirmed`, do it."""
        action = ACTIONS.get(request.path_params["verb"])
        if action is None:
            raise HTTPException(404)
        form = await self._form(request)

        visitor: Visitor = request.scope["visitor"]
        actor = f"{visitor.role} of the dashboard, {request.client.host if request.client else '?'}"

        def act() -> Response:
            shown = {"action": action, "form": form, "back": local_path(form.get("back", "/"))}
            if form.get("confirmed") == "yes":
                done = action.run(self._store, form, actor)
                self._samples.expire()
                log.info("%s: %s", actor, done.sentence)
                return self._render(request, "done.html", {**shown, "done": done})
            preview = action.preview(self._store, form)
            return self._render(request, "preview.html", {**shown, "preview": preview})

        return await self._answer(request, act)

    async def _login(self, request: Request) -> Response:
        visitor: Visitor = request.scope["visitor"]
        if not self._guard.needs_login:
            return RedirectResponse(f"{rendering.base(request)}/", 303)
        after = local_path(request.query_params.get("next", "/"))
        if request.method != "POST":
            made = self._render(request, "login.html", {"next": after, "failed": False})
            rendering.set_cookie(made, request, visitor.cookie)
            return made
        form = await self._form(request)
        address = request.client.host if request.client else ""
        cookie = self._guard.log_in(address, form.get("token", ""))
        if cookie is None:
            return self._render(request, "login.html", {"next": after, "failed": True}, 403)
        answer = RedirectResponse(rendering.base(request) + after, 303)
        rendering.set_cookie(answer, request, cookie)
        return answer

    async def _logout(self, request: Request) -> Response:
        await self._form(request)
        self._guard.log_out(request.scope["visitor"])
        answer = RedirectResponse(f"{rendering.base(request)}/login", 303)
        answer.delete_cookie(COOKIE, path=rendering.base(request) or "/")
        return answer

    async def _form(self, request: Request) -> QueryParams:
        """The fields of a form that this visitor was shown.

        Raises:
            Refused: it is not such a form, or it did not arrive in time.
        """
        try:
            with fail_after(FORM_SECONDS):
                form = await read_form(request)
        except TimeoutError:
            raise Refused(408, "the form did not arrive in time") from None
        self._guard.check(request.scope["visitor"], request, form)
        return form

    # -- answers -----------------------------------------------------------------------------------

    def _view(self, request: Request) -> Visit:
        return Visit(
            self._store, self._samples, self._examined, request.query_params, request.path_params
        )

    async def _answer(self, request: Request, make: Callable[[], Response]) -> Response:
        """Make a response in one of a few threads, because calls to the database block."""
        if self._limiter.statistics().tasks_waiting >= WAITING:
            return self._refusal(request, Refused(503, "too many pages are being made; try again"))
        try:
            response = await to_thread.run_sync(make, limiter=self._limiter)
        except RowleaseError as error:
            status = next((code for kind, code in STATUS if isinstance(error, kind)), 500)
            return self._refusal(request, Refused(status, str(error)))
        visitor: Visitor = request.scope["visitor"]
        if visitor.may_act and COOKIE not in request.cookies:
            # The CSRF tokens in the forms of this page are derived from this cookie.
            rendering.set_cookie(response, request, visitor.cookie)
        return response

    def _refusal(self, request: Request, refused: Refused) -> Response:
        context = {"status": refused.status, "message": str(refused)}
        response = self._render(request, "error.html", context, refused.status)
        response.headers["connection"] = "close"  # what comes after it may be a part of it
        return response

    def _render(
        self, request: Request, template: str, context: dict[str, Any], status: int = 200
    ) -> Response:
        return rendering.page(request, self._store.where, template, context, status)

    def _routes(self) -> Starlette:
        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            await to_thread.run_sync(self.close)

        async def http_error(request: Request, error: Exception) -> Response:
            status = error.status_code if isinstance(error, HTTPException) else 500
            message = {404: "there is no such page"}.get(status, "this method is not allowed")
            return self._refusal(request, Refused(status, message))

        async def refused(request: Request, error: Exception) -> Response:
            assert isinstance(error, Refused)
            return self._refusal(request, error)

        return Starlette(
            routes=[
                *(Route(path, self._page(*page), methods=["GET"]) for path, page in PAGES.items()),
                Route("/requests/{id}/{field}", self._payload, methods=["GET"]),
                Route("/actions/{verb}", self._action, methods=["POST"]),
                Route("/login", self._login, methods=["GET", "POST"]),
                Route("/logout", self._logout, methods=["POST"]),
                Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
            ],
            exception_handlers={HTTPException: http_error, Refused: refused},
            lifespan=lifespan,
        )
