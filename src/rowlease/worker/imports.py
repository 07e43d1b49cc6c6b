"""The tasks of a worker: gathered from what it was given, and found again by its children."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from rowlease.errors import ConfigError, UnknownTask
from rowlease.tasks import Registry, Task, load_tasks


def set_up(tasks: Registry) -> bytes:
    """What a child needs to import these tasks.

    Raises:
        ConfigError: a task cannot be imported by another process.
    """
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    script = None
    places = []
    for each in tasks.values():
        module, qualname = each.function.__module__, each.function.__qualname__
        if module == "__main__" and spec:
            module = spec.name
        elif module == "__main__":
            module, script = "", file
        if "<" in qualname or (not module and not script):
            raise ConfigError(
                f"task {each.name} ({qualname}) cannot be imported by child processes; "
                "move it to the top level of a module"
            )
        places.append((module, qualname, each.name))
    path = [entry or os.getcwd() for entry in sys.path]
    return json.dumps(
        {
            "path": path,
            "arguments": sys.argv,
            "script": script and str(Path(script).resolve()),
            "tasks": places,
        }
    ).encode()


def registry_of(tasks: str | Task | Iterable[Task] | Registry) -> Registry:
    """The tasks that somebody handed over, by name, in whatever form they came.

    Raises:
        ConfigError, UnknownTask: as `load_tasks`; or there is none.
    """
    if isinstance(tasks, str):
        return load_tasks(tasks)
    if isinstance(tasks, Registry):
        return tasks
    found = Registry([tasks] if isinstance(tasks, Task) else tasks)
    if not found:
        raise UnknownTask("at least one task is needed")
    return found
