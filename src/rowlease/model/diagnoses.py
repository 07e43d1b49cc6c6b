"""What the database says about its state. Its sentences are in sql/*/operate/diagnose*.sql."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that is wrong: `finding` is for programs, `message` and `action` are sentences.

    Attributes:
        subject: the queue, schedule, table or session.
    """

    finding: str
    subject: str
    message: str
    action: str


class Explanation(NamedTuple):
    """The reason why a request is not claimed: `reason` for programs, `message` for people."""

    reason: str
    message: str
