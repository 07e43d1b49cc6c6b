"""What an enqueue returns: a request that can be asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from rowlease.model import Outcome
from rowlease.requests import R_co


@dataclass(frozen=True, slots=True)
class Handle(Generic[R_co]):
    """A request that was enqueued.

    Attributes:
        request_id: its id.
        outcome: `ok`; `duplicate`: the id is that of the live request that has the dedup key;
            `repeat`: a call with this receipt, or an earlier try of this one, has enqueued it.
    """

    request_id: int
    outcome: Outcome
