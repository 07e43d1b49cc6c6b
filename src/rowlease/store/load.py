"""The calls of sql/*/load: stage a load, then promote it."""

from __future__ import annotations

from collections.abc import Sequence

from rowlease.model import Begun, Outcome, Promoted, StreamBatch
from rowlease.store.calls import Calls

#: The columns that `begin_load` returns.
BEGIN_LOAD_COLUMNS = (
    "outcome", "run_number", "num_rows", "num_enqueued", "num_duplicates", "num_clamped",
    "max_priority",
)  # fmt: skip


class LoadCalls(Calls):
    """Stages and promotes loads; see `rowlease.store.Store`."""

    def begin_load(
        self,
        load_id: str,
        queue: str,
        run_by: str,
        columns: str | None = None,
        *,
        batch: StreamBatch | None = None,
    ) -> Begun | Promoted:
        """Begin a run of a load, before its rows are staged. Drop the rows of an earlier run.

        A run may make this call again: then it gets the same run number, and no rows are dropped.

        Args:
            run_by: the unique name of the run, 1 to 200 characters.
            columns: a description of the rows, which must be the same in every run.
            batch: the batch of a stream that the load is.

        Returns:
            The values that the writers of the load's rows need; or, if the load is already
            promoted, the counts of the promotion.

        Raises:
            LoadLost: a later run has taken the load over from this one.
            InvalidRequest: the stream belongs to another streaming query.
        """
        stream, query_id, number = batch or (None, None, None)
        rows = self._rows(
            BEGIN_LOAD_COLUMNS,
            "begin_load",
            p_load_id=load_id,
            p_queue_name=queue,
            p_run_by=run_by,
            p_columns=columns,
            p_stream_name=stream,
            p_query_id=query_id,
            p_batch_number=number,
        )
        outcome, run_number, *counts, max_priority = rows[0]
        if outcome == Outcome.OK:
            return Begun(run_number, max_priority)
        return Promoted(Outcome(outcome), *counts)

    def report_load(self, load_id: str, run_number: int, num_rows: int) -> int:
        """Report the number of rows written since the last report.

        Returns:
            The number of rows that were reported so far; 0 if the load is promoted.

        Raises:
            LoadLost: another run has taken the load over.
        """
        ((total,),) = self._call(
            "report_load", p_load_id=load_id, p_run_number=run_number, p_num_rows=num_rows
        )
        return total or 0

    def end_run(self, load_id: str, run_number: int) -> None:
        """End a run: whatever it writes later is refused, and another run may begin the load.

        Raises:
            LoadLost: another run has taken the load over.
        """
        self._call("end_run", p_load_id=load_id, p_run_number=run_number)

    def promote(
        self,
        load_id: str,
        run_number: int,
        expected_rows: int,
        *,
        parts: Sequence[int] | None = None,
        num_clamped: int = 0,
    ) -> Promoted:
        """Turn all rows of a load into requests of its queue, or none of them.

        Args:
            expected_rows: the number of rows that the parts have.
            parts: the parts that count. None means that all parts count.
            num_clamped: the number of rows whose priority their writer has lowered.

        Raises:
            LoadDiffers: the parts have another number of rows.
            LoadLost: another run has taken the load over.
        """
        rows = self._rows(
            Promoted._fields,
            "promote",
            p_load_id=load_id,
            p_run_number=run_number,
            p_expected_rows=expected_rows,
            p_parts=None if parts is None else list(parts),
            p_num_clamped=num_clamped,
        )
        outcome, *counts = rows[0]
        return Promoted(Outcome(outcome), *counts)
