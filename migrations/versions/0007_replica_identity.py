"""A database whose tables are all published for logical replication goes on working.

A published table refuses updates and deletes unless it says what a row is known by. These three
have no key: what is deleted from them is known by all its columns. History's daily partitions need
none: they only gain rows, and are dropped whole.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    if op.get_bind().dialect.name == "mssql":
        return  # a table without a key cannot be published there in the first place
    for table in ("queue_depth", "queue_history_default", "schema_info"):
        op.execute(f"alter table rowlease.{table} replica identity full")
