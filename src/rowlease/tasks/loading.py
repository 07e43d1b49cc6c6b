"""Finds the tasks of a worker, and imports them again in its child processes."""

from __future__ import annotations

import importlib
import inspect
import os
import runpy
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from rowlease.declared_queues import Queue
from rowlease.errors import ConfigError, UnknownTask
from rowlease.tasks.requests import DEFAULT_QUEUE
from rowlease.tasks.task import Registry, Task

#: The place of a task, for child processes: the module of its function ("" means the script), the
#: qualified name of the function in the module, and the name of the task.
Place = tuple[str, str, str]
#: The `__name__` of the script in a child process.
IN_CHILD = "__rowlease_main__"
#: The forms in which a caller may give tasks: a path for `load_tasks`, one or several tasks, or a
#: registry.
Tasks = str | Task[..., Any] | Iterable[Task[..., Any]] | Registry


def load_tasks(*paths: str) -> Registry:
    """Import modules and collect their tasks.

    Args:
        paths: `package.module` for all tasks of a module; `package.module:name` for the task with
            that name in the module, or for all tasks of the list or module with that name.

    Raises:
        ConfigError: a module cannot be imported, or has nothing with that name; or two tasks have
            one name.
        UnknownTask: a module has no task.
    """
    return Registry(one for path in paths for one in _tasks_of(path))


def _tasks_of(path: str) -> list[Task[..., Any]]:
    module_name, _, attribute = path.partition(":")
    found: object = import_named(module_name)
    for part in attribute.split(".") if attribute else ():
        if not hasattr(found, part):
            raise ConfigError(f"the module {module_name} has nothing named {attribute!r}")
        found = getattr(found, part)
    if isinstance(found, Task):
        found = [found]
    elif isinstance(found, ModuleType):
        found = list(vars(found).values())
    elif isinstance(found, dict):
        found = list(found.values())
    tasks = [one for one in found if isinstance(one, Task)] if isinstance(found, Iterable) else []
    if not tasks:
        raise UnknownTask(f"there is no task in {path}; decorate functions with @rowlease.task")
    return tasks


def load_queues(*paths: str) -> list[Queue]:
    """Import modules, and collect the queues that they declare and the queues of their tasks.

    Args:
        paths: the same as for `load_tasks`. A name after the colon is ignored.

    Raises:
        ConfigError: a module cannot be imported, there is no queue, or one is declared twice.
    """
    modules = [import_named(path.partition(":")[0]) for path in paths]
    values = [value for module in modules for value in vars(module).values()]
    tasks = [one for one in values if isinstance(one, Task)]
    found: dict[str, Queue] = {}
    for one in [*values, *(task.queue for task in tasks)]:
        if isinstance(one, Queue) and found.setdefault(one, one).settings != one.settings:
            raise ConfigError(f"{', '.join(paths)}: the queue {one} is declared twice")
    for task in tasks:
        name = task.queue or DEFAULT_QUEUE
        found.setdefault(name, Queue(name))
    if not found:
        raise ConfigError(f"there is neither a queue nor a task in {', '.join(paths)}")
    return list(found.values())


def import_named(name: str) -> ModuleType:
    """Import the module with this name.

    Raises:
        ConfigError: there is no such module, or its import fails.
    """
    if not name:
        raise ConfigError(
            "give the module that has the tasks: package.module or package.module:name"
        )
    if name.endswith(".py"):
        module = os.path.basename(name).removesuffix(".py")
        raise ConfigError(
            f"{name} is a file; give the name of its module: {module}, or package.{module}"
        )
    if "/" in name or name.startswith("."):
        raise ConfigError(f"{name} is a path; give the name of the module: package.module")
    if "," in name or " " in name:
        raise ConfigError(
            f"{name!r} is not the name of one module; write each as a word of its own"
        )
    try:
        return importlib.import_module(name)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            parent, _, last = name.rpartition(".")
            if error.name == name and hasattr(sys.modules.get(parent), last):
                action = f"to run {last} of the module {parent}, write {parent}:{last}"
            else:
                action = "change to its folder, or set PYTHONPATH"
            raise ConfigError(f"there is no module {error.name!r}; {action}") from error
        raise ConfigError(f"importing {name} failed: {error}{_place_of(error)}") from error
    except Exception as error:
        what = f"{type(error).__name__}: {error}{_place_of(error)}"
        raise ConfigError(f"importing {name} failed: {what}") from error


def _place_of(error: Exception) -> str:
    """The place of the last line that ran before this error, without Python's and rowlease's."""
    if isinstance(error, SyntaxError):
        return ""  # it names its own place
    own = str(Path(__file__).parents[1])
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(("<frozen ", own)):
            return f" ({frame.filename}, line {frame.lineno})"
    return ""


def registry_of(tasks: Tasks) -> Registry:
    """The tasks that a caller gave, by name.

    Raises:
        ConfigError: for the same reasons as `load_tasks`, or because an annotation of a task cannot
            be read.
        UnknownTask: there is no task.
    """
    if isinstance(tasks, str):
        found = load_tasks(tasks)
    elif isinstance(tasks, Registry):
        found = tasks
    else:
        found = Registry([tasks] if isinstance(tasks, Task) else tasks)
    if not found:
        raise UnknownTask("there is no task; give at least one")
    for each in found.values():
        each.parameters.check()
    return found


def set_up(tasks: Registry) -> dict[str, Any]:
    """The message that tells a child process how to import these tasks.

    Raises:
        ConfigError: another process cannot import a task, or this process is a child that has come
            here because the script starts a worker when it is imported.
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
        elif module == IN_CHILD:
            raise ConfigError(
                "the script starts a worker whenever it is imported, as each child process does; "
                'begin what only the program itself must do with `if __name__ == "__main__":`'
            )
        if "<" in qualname or (not module and not script):
            raise ConfigError(
                f"task {each.name} ({qualname}) cannot be imported by child processes; "
                "move it to the top level of a module"
            )
        places.append((module, qualname, each.name))
    path = [entry or os.getcwd() for entry in sys.path]
    return {
        "path": path,
        "arguments": sys.argv,
        "script": script and os.path.realpath(script),
        "tasks": places,
    }


def descriptions(tasks: Registry) -> dict[str, str]:
    """For each kind, the place of its function and its parameters, which tell programs apart."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    script = spec.name if spec else Path(getattr(main, "__file__", "__main__")).stem
    found = {}
    for each in tasks.values():
        module = each.function.__module__
        place = f"{script if module == '__main__' else module}.{each.function.__qualname__}"
        found[each.name] = f"{place}({', '.join(inspect.signature(each.function).parameters)})"
    return found


def load_places(places: Iterable[Place], script: str | None = None) -> list[Task[..., Any]]:
    """Import tasks in a child process.

    Args:
        script: the file of the script that the module "" means; None if no place is in a script.
    """
    # Run the script under another name than __main__, as multiprocessing does.
    in_script = runpy.run_path(script, run_name=IN_CHILD) if script else {}
    tasks: list[Task[..., Any]] = []
    for module, qualname, name in places:
        first, *rest = qualname.split(".")
        names = vars(importlib.import_module(module)) if module else in_script
        found = names[first]
        for part in rest:
            found = getattr(found, part)
        if not isinstance(found, Task):  # the module has the task under another name
            made = (one for one in names.values() if isinstance(one, Task) and one.name == name)
            found = next((one for one in made if one.function is found), None) or Task(found, name)
        tasks.append(found)
    return tasks
