"""Reads the signature of a task's function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

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
