"""The calls of sql/*/maintain: housekeeping."""

from __future__ import annotations

from rowlease.model import Advanced, Maintained
from rowlease.store.calls import Calls


class MaintainCalls(Calls):
    """Does the housekeeping; see `rowlease.store.Store`."""

    def maintain(self, limit: int = 1000) -> list[Maintained]:
        """Do one round of housekeeping. If another caller is doing one, do nothing; return []."""
        return self._values(Maintained, "maintain", p_limit=limit)

    def advance_ids(self) -> list[Advanced]:
        """Advance the sequences that would hand out ids again, as after a replication.

        Raises:
            StoreConflict: a sequence is behind, and the user may not advance it (SQL Server), or a
                transaction that has taken an id has been open for two seconds (PostgreSQL).
        """
        return self._values(Advanced, "advance_ids")

    def finish_batches(self, batch_id: str | None = None) -> int:
        """Finish this batch, or every batch, if it has ended: `maintain` may no longer be called.

        Returns:
            The number of batches that were finished and of requests that became due.
        """
        ((count,),) = self._call("finish_batches", p_batch_id=batch_id)
        return int(count)
