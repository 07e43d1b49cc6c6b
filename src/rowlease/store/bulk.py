"""Writes and reads many rows at once, without routines.

Rows are written to the tables `lane` and `staging` by COPY, and read by COPY, too. No worker sees
the rows of a load before `promote`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rowlease.store.store import Store

#: The columns of the table `lane` that writers fill.
LANE = ("run_number", "part", "ends_part", "priority", "kind", "payload")


class Window(NamedTuple):
    """A range of times, which selects requests by their end, or if unfinished by the last lease.

    Attributes:
        since: the start of the range, as a string that PostgreSQL can read; None means no limit.
        until: the end, which is not part of the range; None means no limit.
    """

    since: str | None = None
    until: str | None = None


class IdRange(NamedTuple):
    """A range of request ids that includes both ends. Ends of None mean that there are no rows."""

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
            InvalidRequest: the table refuses a row.
            LoadLost: another run has taken the load over, or the load is promoted. Only writes to
                the lane raise this.
            StoreError: any other error of the database.
        """

    @abstractmethod
    def id_ranges(
        self,
        table: str,
        equal: Mapping[str, Collection[str]],
        count: int,
        window: Window | None = None,
    ) -> list[IdRange]:
        """Divide the ids of matching requests into ranges of about equal size.

        Args:
            equal: for each of these columns, the values that a row may have.
        """

    @abstractmethod
    def read_range(
        self,
        table: str,
        columns: Sequence[str],
        equal: Mapping[str, Collection[str]],
        part: IdRange,
        window: Window | None = None,
    ) -> Iterator[bytes]:
        """The rows of one range, read in one snapshot, as CSV; each block has whole rows.

        A null is an empty field, and an empty string is quoted. Times are in UTC.
        """

    @abstractmethod
    def now(self) -> datetime:
        """The current time of the database's clock."""
