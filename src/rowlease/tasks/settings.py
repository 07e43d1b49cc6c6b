"""The settings of a task and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import NoneType
from typing import TYPE_CHECKING, Any, TypedDict

from rowlease.errors import ConfigError
from rowlease.model import DURATION, FIELD_TYPES, TEXT, TypeRule, short_repr

if TYPE_CHECKING:
    from rowlease.tasks.task import Task

#: A function of an older payload's arguments and version, which returns converted arguments.
Migrate = Callable[[dict[str, Any], int], dict[str, Any]]
Exceptions = type[BaseException] | Iterable[type[BaseException]]

#: The maximum number of characters in a name: the length of the column `kind`.
MAX_NAME = 200
#: The kinds of slots that run tasks.
EXECUTORS = ("process", "thread", "coroutine")
#: The type rules of the settings that have a simple type.
SETTING_TYPES: dict[str, TypeRule] = {
    "name": ((str,), "it must be a string"),
    **dict.fromkeys(("queue", "executor", "cron", "time_zone"), TEXT),
    **{setting: FIELD_TYPES[setting] for setting in ("priority", "max_attempts", "retry_base")},
    **dict.fromkeys(("time_limit", "soft_time_limit", "retry_pause", "expires"), DURATION),
    "cron_arguments": ((dict, NoneType), "it must be a dict of arguments by name"),
    **dict.fromkeys(("catch_up", "version"), ((int,), "it must be an integer of 1 or more")),
}
#: The maximum number of missed firings of a schedule that workers may enqueue late.
MAX_CATCH_UP = 1000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TaskSettings:
    """The settings of a task.

    Attributes:
        name: the `kind` of its requests.
        queue: the queue of its requests; None means "default".
        priority: the priority of its requests.
        max_attempts: the maximum number of attempts of a request; None means the queue's setting.
        time_limit: the longest time that one attempt may run. An attempt that takes longer fails,
            and its child process, if it has one, is killed.
        soft_time_limit: the time after which SoftTimeLimitExceeded is raised in an attempt. In a
            thread, nothing can be raised: `current().should_stop` becomes true instead.
        retry_base: the pause after the first failed attempt. It doubles after each attempt, and
            up to half of each pause is taken off at random. None means the queue's setting.
        retry_pause: the same pause after each failed attempt, in place of `retry_base`.
        expires: the time after its enqueue from which a request is not started any more.
        executor: the kind of slot that runs the task: "process", "thread" or "coroutine".
        retry_on: exceptions after which the request is tried again. The default is all exceptions.
        dead_letter_on: exceptions that make the request a dead letter, even if `retry_on` has them.
        on_dead_letter: a task that is enqueued when a request becomes a dead letter, for whatever
            reason. It is called with `request_id`, `kind` and `error` of the dead letter.
        takes_dead_letters: whether the task is the `on_dead_letter` of all tasks of its worker that
            have none.
        cron: the times at which workers enqueue the task: minute, hour, day, month and weekday in
            the local time of `time_zone`; a sixth field before them is for seconds. A parameter
            `scheduled_time` receives the time of the firing (ISO 8601, UTC).
        cron_arguments: the other arguments of each firing, by name.
        time_zone: the IANA name of the time zone of `cron`.
        catch_up: the maximum number of missed firings that are enqueued late, from 1 to 1000. If
            more were missed, the latest are enqueued.
        version: the payload version, 1 or more. A payload has its version in the key "$version"; a
            payload without this key has version 1.
        migrate: a function that gets the arguments and the version of an older payload, and returns
            the arguments of this version. Arguments are a dict of JSON values. A version above 1
            needs this function.

    A producer may set another queue, priority, `max_attempts`, `retry_base` or `expires` for a
    request. These five settings of the task do not apply to requests that are enqueued by the
    task's name or from SQL (docs/tasks.md).

    Raises:
        ConfigError: a setting is wrong.
    """

    name: str
    queue: str | None = None
    priority: int = 0
    max_attempts: int | None = None
    time_limit: timedelta | None = None
    soft_time_limit: timedelta | None = None
    retry_base: timedelta | None = None
    retry_pause: timedelta | None = None
    expires: timedelta | None = None
    executor: str | None = None
    retry_on: Exceptions = BaseException
    dead_letter_on: Exceptions = ()
    on_dead_letter: Task[..., Any] | None = None
    takes_dead_letters: bool = False
    cron: str | None = None
    cron_arguments: dict[str, Any] | None = None
    time_zone: str = "UTC"
    catch_up: int = 1
    version: int = 1
    migrate: Migrate | None = None

    def __post_init__(self) -> None:
        for setting, (kinds, advice) in SETTING_TYPES.items():
            value = getattr(self, setting)
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ConfigError(f"task {self.name}: {setting} is {short_repr(value)}; {advice}")
        if not 1 <= len(self.name) <= MAX_NAME:
            raise ConfigError(f"the task name {self.name!r} must have 1 to {MAX_NAME} characters")
        if self.executor is not None:
            check_executor(self.executor, f"task {self.name}: ")
        if self.priority < 0:
            raise self._wrong("priority", "it must be 0 or more")
        if self.max_attempts is not None and self.max_attempts < 1:
            raise self._wrong("max_attempts", "it must be 1 or more")
        if self.cron_arguments is not None and self.cron is None:
            raise self._wrong("cron_arguments", "it needs cron")
        if not 1 <= self.catch_up <= MAX_CATCH_UP:
            raise self._wrong("catch_up", f"it must be 1 to {MAX_CATCH_UP}")
        if self.version < 1:
            raise self._wrong("version", "it must be 1 or more")
        if (self.migrate is None) != (self.version == 1):
            raise self._wrong(
                "version", "a version above 1 needs `migrate`; version 1 must not have it"
            )
        if self.takes_dead_letters not in (True, False):
            raise self._wrong("takes_dead_letters", "it must be True or False")
        if self.takes_dead_letters and self.on_dead_letter is not None:
            raise self._wrong(
                "on_dead_letter",
                "a task that takes dead letters must have none",
            )
        if self.retry_base is not None and self.retry_pause is not None:
            raise self._wrong("retry_pause", "it cannot be combined with retry_base")
        for setting in ("time_limit", "soft_time_limit", "retry_base", "retry_pause", "expires"):
            given = getattr(self, setting)
            if given is not None and given <= timedelta(0):
                raise self._wrong(setting, "it must be positive")
        hard, soft = self.time_limit, self.soft_time_limit
        if hard is not None and soft is not None and hard <= soft:
            raise self._wrong("soft_time_limit", f"it must be shorter than time_limit, {hard}")

    def _wrong(self, setting: str, advice: str) -> ConfigError:
        return ConfigError(f"task {self.name}: {setting} is {getattr(self, setting)}; {advice}")


def check_executor(name: str, whose: str = "") -> None:
    """Raise ConfigError unless there is an executor of this name."""
    if name not in EXECUTORS:
        raise ConfigError(f"{whose}executor is {name!r}; it must be one of {', '.join(EXECUTORS)}")


class TaskKeywords(TypedDict, total=False):
    """The fields of `TaskSettings` except `name`, as keyword arguments."""

    queue: str | None
    priority: int
    max_attempts: int | None
    time_limit: timedelta | None
    soft_time_limit: timedelta | None
    retry_base: timedelta | None
    retry_pause: timedelta | None
    expires: timedelta | None
    executor: str | None
    retry_on: Exceptions
    dead_letter_on: Exceptions
    on_dead_letter: Task[..., Any] | None
    takes_dead_letters: bool
    cron: str | None
    cron_arguments: dict[str, Any] | None
    time_zone: str
    catch_up: int
    version: int
    migrate: Migrate | None
