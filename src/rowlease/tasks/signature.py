"""Reads the signature of a task's function, and refuses functions that cannot be tasks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from rowlease.errors import ConfigError

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Signature:
    """The names of a function's parameters. The signature is read when it is first needed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @functools.cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            # Use the wrapper's own signature: a wrapper may take other arguments than the wrapped
            # function.
            return inspect.signature(self._function, follow_wrapped=False)
        except ValueError:
            return None  # some functions written in C have no signature

    @functools.cached_property
    def _parameters(self) -> Mapping[str, Parameter]:
        return {} if self._signature is None else self._signature.parameters

    @functools.cached_property
    def _positional(self) -> list[str]:
        """The names of the parameters that can be given by position.

        If the function is a wrapper with `*args`, the names are those of the wrapped function.
        """
        own = self._parameters
        if any(each.kind is each.VAR_POSITIONAL for each in own.values()):
            own = inspect.signature(self._function).parameters
        return [each.name for each in own.values() if each.kind in POSITIONAL]

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(n for n, one in self._parameters.items() if one.kind not in VARIADIC)

    @functools.cached_property
    def _required(self) -> frozenset[str]:
        return frozenset(n for n in self._names if self._parameters[n].default is Parameter.empty)

    @functools.cached_property
    def _takes_any_name(self) -> bool:
        return any(one.kind is one.VAR_KEYWORD for one in self._parameters.values())

    @functools.cached_property
    def _positional_only(self) -> list[str]:
        return [o.name for o in self._parameters.values() if o.kind is o.POSITIONAL_ONLY]


def check_function(function: Callable[..., Any], name: str | None) -> None:
    """Refuse a function that no worker could run as a task.

    Args:
        name: the name that the task gets; None means that of the function.

    Raises:
        ConfigError: it is no function, a generator, a method, or a lambda without a name.
    """
    if not inspect.isroutine(function):
        raise ConfigError(f"a task must be a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"the task {function.__qualname__} is a generator, of which a worker would run nothing;"
            " return a value in place of yield"
        )
    code = getattr(function, "__code__", None)
    is_of_class = "." in function.__qualname__.rpartition("<locals>.")[2]
    if is_of_class and code and code.co_varnames[:1] in (("self",), ("cls",)):
        raise ConfigError(
            f"the task {function.__qualname__} is a method, for which a worker has no object; "
            "use a function"
        )
    if name is None and function.__name__ == "<lambda>":
        raise ConfigError('a lambda has no name for a worker to find it; use def, or @task("name")')
