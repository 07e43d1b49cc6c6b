"""The settings of a task and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

from rowlease.errors import ConfigError

#: The arguments of the present version, from those of an older payload and its version.
Migrate = Callable[[dict[str, Any], int], dict[str, Any]]
Exceptions = type[BaseException] | Iterable[type[BaseException]]

#: The length in characters of the column `kind`.
MAX_NAME = 200
#: The most missed firings that can be made up.
MAX_CATCH_UP = 1000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TaskSettings:
    """The settings of a task.

    Attributes:
        name: the `kind` of its requests.
        queue: the queue of its requests; None means "default".
        priority: the priority of its requests.
        max_attempts: the most attempts of its requests; None takes the queue's setting.
        time_limit: how long one attempt may run. After that its process is killed and the attempt
            fails.
        soft_time_limit: how long one attempt may run before SoftTimeLimitExceeded is raised in it.
        retry_base: the pause after the first failed attempt. It doubles after each attempt, and
            half of it is random. None takes the queue's setting.
        executor: what its workers run it in: "process", "thread" or "coroutine".
        retry_on: exceptions after which the request is tried again. The default is all.
        dead_letter_on: exceptions that make the request a dead letter, even if `retry_on` has them.
        cron: when workers enqueue it: minute, hour, day, month and weekday, by the wall clock of
            `time_zone`. The task gets no arguments; if it has a parameter `scheduled_time`, it
            gets the time of the firing (ISO 8601, UTC).
        time_zone: the time zone of `cron`, by its IANA name.
        catch_up: how many missed firings are made up, the latest ones (1 to 1000).
        version: of the payload's shape, 1 or more; a payload says so by `"$version"`, without which
            it has version 1.
        migrate: makes the arguments of this version, from those of an older payload and its
            version; both are dicts of JSON values. A version above 1 needs it.

    A producer may give another queue, priority, `max_attempts` or `retry_base`. None of these four
    applies to a request that is enqueued by the task's name or from SQL (docs/tasks.md).

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
    executor: str | None = None
    retry_on: Exceptions = BaseException
    dead_letter_on: Exceptions = ()
    cron: str | None = None
    time_zone: str = "UTC"
    catch_up: int = 1
    version: int = 1
    migrate: Migrate | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= MAX_NAME:
            raise ConfigError(f"the task name {self.name!r} must have 1 to {MAX_NAME} characters")
        if self.priority < 0:
            raise self._wrong("priority", "it must be 0 or more")
        if self.max_attempts is not None and self.max_attempts < 1:
            raise self._wrong("max_attempts", "it must be 1 or more")
        if not 1 <= self.catch_up <= MAX_CATCH_UP:
            raise self._wrong("catch_up", f"it must be 1 to {MAX_CATCH_UP}")
        if self.version < 1:
            raise self._wrong("version", "it must be 1 or more")
        if (self.migrate is None) != (self.version == 1):
            raise self._wrong("version", "a version above 1 needs `migrate`, and only that does")
        for setting in ("time_limit", "soft_time_limit", "retry_base"):
            given = getattr(self, setting)
            if given is not None and given <= timedelta(0):
                raise self._wrong(setting, "it must be positive")
        hard, soft = self.time_limit, self.soft_time_limit
        if hard is not None and soft is not None and hard <= soft:
            raise self._wrong("soft_time_limit", f"it must be shorter than time_limit, {hard}")

    def _wrong(self, setting: str, advice: str) -> ConfigError:
        return ConfigError(f"task {self.name}: {setting} is {getattr(self, setting)}; {advice}")


class TaskKeywords(TypedDict, total=False):
    """The fields of `TaskSettings` but `name`, as keyword arguments."""

    queue: str | None
    priority: int
    max_attempts: int | None
    time_limit: timedelta | None
    soft_time_limit: timedelta | None
    retry_base: timedelta | None
    executor: str | None
    retry_on: Exceptions
    dead_letter_on: Exceptions
    cron: str | None
    time_zone: str
    catch_up: int
    version: int
    migrate: Migrate | None
