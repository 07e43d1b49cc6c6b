"""The tasks of a Django project, for `manage.py rowlease_worker` and its child processes."""

import sys

import django

from rowlease.errors import ConfigError
from rowlease.integrations.django.backend import COMMAND, find_tasks

if COMMAND not in sys.argv:
    raise ConfigError(
        f"a worker for Django's tasks is started by `manage.py {COMMAND}`, which uses the "
        "settings and the database of the project"
    )
django.setup()
for _task in find_tasks():
    # Child processes import a task by these two names; a dot would mean an attribute.
    _task.function.__module__ = __name__
    _task.function.__qualname__ = _task.name.replace(".", "/")
    globals()[_task.function.__qualname__] = _task
