"""Writes and reads many rows at once, without routines.

Rows are written to the tables `lane` and `staging` by COPY, and read from the views by a cursor. No
worker sees the rows of a load before `promote`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rowlease.store.store import Store

#: The columns of the table `lane` that writers fill.
LANE = ("run_number", "part", "ends_part", "priority", "kind", "payload")


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
    def copy_rows(self, table: str, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Write rows of a load, all of them or none.

        Args:
            table: `lane` or `staging`.
            blocks: CSV; each block has whole rows.

        Raises:
            InvalidRequest: a row that the table refuses.
            LoadLost: another run has taken the load over, or it is promoted; only from the lane.
            StoreError: from the database.
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
