"""What takes input of strangers; what an explained answer is; and how many inputs got one.

A surface has inputs, and meets each. An answer is explained if it is a result, or an error of
rowlease that says what is wrong with the input. Anything else is a fault: another exception, an
HTTP 500, an error that the table of error codes does not know, an answer that never comes.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg

from rowlease.errors import (
    ConfigError,
    InvalidRequest,
    LoadLost,
    QueueFull,
    Retry,
    RoutineError,
)
from rowlease.store.postgresql.driver_errors import our_error
from tests.fuzz.values import Draw

#: The errors that tell a caller what is wrong with what he gave.
EXPLAINED = (InvalidRequest, RoutineError, QueueFull, LoadLost, ConfigError, Retry)
#: Characters of an input or an error that a report shows.
SHOWN = 400


class Unexplained(Exception):
    """The answer is a fault."""


class Figures(NamedTuple):
    """How many inputs were met, how many of them were refused; and the faults, each once."""

    inputs: int = 0
    refused: int = 0
    faults: Mapping[str, str] = MappingProxyType({})

    def plus(self, other: Figures) -> Figures:
        both = {**other.faults, **self.faults}
        return Figures(self.inputs + other.inputs, self.refused + other.refused, both)


#: Meets an input; returns whether it was refused, and raises what is a fault.
Meet = Callable[[Any], bool]


class Surface(NamedTuple):
    """Something that takes input.

    Attributes:
        draw: draws an input, hostile or right.
        open: given a database of its own, the function that meets an input.
        share: how many of a hundred inputs it gets.
    """

    name: str
    draw: Callable[[Draw], Any]
    open: Callable[[str], AbstractContextManager[Meet]]
    share: int


def refused(error: BaseException) -> bool:
    """True for an error that is explained; anything else is raised."""
    if isinstance(error, psycopg.Error):
        error = our_error(error, "the database")
    if isinstance(error, EXPLAINED) and str(error).strip():
        return True
    raise Unexplained(f"{type(error).__name__}: {error}") from error


def attack(surface: Surface, dsn: str, times: int, name: str) -> Figures:
    """Let a surface meet so many inputs, which follow from the name."""
    draw, num_refused = Draw(name), 0
    faults: dict[str, str] = {}
    with surface.open(dsn) as meet:
        for _ in range(times):
            value = surface.draw(draw)
            try:
                num_refused += meet(value)
            except Exception as error:  # each is a fault; the next input is met all the same
                faults.setdefault(*described(surface, value, error))
    return Figures(times, num_refused, faults)


def described(surface: Surface, value: object, error: Exception) -> tuple[str, str]:
    """Where a fault is, which is the same for its like; and the input and the error."""
    cause = error.__cause__ or error
    place = traceback.extract_tb(cause.__traceback__ or error.__traceback__)[-1]
    state = getattr(cause, "sqlstate", None)
    where = getattr(value, "routine", None) or f"{place.filename}:{place.lineno}"
    said = f"{type(error).__name__}: {error}"[:SHOWN]
    try:
        given = repr(value)
    except Exception as unshown:  # hostile to this, too
        given = f"({unshown!r})"
    kind = state or type(cause).__name__
    return f"{surface.name}, {where}, {kind}", f"{said}\n    {given[: 2 * SHOWN]}"
