"""What Spark needs of a database, without routines.

The rows of a load are written to the table `lane` by COPY. No worker sees them before `promote`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rowlease.store.store import Store

#: The columns of the table `lane` that writers fill.
LANE = ("run_number", "part", "ends_part", "priority", "kind", "payload")
#: Those that may be null, and may be left out.
NULLABLE = ("headers", "due_time", "dedup_key", "group_key")


class BulkStore(Store):
    """A store that also writes many rows at once; see `rowlease.store.bulk_store`."""

    @abstractmethod
    def copy_rows(self, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Write a part of a load, all of it or nothing.

        Args:
            columns: those of LANE, and any of NULLABLE.
            blocks: CSV; each block has whole rows.

        Raises:
            InvalidRequest: the table refuses a row.
            LoadLost: another run has taken the load over, or the load is promoted.
            StoreError: any other error of the database.
        """

    @abstractmethod
    def now(self) -> datetime:
        """The current time of the database's clock."""

    @abstractmethod
    def one_row(self, query: str) -> tuple[Any, ...]:
        """The only row of a query, which must come from this package."""
