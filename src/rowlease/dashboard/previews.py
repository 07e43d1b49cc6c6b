"""What an action would do, and what it has done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rowlease.model import Request


class Preview(NamedTuple):
    """What an action would do.

    Attributes:
        sentence: what would happen.
        requests: some of the requests that it would change.
        num: the number of things that it would change. If it is 0, there is nothing to confirm.
    """

    sentence: str
    requests: Sequence[Request] = ()
    num: int = 1


class Done(NamedTuple):
    """What an action has done.

    Attributes:
        sentence: what was done.
        operation_id: the operation to go on with; None if nothing is left to do.
    """

    sentence: str
    operation_id: int | None = None
