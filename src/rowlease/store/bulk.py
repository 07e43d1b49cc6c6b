"""Many rows at once, without routines: into the tables `lane` and `staging`, and out of the views.

Millions of rows are written by COPY and read by a cursor. No worker sees the rows of a load before
`promote`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rowlease.store.store import Store

#: The columns of the table `lane`, as `copy_part` takes them.
LANE = ("run_number", "part", "priority", "kind", "payload")


class Window(NamedTuple):
    """A window for the time when requests ended; for unfinished ones, when they were last leased.

    Attributes:
        since, until: from (included) and to (excluded), as PostgreSQL reads times; None: open.
    """

    since: str | None = None
    until: str | None = None


class IdRange(NamedTuple):
    """A range of request ids, both ends included; None: no rows at all."""

    first: int | None
    last: int | None


class BulkStore(Store):
    """A store that also writes and reads many rows at once; see `rowlease.store.bulk_store`."""

    @abstractmethod
    def copy_part(
        self, load_id: str, run_number: int, part: int, blocks: Iterable[tuple[bytes, Counter[int]]]
    ) -> None:
        """Write a part of a load into the lane, all of it or nothing.

        Args:
            part: a number that no other attempt has.
            blocks: rows as CSV, with the columns LANE; and the number of rows of each priority.

        Raises:
            InvalidRequest: a payload is not JSON, or a text cannot be stored.
            LoadLost: another run has taken the load over, or it is promoted.
            StoreError: from the database.
        """

    @abstractmethod
    def copy_staged(self, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Write rows of a load, all of them or none.

        Args:
            blocks: CSV; each block has whole rows.

        Raises:
            StoreError, or InvalidRequest for a text that the database cannot store.
        """

    @abstractmethod
    def id_ranges(
        self, table: str, equal: Mapping[str, str], count: int, window: Window | None = None
    ) -> list[IdRange]:
        """Divide the ids of matching requests into ranges of about equal size."""

    @abstractmethod
    def read_range(
        self,
        table: str,
        columns: Sequence[str],
        equal: Mapping[str, str],
        part: IdRange,
        window: Window | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of one range, in one snapshot; fetched in blocks."""

    @abstractmethod
    def now(self) -> datetime:
        """The time of the database's clock."""
