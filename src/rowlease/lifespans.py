"""What the tasks of one process share: the values of lifespans, and clients.

A process that runs tasks is a child process, or, with the executors `thread` and `coroutine`, the
worker itself.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rowlease.errors import ConfigError, RowleaseError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from contextlib import AbstractAsyncContextManager

    from rowlease.client.async_client import AsyncClient
    from rowlease.client.client import Client

T = TypeVar("T")
L = TypeVar("L", bound=Callable[[], Iterator[Any]] | Callable[[], AsyncIterator[Any]])

#: The lifespans of this process, in the order in which they are entered.
added: list[Callable[[], Any]] = []


def lifespan(function: L) -> L:
    """Make what tasks need, once in each process that runs them; a decorator.

    The function is a generator with one `yield`. The code before it runs before the first request,
    the code after it when the worker ends. Tasks get the value with `current().state`. In an async
    generator, both run in the event loop of the coroutines.

        @lifespan
        async def http() -> AsyncIterator[httpx.AsyncClient]:
            async with httpx.AsyncClient() as client:
                yield client

    Use it in the module that defines the tasks: child processes import that module. Lifespans are
    left in the opposite order, within two seconds. A process that is killed leaves none.

    Raises:
        ConfigError: the function is not a generator.
    """
    if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        raise ConfigError(f"the lifespan {function.__qualname__} must be a generator: use `yield`")
    added.append(function)
    return function


class Shared:
    """The values of the lifespans of one process, and its clients, which are opened when used.

    Args:
        dsn: the database of the worker.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._values: list[Any] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def check_fork(self) -> None:
        """Refuse a report from a process that a task has forked: the worker would not learn of it.

        Raises:
            ConfigError: this is such a process.
        """
        if os.getpid() != self._pid:
            raise ConfigError(
                "call complete() and snooze() in the process in which the worker runs the task; a "
                "process that the task has forked can return a value to the task"
            )

    def state(self, kind: type[T]) -> T:
        """See `Context.state`."""
        for value in self._values:
            if isinstance(value, kind):
                return value
        made = ", ".join(type(value).__name__ for value in self._values)
        raise RowleaseError(
            f"no lifespan has made a {kind.__name__}; they made: {made or 'nothing'}"
        )

    @property
    def client(self) -> Client:
        """An open client."""
        with self._lock:
            return self._client

    @property
    def async_client(self) -> AsyncClient:
        """An open client for coroutines."""
        with self._lock:
            return self._async_client

    @cached_property
    def _client(self) -> Client:
        from rowlease.client.client import Client
        from rowlease.store import open_store

        return Client.over(open_store(self._dsn, application_name="rowlease task"))

    @cached_property
    def _async_client(self) -> AsyncClient:
        from rowlease.client.async_client import AsyncClient

        return AsyncClient.over(self._client)

    @contextmanager
    def entered(self, loop: Callable[[], AbstractEventLoop]) -> Iterator[None]:
        """Enter all lifespans, and leave them after the block. Errors of the end are logged.

        Args:
            loop: returns the event loop for async lifespans, which must not be running here.

        Raises:
            ConfigError: a lifespan failed.
        """
        stack = ExitStack()
        for each in added:
            try:
                if inspect.isasyncgenfunction(each):
                    manager: Any = _held(asynccontextmanager(each)(), loop())
                else:
                    manager = contextmanager(each)()
                self._values.append(stack.enter_context(manager))
            except BaseException as error:
                _leave(stack)
                what = f"{type(error).__name__}: {error}"
                raise ConfigError(f"the lifespan {each.__qualname__} failed: {what}") from error
        try:
            yield
        finally:
            _leave(stack)
            self._close()

    @asynccontextmanager
    async def entered_here(self) -> AsyncIterator[None]:
        """The same as `entered`, in the event loop that runs this, and without its errors."""
        async with AsyncExitStack() as stack:
            for each in added:
                if inspect.isasyncgenfunction(each):
                    value = await stack.enter_async_context(asynccontextmanager(each)())
                else:
                    value = stack.enter_context(contextmanager(each)())
                self._values.append(value)
            try:
                yield
            finally:
                self._close()

    def _close(self) -> None:
        if client := self.__dict__.pop("_client", None):
            client.close()


@contextmanager
def _held(manager: AbstractAsyncContextManager[Any], loop: AbstractEventLoop) -> Iterator[Any]:
    """Enter and leave an async lifespan in one asyncio task, as task groups demand."""
    import asyncio  # a child process without coroutines starts sooner without it

    entered: asyncio.Future[Any] = loop.create_future()
    left = asyncio.Event()

    async def hold() -> None:
        try:
            async with manager as value:
                entered.set_result(value)
                await left.wait()
        except BaseException as error:
            if entered.done():
                raise
            entered.set_exception(error)

    holding = loop.create_task(hold())
    value = loop.run_until_complete(entered)
    try:
        yield value
    finally:
        left.set()
        loop.run_until_complete(holding)


def _leave(stack: ExitStack) -> None:
    try:
        stack.close()
    except Exception:
        logging.getLogger("rowlease").exception("a lifespan failed when it was left")
