"""Writes many rows at once, without routines.

Rows are written to the tables `lane` and `staging` by COPY. No worker sees them before `promote`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime

from rowlease.store.store import Store

#: The columns of the table `lane` that writers fill.
LANE = ("run_number", "part", "ends_part", "priority", "kind", "payload")


class BulkStore(Store):
    """A store that also writes many rows at once; see `rowlease.store.bulk_store`."""

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
    def now(self) -> datetime:
        """The current time of the database's clock."""
