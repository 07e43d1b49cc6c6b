"""A backend for Django's tasks: `django.tasks` of Django 6, or `django_tasks` on Django 5.2.

    TASKS = {"default": {"BACKEND": "rowlease.integrations.django_tasks.RowleaseBackend"}}

A worker for these tasks: `DJANGO_SETTINGS_MODULE=site.settings rowlease worker
rowlease.integrations.django_tasks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

import django
from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections
from django.utils import timezone
from django.utils.module_loading import import_string

from rowlease.client.client import BoundProducer
from rowlease.context import current
from rowlease.filters.filter import MAX_BIGINT
from rowlease.model import Request
from rowlease.store import Store, open_store
from rowlease.tasks.task import task

#: Django 6 has tasks of its own. For Django 5.2, the package django-tasks has the same API.
PACKAGE = "django.tasks" if find_spec("django.tasks") else "django_tasks"
_backends: Any = import_module(f"{PACKAGE}.backends.base")
_base: Any = import_module(f"{PACKAGE}.base")
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


class RowleaseBackend(_backends.BaseTaskBackend):  # type: ignore[misc]
    """Enqueues Django's tasks into the database of the application.

    The request is part of the transaction that is open on Django's connection: it exists if and
    only if that commits.

    OPTIONS:
        database: the alias of the database, "default" by default. It must be PostgreSQL.
        max_priority: the queue's largest priority, to which Django's 100 is mapped; 9 by default.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue one request, in the open transaction of Django's connection."""
        self.validate_task(task)
        # Make the same kind of result as `get_result`.
        result = self._result(task, "", "READY", list(args), dict(kwargs))
        handle = BoundProducer(self._store, connections[self._alias]).enqueue_untyped(
            run_task.name,
            {
                "task": task.module_path,
                "args": result.args,
                "kwargs": result.kwargs,
                "backend": self.alias,
            },
            queue=task.queue_name,
            priority=round((task.priority + 100) * self._max_priority / 200),
            due_time=task.run_after,
        )
        object.__setattr__(result, "id", str(handle.request_id))
        object.__setattr__(result, "enqueued_at", timezone.now())
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """The result of a request, from the queue or its history."""
        is_id = result_id.isdecimal() and int(result_id) <= MAX_BIGINT
        request = self._store.get_request(int(result_id)) if is_id else None
        if request is None or request.kind != run_task.name or request.payload is None:
            raise _exceptions.TaskResultDoesNotExist(result_id)
        return self.result_of(request)

    def result_of(self, request: Request) -> Any:
        """The request as a result object of Django."""
        payload = json.loads(request.payload or "{}")
        found = self._result(
            import_string(payload["task"]),
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
        vendor = connections[self._alias].vendor
        if vendor != "postgresql":
            yield checks.Error(
                f"The rowlease backend {self.alias!r} needs PostgreSQL, but the database "
                f"{self._alias!r} is {vendor}.",
                id="rowlease.E001",
            )

    @property
    def _alias(self) -> str:
        return str(self.options.get("database", "default"))

    @property
    def _max_priority(self) -> int:
        return int(self.options.get("max_priority", DEFAULT_MAX_PRIORITY))

    @property
    def _store(self) -> Store:
        return _store_at(_dsn(connections[self._alias].settings_dict))

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


@task("django_task")
def run_task(task: str, args: list[Any], kwargs: dict[str, Any], backend: str = "default") -> Any:
    """Run one of Django's tasks.

    Args:
        task: the path of its function.
        args, kwargs: the arguments of the function.
        backend: the alias of the backend in TASKS.
    """
    if not apps.ready:
        django.setup()
    found = import_string(task)
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
    """The store of a database. All backends share it: Django makes a backend for each context."""
    return open_store(dsn, application_name="django")


def _dsn(settings: dict[str, Any]) -> str:
    """The DSN of a database in Django's settings."""
    if "postgresql" not in settings["ENGINE"]:
        raise ImproperlyConfigured(
            f"rowlease needs PostgreSQL, but ENGINE is {settings['ENGINE']!r}; name another "
            'database in TASKS: "OPTIONS": {"database": …}'
        )
    user, password = quote(settings["USER"] or "", ""), quote(settings["PASSWORD"] or "", "")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host = settings["HOST"] or ""
    if host.startswith("/"):  # the folder of a socket
        host = quote(host, "")
    port = f":{settings['PORT']}" if settings["PORT"] else ""
    return f"postgresql://{login}{host}{port}/{quote(settings['NAME'] or '', '')}"


def _class_path(error_type: str | None) -> str:
    name = error_type or "RuntimeError"
    return name if "." in name else f"builtins.{name}"
