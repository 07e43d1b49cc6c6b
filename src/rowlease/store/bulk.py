"""Writes and reads many rows at once, without routines.

Rows are written to the tables `lane` and `staging` by COPY, and read from the views by a cursor. No
worker sees the rows of a load before `promote`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rowlease.store.store import Store

#: The columns of the blocks that `copy_part` writes to the table `lane`.
LANE = ("run_number", "part", "priority", "kind", "payload")


class Window(NamedTuple):
    """A range of times when requests ended. For an unfinished request, its last lease counts.

    Attributes:
        since: the first time, as text that PostgreSQL can read; None means no limit.
        until: the end, which is excluded; None means no limit.
    """

    since: str | None = None
    until: str | None = None


class IdRange(NamedTuple):
    """A range of request ids, both ends included. None means that there are no rows."""

    first: int | None
    last: int | None


class BulkStore(Store):
    """A store that also writes and reads many rows at once; see `rowlease.store.bulk_store`."""

    @abstractmethod
    def copy_part(
        self, load_id: str, run_number: int, part: int, blocks: Iterable[tuple[bytes, Counter[int]]]
    ) -> None:
        """Write a part of a load into the lane, either all of it or nothing.

        Args:
            part: a number that no other attempt has.
            blocks: rows as CSV with the columns LANE, and each block's number of rows by priority.

        Raises:
            InvalidRequest: a payload is not JSON, or a text cannot be stored.
            LoadLost: another run has taken the load over, or the load has been promoted.
            StoreError: the database refused the rows, or is unavailable.
        """

    @abstractmethod
    def copy_staged(self, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Write rows of a load to `staging`, either all of them or none.

        Args:
            blocks: whole rows as CSV.

        Raises:
            InvalidRequest: the database cannot store a text.
            StoreError: the database refused the rows, or is unavailable.
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
        """The rows of one range, read in one snapshot and fetched in blocks."""

    @abstractmethod
    def now(self) -> datetime:
        """The current time of the database's clock."""
