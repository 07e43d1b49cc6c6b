"""The table of progress: how far running requests are, where their tasks say so.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    if op.get_bind().dialect.name == "mssql":
        script = Path(__file__).with_name("0004_progress_sqlserver.sql")
        op.get_bind().exec_driver_sql(script.read_text(encoding="utf-8"))
        return
    op.create_table(
        "progress",
        # A table of its own, and no foreign key: what does not use it must not pay for it.
        sa.Column("request_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("lock_token", sa.BigInteger, nullable=False),
        sa.Column("fraction", sa.Float, nullable=False),
        sa.Column("note", sa.String(400), nullable=False),
        sa.Column("reported_time", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("fraction between 0 and 1", name="progress_fraction"),
        schema="rowlease",
    )
