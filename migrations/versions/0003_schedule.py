"""The table of schedules: what is to be enqueued again and again.

Revision ID: 0003
Revises: 0001
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0001"

SCHEMA = "rowlease"
TIME = sa.DateTime(timezone=True)


def column(name: str, kind: Any, default: str | None = None, null: bool = False) -> sa.Column[Any]:
    return sa.Column(
        name, kind, nullable=null, server_default=None if default is None else sa.text(default)
    )


def upgrade() -> None:
    if op.get_bind().dialect.name == "mssql":
        script = Path(__file__).with_name("0003_schedule_sqlserver.sql")
        for batch in script.read_text(encoding="utf-8").split("\ngo\n"):
            op.get_bind().exec_driver_sql(batch)
        return
    op.create_table(
        "schedule",
        sa.Column("schedule_name", sa.String(200), primary_key=True),
        column("cron", sa.String(200)),
        column("time_zone", sa.String(100), "'UTC'"),
        column("queue_name", sa.String(100)),
        column("kind", sa.String(200)),
        column("payload", sa.JSON),
        column("priority", sa.SmallInteger, "0"),
        column("catch_up", sa.Integer, "1"),
        column("paused", sa.Boolean, "false"),
        # Null: nobody has planned it since changed_time.
        column("next_time", TIME, null=True),
        column("last_time", TIME, null=True),
        column("last_request_id", sa.BigInteger, null=True),
        column("changed_time", TIME),
        column("locked_by", sa.String(200), null=True),
        column("lock_expires_time", TIME, null=True),
        column("lock_token", sa.BigInteger, "0"),
        sa.CheckConstraint("schedule_name <> ''", name="schedule_says_its_name"),
        sa.CheckConstraint("cron like '_% _% _% _% _%'", name="schedule_cron"),
        sa.CheckConstraint("time_zone <> ''", name="schedule_time_zone"),
        sa.CheckConstraint("kind <> ''", name="schedule_says_what"),
        sa.CheckConstraint("priority between 0 and 255", name="schedule_priority"),
        sa.CheckConstraint("catch_up between 1 and 1000", name="schedule_catch_up"),
        sa.CheckConstraint(
            "(locked_by is null) = (lock_expires_time is null) and lock_token >= 0",
            name="schedule_lease_is_whole",
        ),
        schema=SCHEMA,
    )
    op.create_index(
        "schedule_planned",
        "schedule",
        ["next_time"],
        schema=SCHEMA,
        postgresql_where=sa.text("not paused"),
    )
