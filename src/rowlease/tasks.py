"""Tasks: the functions that requests name by their kind."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, Unpack, overload

from rowlease.cron import cron_for
from rowlease.errors import ConfigError, UnknownTask, WrongArguments
from rowlease.model import MAX_PAYLOAD_BYTES
from rowlease.task_settings import Exceptions, TaskKeywords, TaskSettings

P = ParamSpec("P")
R = TypeVar("R")

#: The queue of requests for which neither the task nor the producer names one.
DEFAULT_QUEUE = "default"
#: How many known tasks an error message lists.
LISTED = 20
#: Reads the JSON at the start of a text; for a short one four times as fast as `json.loads`.
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=True, separators=(",", ":")
).encode


class Task(TaskSettings):
    """A function that requests may name, and its settings.

    Called, it is the plain function: nothing is queued. Made by the decorator `task`.

    Args:
        function: at the top level of a module, because other processes import it.
        name: what a request's `kind` says; None takes the function's own name.
        settings: as in `TaskSettings`, which are attributes here, too.

    Attributes:
        is_coroutine: the function is an `async def`.
        timetable: when workers enqueue it, if it has `cron`.

    Raises:
        ConfigError: a setting is wrong.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        **settings: Unpack[TaskKeywords],
    ) -> None:
        if not inspect.isroutine(function):
            raise ConfigError(f"a task must be a function, not {function!r}")
        functools.update_wrapper(self, function)
        super().__init__(name=function.__name__ if name is None else name, **settings)
        self.function = function
        self.is_coroutine = inspect.iscoroutinefunction(function)
        self.timetable = (
            None if self.cron is None else cron_for(function, self.name, self.cron, self.time_zone)
        )
        self._retried = self._kinds("retry_on", self.retry_on)
        self._hopeless = self._kinds("dead_letter_on", self.dead_letter_on)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def run(self, payload: str) -> str | None:
        """Call the function with a request's payload.

        A JSON object becomes keyword arguments, a list positional ones; null calls it without
        arguments, and a text, number or boolean is its only argument.

        Returns:
            The result as compact JSON text; None for a result of None.

        Raises:
            WrongArguments: the payload does not fit the function's parameters; it has not run.
            ValueError: the payload is not JSON; or the result is not (NaN is not), or is larger
                than a payload may be.
            Whatever the function raises.
        """
        result = self._call(payload)
        if self.is_coroutine:
            result = _runner().run(result)
        return None if result is None else encoded(result, f"task {self.name}")

    async def run_coroutine(self, payload: str) -> str | None:
        """As `run`, in the event loop that this is awaited in."""
        result = self._call(payload)
        if self.is_coroutine:
            result = await result
        return None if result is None else encoded(result, f"task {self.name}")

    def _call(self, payload: str) -> Any:
        given, end = _decode(payload.lstrip())
        if end < len(payload):
            given = json.loads(payload)  # white space after it, or an error
        try:
            if isinstance(given, dict):
                return self.function(**given)
            if isinstance(given, list):
                return self.function(*given)
            return self.function() if given is None else self.function(given)
        except TypeError as error:
            in_function = error.__traceback__ is None or error.__traceback__.tb_next is not None
            misfit = None if in_function else self.misfit(given)
            if misfit is None:
                raise
        raise WrongArguments(misfit)

    def misfit(self, given: Any) -> str | None:
        """Why the function cannot be called with a payload, in a sentence; None if it can.

        Args:
            given: the decoded payload.
        """
        signature = self._signature
        if signature is None:
            return None
        try:
            if isinstance(given, dict):
                signature.bind(**given)
            else:
                signature.bind(
                    *(given if isinstance(given, list) else () if given is None else [given])
                )
        except TypeError as error:
            plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
            takes = signature.replace(parameters=plain, return_annotation=signature.empty)
            return f"the payload does not fit the task {self.name}{takes}: {error}"
        return None

    @functools.cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            # The wrapper's own signature: it may add arguments.
            return inspect.signature(self.function, follow_wrapped=False)
        except ValueError:
            return None  # some functions written in C have none

    def is_hopeless(self, error: BaseException) -> bool:
        """Does this error make a dead letter at once?"""
        kind = type(error)
        return issubclass(kind, self._hopeless) or not issubclass(kind, self._retried)

    def _kinds(self, setting: str, given: Exceptions) -> tuple[type[BaseException], ...]:
        kinds = (given,) if isinstance(given, type) else tuple(given)
        if wrong := [
            k for k in kinds if not (isinstance(k, type) and issubclass(k, BaseException))
        ]:
            raise ConfigError(
                f"task {self.name}: {setting} has {wrong[0]!r}, which is not an exception class"
            )
        return kinds


def encoded(result: object, whose: str) -> str | None:
    """A result as compact JSON text; None for None.

    Args:
        whose: names what returned the result, for the error message.

    Raises:
        ValueError: it is not JSON (NaN is not), or is larger than a payload may be.
    """
    if result is None:
        return None
    try:
        text = _encode(result)
        size = len(text) if text.isascii() else len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the result of {whose} is not JSON: {error}") from error
    if size > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"the result of {whose} has {size} bytes of JSON; at most "
            f"{MAX_PAYLOAD_BYTES} fit; store it elsewhere and return a reference"
        )
    return text


if TYPE_CHECKING:
    import asyncio

    class TypedTask(Task, Generic[P, R]):
        """The type of what `task` makes: it keeps the function's signature."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


@overload
def task(function: Callable[P, R], /) -> TypedTask[P, R]: ...


@overload
def task(
    name: str | None = None, /, **settings: Unpack[TaskKeywords]
) -> Callable[[Callable[P, R]], TypedTask[P, R]]: ...


def task(
    name: Callable[..., Any] | str | None = None, /, **settings: Unpack[TaskKeywords]
) -> Task | Callable[[Callable[..., Any]], Task]:
    """Make a function a task: `@task`, or `@task("flights.delay", max_attempts=3)`.

    Args:
        name: what requests call it; its own name if none is given.
        settings: `queue`, `priority`, `max_attempts`, `time_limit` and the rest, as in
            `TaskSettings`.

    Raises:
        ConfigError: as `Task`.
    """
    if callable(name):
        return Task(name)
    return lambda function: Task(function, name, **settings)


class Registry(dict[str, Task]):
    """Tasks by name.

    Raises:
        ConfigError: two different tasks have one name.
        UnknownTask: when asked for a name that no task has.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        super().__init__()
        for each in tasks:
            known = self.setdefault(each.name, each)
            if known is not each:
                raise ConfigError(
                    f"two tasks are named {each.name!r} ({_place(known)} and {_place(each)}); "
                    'give one of them another name: @task("name")'
                )

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownTask(self.unknown(name))

    def unknown(self, name: str) -> str:
        """The sentence for a name that no task has."""
        known = ", ".join(sorted(self)[:LISTED]) + (", ..." if len(self) > LISTED else "")
        return f"no task is named {name!r}; known are: {known or 'none'}"


@functools.cache
def _runner() -> asyncio.Runner:
    """One event loop for all coroutines that this process runs one after the other."""
    import asyncio

    return asyncio.Runner()


def _place(one: Task) -> str:
    return f"{one.function.__module__}.{one.function.__qualname__}"
