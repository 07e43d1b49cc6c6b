"""The indexes of the revisions for SQL Server keep the house's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.tsql.rules.seeks import MIGRATIONS, Index, indexes, indexes_of

#: Tables whose rows claims and outcomes skip, one by one, when they are locked.
HOT = {"queue", "queuehistory", "queuedepth", "attempt"}
#: Indexes to whose end each insert adds its row.
AT_THE_END = {"queue_pkey", "queue_depth_pkey", "queue_history_completed"}
#: A breach of each rule.
WRONG = {
    "create index a on rowlease.Queue (QueueName) where Status = 'Pending'"
    " with (allow_page_locks = off);": "must include status",
    "create index a on rowlease.Queue (QueueName);": "has page locks",
    "create index queue_pkey on rowlease.Queue (RequestId) with (allow_page_locks = off);":
        "is not for a sequential key",
}  # fmt: skip


def faults(found: dict[str, Index]) -> Iterator[str]:
    for name, index in found.items():
        for condition in index.conditions:
            column = re.split(r"=|<>|isnotnull|isnull", condition)[0]
            if index.table in HOT and column not in (*index.columns, *index.included):
                yield f"{name} must include {column}, by which it is filtered"
        if index.table in HOT and "allow_page_locks = off" not in index.options:
            yield f"{name} has page locks, which READPAST does not skip"
        if name in AT_THE_END and "optimize_for_sequential_key = on" not in index.options:
            yield f"{name} is not for a sequential key"


def test_the_indexes_keep_the_rules() -> None:
    assert set(indexes()) > AT_THE_END
    assert list(faults(indexes())) == []


@pytest.mark.parametrize("script", WRONG)
def test_a_breach_is_noticed(script: str) -> None:
    assert any(WRONG[script] in fault for fault in faults(indexes_of(script)))


def test_no_lock_of_a_hot_table_becomes_one_of_the_whole_table() -> None:
    script = "\n".join(path.read_text() for path in MIGRATIONS.glob("*_sqlserver.sql")).lower()
    for table in HOT | {"lane"}:  # a bulk copy of 10,000 rows would lock it, and stop other loads
        assert f"alter table rowlease.{table} set (lock_escalation = disable)" in script
