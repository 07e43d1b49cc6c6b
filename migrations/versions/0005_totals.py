"""Totals: how many requests a queue has finished, and how many attempts have failed.

Counted where depth is, so that rates can be had without reading the history.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    if op.get_bind().dialect.name == "mssql":
        for name in ("NumFinished", "NumFailures"):
            op.get_bind().exec_driver_sql(
                f"alter table rowlease.QueueDepth add {name} bigint not null default 0"
            )
        return
    for name in ("num_finished", "num_failures"):
        op.add_column(
            "queue_depth",
            sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0")),
            schema="rowlease",
        )
