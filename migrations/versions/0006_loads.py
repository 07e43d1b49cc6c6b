"""Loads say how far they are, and what they were written from.

A load begins with its row, before the first of its rows is staged; one that nobody reports on any
more is dropped by `maintain`.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    if op.get_bind().dialect.name == "mssql":
        script = Path(__file__).with_name("0006_loads_sqlserver.sql")
        for batch in script.read_text(encoding="utf-8").split("\ngo\n"):
            op.get_bind().exec_driver_sql(batch)
        return
    # Rows may be staged before anyone says which queue they are for.
    op.alter_column("load", "queue_name", nullable=True, schema="rowlease")
    for column in (
        sa.Column("columns", sa.Text),
        sa.Column("num_staged", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("reported_time", sa.DateTime(timezone=True)),
        sa.Column(
            "rows_per_second",
            sa.Float,
            sa.Computed(
                "num_staged / nullif(extract(epoch from reported_time - started_time), 0)",
                persisted=True,
            ),
        ),
    ):
        op.add_column("load", column, schema="rowlease")
    op.execute("update rowlease.load set reported_time = coalesce(promoted_time, started_time)")
    op.alter_column("load", "reported_time", nullable=False, schema="rowlease")
    # Next to none are not promoted, but the ledger of all loads only grows.
    op.create_index(
        "load_staging",
        "load",
        ["reported_time"],
        schema="rowlease",
        postgresql_where=sa.text("status = 'Staging'"),
    )
