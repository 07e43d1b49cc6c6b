"""Tasks with middleware, which child processes import, too."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rowlease import Middleware, add_middleware, task
from rowlease.context import Context
from rowlease.middleware import NewRequestHeaders
from rowlease.tasks.task import Task

#: Sentry's SDK, an extra of the developers; None if it is not installed.
SDK: Any = import_module("sentry_sdk") if find_spec("sentry_sdk") else None
#: The middleware of docs/middleware.md is tested as it is printed there.
PAGE = Path(__file__).parents[2] / "docs" / "middleware.md"
_page: dict[str, Any] = {"Sentry": Middleware}
if SDK:
    exec(
        re.findall(r"^```python\n(# sentry_middleware.*?)^```", PAGE.read_text(), re.M | re.S)[0],
        _page,
    )

#: The environment variable that names the file for Sentry's events.
SENTRY_FILE = "ROWLEASE_TEST_SENTRY_FILE"

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
steps: ContextVar[tuple[str, ...]] = ContextVar("steps", default=())


class Tenants(Middleware):
    """Carries a context variable from the producer to the task."""

    @contextmanager
    def around_enqueue(self, requests: Sequence[NewRequestHeaders]) -> Iterator[None]:
        for request in requests:
            request.headers.setdefault("tenant", tenant.get())
        yield

    @contextmanager
    def around_run(self, task: Task[..., Any], context: Context) -> Iterator[None]:
        token = tenant.set(context.headers.get("tenant", "none"))
        try:
            yield
        finally:
            tenant.reset(token)


class Step(Middleware):
    """Fails where the header `fail` says, and records the order in which middleware is entered."""

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def around_enqueue(self, requests: Sequence[NewRequestHeaders]) -> Iterator[None]:
        for request in requests:
            request.headers["steps"] = request.headers.get("steps", "") + self.name
        yield

    @contextmanager
    def around_run(self, task: Task[..., Any], context: Context) -> Iterator[None]:
        fail = context.headers.get("fail", "")
        token = steps.set((*steps.get(), self.name))
        try:
            if fail == f"before {self.name}":
                raise ValueError(fail)
            if fail == f"leave {self.name}":
                raise SystemExit(fail)
            if fail == f"suppress {self.name}":
                try:
                    yield
                except KeyError:
                    return
            else:
                yield
            if fail == f"after {self.name}":
                raise ValueError(fail)
        finally:
            steps.reset(token)


def start_sentry() -> None:
    """Have Sentry append its events to a file, one a line."""

    class FileTransport(import_module("sentry_sdk.transport").Transport):  # type: ignore[misc]
        def capture_envelope(self, envelope: Any) -> None:
            with open(os.environ[SENTRY_FILE], "a") as file:
                for item in envelope.items:
                    event = item.payload.json
                    if isinstance(event, dict):
                        file.write(json.dumps(event, default=str) + "\n")

    SDK.init(
        "https://key@sentry.invalid/1",
        transport=FileTransport,
        traces_sample_rate=1.0,
        default_integrations=False,
    )


@task
def plain(fail: str = "") -> dict[str, object]:
    if fail:
        raise KeyError(fail)
    return {"tenant": tenant.get(), "steps": list(steps.get())}


@task
async def native(fail: str = "") -> dict[str, object]:
    await asyncio.sleep(0)
    if fail:
        raise KeyError(fail)
    return {"tenant": tenant.get(), "steps": list(steps.get())}


MIDDLEWARE = [Tenants(), Step("a"), Step("b"), _page["Sentry"]()]
for each in MIDDLEWARE:
    add_middleware(each)
if SENTRY_FILE in os.environ:  # in a child process
    start_sentry()
