"""A backend for Django's tasks: `django.tasks` of Django 6, or `django_tasks` on Django 5.2."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlencode

from django.core import checks
from django.db import close_old_connections, connections
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules, import_string

from rowlease.client.client import BoundProducer
from rowlease.context import current
from rowlease.errors import ConfigError
from rowlease.filters.filter import MAX_BIGINT
from rowlease.model import Request
from rowlease.store import Store, open_store
from rowlease.tasks.settings import TaskKeywords
from rowlease.tasks.task import Task

#: The command that runs a worker.
COMMAND = "rowlease_worker"
#: Django 6 has tasks of its own. For Django 5.2, the package django-tasks has the same API.
PACKAGE = "django.tasks" if find_spec("django.tasks") else "django_tasks"
_backends: Any = import_module(f"{PACKAGE}.backends.base")
_base: Any = import_module(f"{PACKAGE}.base")
_tasks: Any = import_module(PACKAGE)
_exceptions: Any = import_module(f"{PACKAGE}.exceptions")
_signals: Any = import_module(f"{PACKAGE}.signals")

#: The status of a result for each status of a request.
RESULT_STATUS = {
    "Scheduled": "READY",
    "Pending": "READY",
    "Processing": "RUNNING",
    "Complete": "SUCCESSFUL",
    "Failed": "FAILED",
    "Cancelled": "FAILED",
}
#: The default of the option `max_priority`.
DEFAULT_MAX_PRIORITY = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class DjangoTask(_base.Task):
    """A task of Django, with settings for rowlease: `@task(rowlease={"max_attempts": 1})`.

    Attributes:
        rowlease: the keys of `rowlease.tasks.settings.TaskKeywords`, except queue and priority.
    """

    rowlease: TaskKeywords = field(default_factory=TaskKeywords, hash=False)

    def __post_init__(self) -> None:
        _base.Task.__post_init__(self)
        try:
            of_rowlease(self)
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"the task {self.module_path}: {error}") from error


class RowleaseBackend(_backends.BaseTaskBackend):
    """Enqueues Django's tasks into the database of the application.

    The request is part of the transaction that is open on Django's connection: it exists if and
    only if that commits. The kind of the request is the path of the task's function.

    OPTIONS:
        database: the alias of the database, "default" by default. It must be PostgreSQL.
        max_priority: the queue's largest priority, to which Django's 100 is mapped; 9 by default.
        dashboard_url: the address of the dashboard, to which the pages of the admin link.
    """

    task_class = DjangoTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue one request, in the open transaction of Django's connection.

        Raises:
            TypeError: the arguments do not fit the task's parameters.
        """
        self.validate_task(task)
        _check_arguments(task, args, kwargs)
        # Make the same kind of result as `get_result`.
        result = self._result(task, "", "READY", list(args), dict(kwargs))
        own = of_rowlease(task).with_options(
            priority=self._priority_of(task), due_time=task.run_after
        )
        handle = BoundProducer(self._store, connections[self.database]).enqueue(
            own, args=result.args, kwargs=result.kwargs, backend=self.alias
        )
        object.__setattr__(result, "id", str(handle.request_id))
        object.__setattr__(result, "enqueued_at", timezone.now())
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """The result of a request, from the queue or its history, read on Django's connection."""
        is_id = result_id.isdecimal() and int(result_id) <= MAX_BIGINT
        connection = connections[self.database]
        request = self._store.get_request(int(result_id), connection) if is_id else None
        if request is None or '"backend"' not in (request.payload or ""):
            raise _exceptions.TaskResultDoesNotExist(result_id)
        return self.result_of(request)

    def result_of(self, request: Request) -> Any:
        """The request as a result object of Django."""
        payload = json.loads(request.payload or "{}")
        found = self._result(
            import_string(request.kind),
            str(request.request_id),
            RESULT_STATUS[request.status],
            payload["args"],
            payload["kwargs"],
        )
        workers = [each.worker_id for each in request.attempts]
        if request.locked_by is not None:
            workers.append(request.locked_by)
        starts = [each.started_time for each in request.attempts]
        starts += [] if request.locked_time is None else [request.locked_time]
        for name, value in {
            "enqueued_at": request.requested_time,
            "started_at": starts[0] if starts else None,
            "last_attempted_at": starts[-1] if starts else None,
            "finished_at": request.completion_time,
            "worker_ids": workers,
            "errors": [
                _base.TaskError(
                    exception_class_path=_class_path(each.error_type),
                    traceback=each.traceback or each.error or "",
                )
                for each in request.attempts
                if each.error is not None
            ],
            "_return_value": None if request.result is None else json.loads(request.result),
        }.items():
            object.__setattr__(found, name, value)
        return found

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """Check that the database is PostgreSQL."""
        vendor = connections[self.database].vendor
        if vendor != "postgresql":
            yield checks.Error(
                f"The rowlease backend {self.alias!r} needs PostgreSQL, but the database "
                f"{self.database!r} is {vendor}.",
                id="rowlease.E001",
            )

    @property
    def database(self) -> str:
        """The alias of its database."""
        return str(self.options.get("database", "default"))

    @property
    def _store(self) -> Store:
        return _store_at(dsn_of(self.database))

    def _priority_of(self, task: Any) -> int:
        largest = int(self.options.get("max_priority", DEFAULT_MAX_PRIORITY))
        priority: int = task.priority
        return round((priority + 100) * largest / 200)

    def _result(self, task: Any, key: str, status: str, args: Any, kwargs: Any) -> Any:
        return _base.TaskResult(
            task=task,
            id=key,
            status=_base.TaskResultStatus[status],
            enqueued_at=None,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


def rowlease_backends() -> list[RowleaseBackend]:
    """The backends of rowlease in the setting TASKS."""
    return [one for one in _tasks.task_backends.all() if isinstance(one, RowleaseBackend)]


def find_tasks() -> list[Task[..., Any]]:
    """All tasks of the project: in the modules `tasks` of its applications, and in all imported.

    Raises:
        ConfigError: there is no task.
    """
    autodiscover_modules("tasks")
    modules = [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
    values = [value for names in modules for value in list(names.values())]
    paths = {value.module_path for value in values if isinstance(value, _base.Task)}
    if not paths:
        raise ConfigError(
            f"no application has a task: write functions with @task of {PACKAGE} into the module "
            "tasks of an application"
        )
    return [of_rowlease(import_string(path)) for path in sorted(paths)]


def of_rowlease(task: Any) -> Task[..., Any]:
    """Django's task as one of rowlease, whose name is the path of the function.

    Raises:
        ConfigError, TypeError: a setting of `@task(rowlease=…)` is wrong.
    """
    path = task.module_path

    def run(args: list[Any], kwargs: dict[str, Any], backend: str) -> Any:
        return _run(path, args, kwargs, backend)

    return Task(run, path, queue=task.queue_name, **getattr(task, "rowlease", {}))


def _check_arguments(task: Any, args: Any, kwargs: Any) -> None:
    signature = inspect.signature(task.func)
    context = [None] if task.takes_context else []
    try:
        signature.bind(*context, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path}{signature}: {error}") from None


def _run(path: str, args: list[Any], kwargs: dict[str, Any], backend: str) -> Any:
    """Run the task with this path, as the backend with this alias."""
    found = import_string(path)
    close_old_connections()
    try:
        attempt = current()
        own = found.using(backend=backend).get_backend()
        result = own.get_result(str(attempt.request_id))
        _signals.task_started.send(type(own), task_result=result)
        if found.takes_context:
            args = [_base.TaskContext(task_result=result), *args]
        try:
            value = found.call(*args, **kwargs)
        except BaseException:
            object.__setattr__(result, "status", _base.TaskResultStatus.FAILED)
            _signals.task_finished.send(type(own), task_result=result)
            raise
        object.__setattr__(result, "status", _base.TaskResultStatus.SUCCESSFUL)
        _signals.task_finished.send(type(own), task_result=result)
        return value
    finally:
        close_old_connections()


@cache
def _store_at(dsn: str) -> Store:
    """A store that opens no connection, because it is called with those of Django only."""
    return open_store(dsn, application_name="django")


def dsn_of(alias: str) -> str:
    """The DSN of a database in Django's settings, with its OPTIONS for libpq, such as sslmode.

    Raises:
        ConfigError: the database is not PostgreSQL.
    """
    connection = connections[alias]
    if connection.vendor != "postgresql":
        raise ConfigError(
            f"rowlease needs PostgreSQL, but the database {alias!r} is {connection.vendor}; name "
            'another in TASKS: "OPTIONS": {"database": …}'
        )
    # Among the parameters of libpq are those of psycopg, which are objects, except one.
    given = connection.get_connection_params()
    given.pop("prepare_threshold", None)
    texts = {name: str(one) for name, one in given.items() if isinstance(one, str | int)}
    user, password, host, port, name = (
        quote(texts.pop(each, ""), "") for each in ("user", "password", "host", "port", "dbname")
    )
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    place = f"{host}:{port}" if port else host
    return f"postgresql://{login}{place}/{name}?{urlencode(texts, quote_via=quote)}"


def _class_path(error_type: str | None) -> str:
    name = error_type or "RuntimeError"
    return name if "." in name else f"builtins.{name}"
