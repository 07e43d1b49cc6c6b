"""Middleware: code that runs around each enqueue call and around each run of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from rowlease.context import Context
from rowlease.tasks.task import Task

#: The context for programs without middleware.
NO_MIDDLEWARE = nullcontext()


@dataclass(frozen=True, slots=True)
class NewRequestHeaders:
    """A request that is about to be enqueued.

    Attributes:
        queue: the name of the queue.
        kind: the name of the task.
        headers: the headers of the request. Middleware may change them.
    """

    queue: str
    kind: str
    headers: dict[str, str]


class Middleware:
    """Code that runs around each enqueue call, and around each run of a task.

    Override one or both methods with functions decorated by `contextlib.contextmanager`. The code
    before `yield` runs first, the code after it runs last. An exception of the call or of the task
    is raised at `yield`; it cannot be suppressed.

        class Tenants(Middleware):
            @contextmanager
            def around_enqueue(self, requests):
                for request in requests:
                    request.headers.setdefault("tenant", tenant.get())
                yield

            @contextmanager
            def around_run(self, task, context):
                token = tenant.set(context.headers["tenant"])
                try:
                    yield
                finally:
                    tenant.reset(token)

        add_middleware(Tenants())

    The same methods serve `Client` and `AsyncClient`, plain tasks and coroutines: a context
    variable that is set here is set for the task. The methods must not block an event loop for
    long. The first middleware that was added is the outermost.
    """

    def around_enqueue(
        self, requests: Sequence[NewRequestHeaders]
    ) -> AbstractContextManager[object]:
        """Return a context manager that is active during an enqueue call.

        If it raises an exception before the requests are sent, the call raises this exception, and
        nothing is enqueued. The method is not called for requests of schedules, Spark loads and
        SQL.
        """
        return NO_MIDDLEWARE

    def around_run(self, task: Task[..., Any], context: Context) -> AbstractContextManager[object]:
        """Return a context manager that is active while a task runs.

        It runs where the task runs: in the child process, in the thread, or in the event loop. An
        exception that it raises fails the attempt, as if the task had raised it.
        """
        return NO_MIDDLEWARE


#: The middleware of this process, the outermost first.
added: list[Middleware] = []


def add_middleware(middleware: Middleware) -> None:
    """Run this middleware around all enqueue calls and runs of this process.

    Call this function in the module that defines the tasks. Child processes import that module, so
    they have the same middleware.
    """
    added.append(middleware)


def around_run(task: Task[..., Any], context: Context) -> AbstractContextManager[object]:
    """A context manager that runs all middleware around one run of a task."""
    if not added:
        return NO_MIDDLEWARE
    return _within(lambda each: each.around_run(task, context))


def around_enqueue(requests: Sequence[NewRequestHeaders]) -> AbstractContextManager[object]:
    """A context manager that runs all middleware around one enqueue call."""
    return _within(lambda each: each.around_enqueue(requests))


@contextmanager
def _within(
    enter: Callable[[Middleware], AbstractContextManager[object]],
) -> Iterator[None]:
    raised: BaseException | None = None
    with ExitStack() as stack:
        for each in added:
            stack.enter_context(enter(each))
        try:
            yield
        except BaseException as error:
            raised = error
            raise
    if raised is not None:
        raise raised  # a middleware suppressed it, but the call or the task did fail
