"""What housekeeping, and a recount, has changed."""

from __future__ import annotations

from typing import NamedTuple


class Maintained(NamedTuple):
    """A step of housekeeping, and the number of rows that it changed.

    Attributes:
        error: the text of the error of a step that failed and changed nothing.
    """

    what: str
    num_rows: int
    error: str | None = None


class Advanced(NamedTuple):
    """A sequence that would have handed out ids again, and was advanced.

    Attributes:
        was: the id that it would have handed out.
        next_id: the id that it hands out next.
    """

    sequence_name: str
    was: int
    next_id: int

    def __str__(self) -> str:
        return (
            f"the sequence {self.sequence_name} would have handed out ids again, as after a "
            f"replication or a restore; it was advanced from {self.was} to {self.next_id}"
        )
