"""Many rows at once, past the routines: into the table `staging` and out of the views.

Writing and reading by the million is COPY's and a cursor's work, and no routine's. What is written
here no worker sees before `promote`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rowlease.store.store import Store


class Window(NamedTuple):
    """From when (included) to when (not) requests ended; of unfinished ones, were last leased.

    Attributes:
        since, until: as PostgreSQL reads times; None: no such end.
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
    def copy_staged(self, columns: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Write rows of a load, all of them or none.

        Args:
            blocks: CSV, a row never cut by a block's end.

        Raises:
            StoreError: and its kin; also InvalidRequest for a text that the database cannot hold.
        """

    @abstractmethod
    def id_ranges(
        self, table: str, equal: Mapping[str, str], count: int, window: Window | None = None
    ) -> list[IdRange]:
        """Cut the request ids of what is asked for into about equal ranges."""

    @abstractmethod
    def read_range(
        self,
        table: str,
        columns: Sequence[str],
        equal: Mapping[str, str],
        part: IdRange,
        window: Window | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of one range, in one snapshot; never all of them in memory."""

    @abstractmethod
    def now(self) -> datetime:
        """What the database's clock shows."""
