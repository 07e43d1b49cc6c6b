"""The preview and the result of an action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rowlease.model import Request


class Changed(NamedTuple):
    """A value that an action would change."""

    name: str
    was: str
    now: str


class Preview(NamedTuple):
    """The preview of an action.

    Attributes:
        sentence: the effect that the action would have.
        requests: some of the requests that it would change.
        num: the number of things that it would change. If it is 0, there is nothing to confirm.
        changes: the values that it would change.
    """

    sentence: str
    requests: Sequence[Request] = ()
    num: int = 1
    changes: Sequence[Changed] = ()


class Applied(NamedTuple):
    """The result of an action.

    Attributes:
        sentence: the effect of the action.
        operation_id: the operation to continue; None if nothing is left to do.
    """

    sentence: str
    operation_id: int | None = None
