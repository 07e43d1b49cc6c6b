"""Tasks: the functions that run requests."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from rowlease.errors import ConfigError, InvalidRequest, UnknownTask, WrongArguments
from rowlease.tasks import codec
from rowlease.tasks.cron import cron_for
from rowlease.tasks.parameters import Parameters
from rowlease.tasks.requests import (
    CALL_OPTIONS,
    DEFAULT_QUEUE,
    REQUEST_OPTIONS,
    ForEnqueueMany,
    Options,
    TaskRequest,
    check_names,
    make_request,
)
from rowlease.tasks.settings import Exceptions, TaskKeywords, TaskSettings
from rowlease.tasks.signature import check_function

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: The maximum number of tasks that an error message lists.
MAX_LISTED_TASKS = 20


class Task(TaskSettings, Generic[P, R]):
    """A function that runs requests of one kind, with its settings.

    The decorator `task` makes a Task. Calling a Task just calls the function, and enqueues nothing.

    Args:
        function: the function. Child processes import it, so for the executor "process" it must be
            at the top level of a module or of the script.
        name: the `kind` of the task's requests; None means the name of the function.
        settings: the other fields of `TaskSettings`. They are attributes of the task, too.

    Attributes:
        is_coroutine: true if the function is an `async def`.
        options: the options that `with_options` has set.
        parameters: the parameters of the function.
        timetable: the cron expression of the task; None if it has none.

    Raises:
        ConfigError, TypeError: a setting is wrong, or its name is unknown.
    """

    def __init__(
        self,
        function: Callable[P, R],
        name: str | None = None,
        **settings: Unpack[TaskKeywords],
    ) -> None:
        check_function(function, name)
        functools.update_wrapper(self, function)
        check_names(settings, TaskKeywords.__annotations__)
        super().__init__(name=function.__name__ if name is None else name, **settings)
        self.function: Callable[P, R] = function
        self.options: Options = {}
        self.parameters = Parameters(function, f"the task {self.name}", self.version, self.migrate)
        self.is_coroutine = inspect.iscoroutinefunction(function)
        self.timetable = (
            None
            if self.cron is None
            else cron_for(function, self.name, self.cron, self.time_zone, self.cron_arguments or {})
        )
        if self.on_dead_letter is not None:
            self._check_on_dead_letter(self.on_dead_letter)
        self._retried = self._exception_classes("retry_on", self.retry_on)
        self._hopeless = self._exception_classes("dead_letter_on", self.dead_letter_on)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def limit_seconds(self) -> float | None:
        """The time limit in seconds."""
        return self.time_limit.total_seconds() if self.time_limit else None

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    if not TYPE_CHECKING:  # a type checker refuses these names itself

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"a task has no {name!r}; use client.enqueue(task, ...)")

    def with_options(self, **options: Unpack[Options]) -> Self:
        """A copy of this task that sets options: `client.enqueue(task.with_options(…), …)`.

        Args:
            options: the keys of `Options`. Options of earlier calls stay.

        Raises:
            TypeError: the name of an option is unknown.
        """
        changed = copy.copy(self)
        changed.options = self.options | check_names(options, REQUEST_OPTIONS)
        return changed

    def request(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskRequest[R]:
        """A request to call this task with these arguments, for `Client.enqueue_many`.

        Raises:
            InvalidRequest: the arguments do not fit the task's parameters, cannot be written as
                JSON, or are too large; or an option is wrong. The options `wait`, `receipt`,
                `batch_id` and `after` belong to the call: give them to `enqueue_many`.
            ConfigError: an annotation of the task cannot be read.
        """
        return self._request(self._payload(self.parameters.payload, args, kwargs), of_call=False)

    def s(self, /, *args: Any, **kwargs: Any) -> Link[R]:
        """A link of a chain, or a member of a batch: this task with these arguments.

        In `chain(shrink.s("a.png"), publish.s(width=200))`, the result of `shrink` becomes the
        first argument of `publish`. For a link that does not take the result of the link before
        it, use `request`, which takes all arguments.
        """
        return Link(self, args, kwargs)

    def for_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskRequest[R]:
        """A request with these arguments. The options may have those of a call."""
        return self._request(self._payload(self.parameters.payload, args, kwargs), of_call=True)

    def without_first(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[TaskRequest[R], str]:
        """A request that lacks its first argument, and the name of that argument."""
        build = self.parameters.payload_without_first
        payload, first = self._payload(build, args, kwargs)
        return self._request(payload, of_call=False), first

    def _payload(self, build: Callable[..., T], args: Any, kwargs: dict[str, Any]) -> T:
        try:
            return build(args, kwargs)
        except WrongArguments as error:
            options = [
                one for one in kwargs if one in REQUEST_OPTIONS and not self.parameters.takes(one)
            ]
            if not options:
                raise
            advice = f"an option is set by with_options({'=…, '.join(options)}=…)"
            raise WrongArguments(f"{error}; {advice}") from error

    def _request(self, payload: str, *, of_call: bool) -> TaskRequest[R]:
        if not of_call and (wrong := CALL_OPTIONS & self.options.keys()):
            raise InvalidRequest(
                f"{min(wrong)} is an option of a call, not of a request; give it to enqueue_many"
            )
        given: dict[str, Any] = dict(self.options)
        for name in ("queue", "priority", "max_attempts", "retry_base", "expires"):
            if given.get(name) is None:
                given[name] = getattr(self, name)
        return make_request(self.name, payload, self.parameters.result, cast("Options", given))

    def run(self, payload: str) -> str | None:
        """Call the function with the arguments in a payload; see `Parameters.arguments`.

        Returns:
            The result as compact JSON text; None if the function returns None.

        Raises:
            WrongArguments: the payload is not JSON, or does not fit the function's parameters. The
                function was not called.
            ConfigError: an annotation cannot be read.
            Retry: the payload has a higher payload version than the task.
            ValueError: the result cannot be written as JSON (NaN, for example), or is larger than a
                payload may be.
            Exception: any exception of the function.
        """
        args, kwargs = self.parameters.arguments(payload)
        result: Any = self.function(*args, **kwargs)
        if self.is_coroutine:
            # Each coroutine needs its own context. Otherwise it would share that of the first one.
            result = runner().run(result, context=copy_context())
        return None if result is None else encode_result(result, f"task {self.name}")

    async def run_coroutine(self, payload: str) -> str | None:
        """The same as `run`, in the running event loop."""
        args, kwargs = self.parameters.arguments(payload)
        result: Any = self.function(*args, **kwargs)
        if self.is_coroutine:
            result = await result
        return None if result is None else encode_result(result, f"task {self.name}")

    def is_hopeless(self, error: BaseException) -> bool:
        """True if this error makes the request a dead letter at once."""
        kind = type(error)
        return issubclass(kind, self._hopeless) or not issubclass(kind, self._retried)

    def _check_on_dead_letter(self, given: object) -> None:
        if not isinstance(given, Task):
            raise self._wrong("on_dead_letter", "it must be a task")
        if given.on_dead_letter is not None:
            raise self._wrong(
                "on_dead_letter", "it must have no on_dead_letter itself, or failures might not end"
            )

    def for_dead_letters(self) -> tuple[str, str]:
        """The queue and the kind of the requests with which this task takes dead letters.

        Raises:
            ConfigError: the task does not take what it will be called with.
        """
        try:
            self.parameters.payload((), {"request_id": 1, "kind": "", "error": ""})
        except WrongArguments as error:
            raise ConfigError(
                f"task {self.name} takes dead letters, but is called with other arguments: {error}"
            ) from error
        return self.queue or DEFAULT_QUEUE, self.name

    def _exception_classes(
        self, setting: str, given: Exceptions
    ) -> tuple[type[BaseException], ...]:
        classes = (given,) if isinstance(given, type) else tuple(given)
        if wrong := [
            k for k in classes if not (isinstance(k, type) and issubclass(k, BaseException))
        ]:
            raise ConfigError(
                f"task {self.name}: {setting} has {wrong[0]!r}, which is not an exception class"
            )
        return classes


@dataclass(frozen=True, slots=True)
class Link(ForEnqueueMany, Generic[R]):
    """A task with its arguments; made by `Task.s`.

    In a chain, all but the first link get the result of the link before as their first argument.
    """

    task: Task[..., R]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def request(self) -> TaskRequest[R]:
        """The request for a link that has all its arguments."""
        return self.task.request(*self.args, **self.kwargs)

    def request_without_result(self) -> tuple[TaskRequest[R], str]:
        """The request for a link that follows another one, and the name of its first argument."""
        return self.task.without_first(self.args, self.kwargs)


def encode_result(result: object, whose: str) -> str | None:
    """A result as compact JSON text; None for the result None.

    Args:
        whose: the source of the result, for the error message.

    Raises:
        ValueError: the result cannot be written as JSON (NaN, for example), or is larger than a
            payload may be.
    """
    if result is None:
        return None
    try:
        return codec.encode(result)
    except ValueError as error:
        raise ValueError(f"the result of {whose} {error}") from error


if TYPE_CHECKING:
    import asyncio

    class CoroutineTask(Task[P, R]):
        """The type of a task that is an `async def`. `R` is the type of the awaited result."""

        def __call__(  # type: ignore[override]
            self, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, R]: ...

    class Decorator(Protocol):
        """The type of the decorator `task(...)`."""

        @overload
        def __call__(
            self, function: Callable[P, Coroutine[Any, Any, R]], /
        ) -> CoroutineTask[P, R]: ...

        @overload
        def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(function: Callable[P, Coroutine[Any, Any, R]], /) -> CoroutineTask[P, R]: ...


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(name: str | None = None, /, **settings: Unpack[TaskKeywords]) -> Decorator: ...


def task(
    name: Callable[..., Any] | str | None = None, /, **settings: Unpack[TaskKeywords]
) -> Task[..., Any] | Callable[[Callable[..., Any]], Task[..., Any]]:
    """Make a function a task: `@task`, or `@task("flights.delay", max_attempts=3)`.

    Args:
        name: the `kind` of the task's requests. The default is the name of the function.
        settings: the other fields of `TaskSettings`: `queue`, `priority`, `max_attempts`,
            `time_limit` and so on.

    Raises:
        ConfigError: a setting is wrong.
    """
    if callable(name):
        return Task(name)
    return lambda function: Task(function, name, **settings)


class Registry(dict[str, Task[..., Any]]):
    """Tasks by name.

    Raises:
        ConfigError: two different tasks have the same name.
        UnknownTask: no task has the name that is looked up.
    """

    def __init__(self, tasks: Iterable[Task[..., Any]]) -> None:
        super().__init__()
        for each in tasks:
            first = self.setdefault(each.name, each)
            if first.function is not each.function:
                raise ConfigError(
                    f"two tasks are named {each.name!r} ({_place(first)} and {_place(each)}); "
                    'give one of them another name: @task("name")'
                )

    def dead_letter_tasks(self) -> dict[str, tuple[str, str] | None]:
        """For each task the queue and the kind of the requests for its dead letters, or None.

        Raises:
            ConfigError: two tasks take the dead letters of all, or a task for dead letters does not
                take what it will be called with.
        """
        takers = [each for each in self.values() if each.takes_dead_letters]
        if len(takers) > 1:
            names = " and ".join(each.name for each in takers)
            raise ConfigError(f"the tasks {names} have takes_dead_letters; give it to one of them")
        named = {each.on_dead_letter.name for each in self.values() if each.on_dead_letter}
        found: dict[str, tuple[str, str] | None] = {}
        for each in self.values():
            own = [each.on_dead_letter] if each.on_dead_letter else takers
            is_end = each.takes_dead_letters or each.name in named
            found[each.name] = own[0].for_dead_letters() if own and not is_end else None
        return found

    def __missing__(self, name: str) -> NoReturn:
        raise UnknownTask(self.unknown(name))

    def unknown(self, name: str) -> str:
        """The error message for a name that no task has."""
        known = ", ".join(sorted(self)[:MAX_LISTED_TASKS]) + (
            ", ..." if len(self) > MAX_LISTED_TASKS else ""
        )
        return f"no task is named {name!r}; the known tasks are: {known or 'none'}"


@functools.cache
def runner() -> asyncio.Runner:
    """The event loop in which this process runs coroutines one after the other."""
    import asyncio

    return asyncio.Runner()


def _place(one: Task[..., Any]) -> str:
    return f"{one.function.__module__}.{one.function.__qualname__}"
