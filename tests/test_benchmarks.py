"""The prototype that benchmarks compare with still fits the tables."""

from __future__ import annotations

from pathlib import Path

import psycopg

from benchmarks.server_cost import PROTOTYPE


def test_the_prototype_enqueues_claims_and_completes(dsn: str, repository: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as sql:
        sql.execute((repository / "benchmarks" / "prototype.sql").read_text())
        sql.execute(PROTOTYPE["enqueue"])
        sql.execute(PROTOTYPE["enqueue_many"], {"kinds": ["noop"] * 2, "payloads": ["{}"] * 2})
        first = sql.execute(PROTOTYPE["dequeue"], (2,)).fetchall()
        ids, tokens = ([row[place] for row in first] for place in (0, 8))
        (last,) = sql.execute(PROTOTYPE["exchange"], (1, ids, tokens)).fetchall()
        assert last[0] == 3
        assert sql.execute(PROTOTYPE["complete"], ([last[0]], [last[8]])).fetchall() == [(3,)]
        done = sql.execute("select request_id, status from prototype.history order by 1").fetchall()
        assert done == [(1, "Complete"), (2, "Complete"), (3, "Complete")]
