"""Where a child process finds the tasks: what `rowlease.worker.child` imports them by."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from rowlease.errors import ConfigError
from rowlease.tasks import Registry


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
        {"path": path, "script": script and str(Path(script).resolve()), "tasks": places}
    ).encode()
