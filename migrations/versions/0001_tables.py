"""The tables of rowlease.

Revision ID: 0001
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SCHEMA = "rowlease"
#: Readable words, not codes: a DBA filters by them.
LIVE_STATUSES = ("Scheduled", "Pending", "Processing", "Failed")
FINAL_STATUSES = ("Complete", "Cancelled")
POLICIES = ("strict", "weighted", "aging")
LOAD_STATUSES = ("Staging", "Promoted")
#: Index keys hold these texts, so their lengths are bounded (SQL Server allows 1,700 bytes a key).
QUEUE_NAME, KIND, GROUP_KEY, DEDUP_KEY, LOAD_ID, WORKER_ID = 100, 200, 200, 400, 100, 200

#: The owner of every object, then one role for each kind of user; sql/postgresql/grants.sql says
#: what each may do.
ROLES = (
    "rowlease_owner",
    "rowlease_producer",
    "rowlease_worker",
    "rowlease_operator",
    "rowlease_reader",
)

TIME = sa.DateTime(timezone=True)

#: Counters count up from nothing.
COUNTS = (
    "max_attempts >= 1 and num_attempts >= 0 and num_crashes >= 0 and num_abandons >= 0"
    " and lock_token >= 0 and coalesce(retry_base_ms, 0) >= 0"
)


def column(name: str, kind: Any, default: str | None = None, null: bool = False) -> sa.Column[Any]:
    return sa.Column(
        name, kind, nullable=null, server_default=None if default is None else sa.text(default)
    )


def one_of(name: str, words: tuple[str, ...]) -> str:
    return f"{name} in ({', '.join(repr(word) for word in words)})"


def request_columns() -> list[sa.Column[Any]]:
    """What `queue` and `queue_history` share, in the order a DBA reads it."""
    return [
        column("queue_name", sa.String(QUEUE_NAME)),
        column("kind", sa.String(KIND)),
        column("status", sa.String(10)),
        column("priority", sa.SmallInteger),
        column("requested_time", TIME),
        column("due_time", TIME),
        column("locked_by", sa.String(WORKER_ID), null=True),
        column("locked_time", TIME, null=True),
        column("lock_expires_time", TIME, null=True),
        column("started_time", TIME, null=True),
        column("lock_token", sa.BigInteger, "0"),
        column("num_attempts", sa.Integer, "0"),
        column("max_attempts", sa.Integer),
        column("num_crashes", sa.Integer, "0"),
        column("num_abandons", sa.Integer, "0"),
        column("retry_base_ms", sa.Integer, null=True),
        column("dedup_key", sa.String(DEDUP_KEY), null=True),
        column("group_key", sa.String(GROUP_KEY), null=True),
        column("group_blocked", sa.Boolean, "false"),
        column("returned", sa.Boolean, "false"),
        column("cancel_requested", sa.Boolean, "false"),
        column("load_id", sa.String(LOAD_ID), null=True),
        column("payload", sa.JSON, null=True),
        column("last_error", sa.Text, null=True),
        column("completion_time", TIME, null=True),
    ]


def upgrade() -> None:
    if op.get_bind().dialect.name == "mssql":
        run_batches(Path(__file__).with_name("0001_tables_sqlserver.sql"))
        return
    create_roles()
    create_settings()
    create_queue()
    create_history()
    create_loads()
    create_ledgers()


def run_batches(script: Path) -> None:
    """Execute a T-SQL script as sqlcmd does: each batch up to a line `go` by itself."""
    for batch in script.read_text(encoding="utf-8").split("\ngo\n"):
        op.get_bind().exec_driver_sql(batch)


def create_roles() -> None:
    """Roles belong to the server, not to the database: another database may have made them."""
    for role in ROLES:
        op.execute(
            f"do $$ begin if to_regrole('{role}') is null then create role {role} nologin; end if;"
            " exception when duplicate_object or unique_violation then null; end $$"
        )
    op.execute(
        f"do $$ begin if not pg_has_role('{ROLES[0]}', 'usage') then"
        f" grant {ROLES[0]} to current_user; end if; end $$"
    )


def create_settings() -> None:
    op.create_table(
        "queue_settings",
        sa.Column("queue_name", sa.String(QUEUE_NAME), primary_key=True),
        column("max_priority", sa.SmallInteger, "9"),
        column("capacity", sa.BigInteger, null=True),
        column("lease_seconds", sa.Integer, "30"),
        column("max_attempts", sa.Integer, "5"),
        column("max_crashes", sa.Integer, "3"),
        column("retry_base_ms", sa.Integer, "1000"),
        column("retry_cap_ms", sa.Integer, "3600000"),
        column("paused", sa.Boolean, "false"),
        column("policy", sa.String(10), "'strict'"),
        column("policy_weights", sa.JSON, null=True),
        column("policy_aging_seconds", sa.Integer, "60"),
        column("max_in_flight", sa.Integer, null=True),
        column("consumer_priorities", sa.Boolean, "false"),
        column("keep_history", sa.Boolean, "true"),
        column("retention_days", sa.Integer, "7"),
        sa.CheckConstraint("queue_name <> ''", name="queue_settings_name"),
        sa.CheckConstraint("max_priority between 0 and 255", name="queue_settings_max_priority"),
        sa.CheckConstraint("capacity > 0", name="queue_settings_capacity"),
        sa.CheckConstraint("lease_seconds between 1 and 86400", name="queue_settings_lease"),
        sa.CheckConstraint("max_attempts >= 1 and max_crashes >= 1", name="queue_settings_limits"),
        sa.CheckConstraint(
            "retry_base_ms >= 0 and retry_cap_ms >= retry_base_ms", name="queue_settings_retry"
        ),
        sa.CheckConstraint(one_of("policy", POLICIES), name="queue_settings_policy"),
        sa.CheckConstraint("policy_aging_seconds >= 1", name="queue_settings_aging"),
        sa.CheckConstraint("max_in_flight >= 1", name="queue_settings_in_flight"),
        sa.CheckConstraint("retention_days >= 1", name="queue_settings_retention"),
        schema=SCHEMA,
    )
    op.execute(f"insert into {SCHEMA}.queue_settings (queue_name) values ('default')")


def create_queue() -> None:
    op.create_table(
        "queue",
        sa.Column("request_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        *request_columns(),
        sa.CheckConstraint(one_of("status", LIVE_STATUSES), name="queue_status"),
        sa.CheckConstraint(
            "(status = 'Processing') = (locked_by is not null)", name="queue_lease_has_owner"
        ),
        sa.CheckConstraint(
            "status <> 'Processing' or (locked_time is not null and lock_expires_time is not null"
            " and lock_token >= 1 and num_attempts >= 1)",
            name="queue_lease_is_whole",
        ),
        sa.CheckConstraint(
            "status = 'Processing' or (started_time is null and not cancel_requested)",
            name="queue_only_a_lease_runs",
        ),
        sa.CheckConstraint(
            "(status = 'Failed') = (completion_time is not null)"
            " and (status <> 'Failed' or last_error is not null)",
            name="queue_dead_letter_says_why",
        ),
        sa.CheckConstraint("priority between 0 and 255", name="queue_priority"),
        sa.CheckConstraint(COUNTS, name="queue_counts"),
        sa.CheckConstraint("kind <> '' and payload is not null", name="queue_says_what"),
        # Nor 'infinity', which no client's calendar holds.
        sa.CheckConstraint(
            "due_time between '0001-01-01 00:00+00' and '9999-12-31 00:00+00'", name="queue_due"
        ),
        sa.CheckConstraint("not group_blocked or group_key is not null", name="queue_group"),
        sa.CheckConstraint(
            "status in ('Scheduled', 'Pending') or not (group_blocked or returned)",
            name="queue_only_waiting_have_a_place",
        ),
        schema=SCHEMA,
        # Every claim rewrites the row; free room in the page keeps the new version near the old.
        postgresql_with={
            "fillfactor": "85",
            "autovacuum_vacuum_scale_factor": "0.01",
            "autovacuum_vacuum_threshold": "2000",
            "autovacuum_vacuum_cost_delay": "0",
            "autovacuum_analyze_scale_factor": "0.1",
        },
    )
    index("queue_pending", "queue_name", sa.text("priority desc"), "due_time", "request_id",
          where="status = 'Pending' and not group_blocked and not returned")  # fmt: skip
    index("queue_returned", "queue_name", sa.text("priority desc"), "due_time", "request_id",
          where="status = 'Pending' and not group_blocked and returned")  # fmt: skip
    index("queue_scheduled", "queue_name", "due_time", where="status = 'Scheduled'")
    index("queue_expiring", "queue_name", "lock_expires_time", where="status = 'Processing'")
    index("queue_failed", "queue_name", "request_id", where="status = 'Failed'")
    index("queue_dedup", "queue_name", "dedup_key", unique=True,
          where="dedup_key is not null and status <> 'Failed'")  # fmt: skip
    index("queue_group", "queue_name", "group_key", "request_id",
          where="group_key is not null and status <> 'Failed'")  # fmt: skip
    index("queue_group_in_flight", "queue_name", "group_key", unique=True,
          where="group_key is not null and status = 'Processing'")  # fmt: skip


def index(name: str, *columns: str | sa.TextClause, where: str, unique: bool = False) -> None:
    op.create_index(
        name, "queue", list(columns), unique=unique, schema=SCHEMA, postgresql_where=sa.text(where)
    )


def create_history() -> None:
    op.create_table(
        "queue_history",
        sa.Column("request_id", sa.BigInteger, nullable=False),
        *request_columns(),
        column("result", sa.JSON, null=True),
        sa.CheckConstraint(one_of("status", FINAL_STATUSES), name="queue_history_status"),
        sa.CheckConstraint("completion_time is not null", name="queue_history_completed"),
        sa.CheckConstraint(
            "(status = 'Complete') = (locked_by is not null)", name="queue_history_says_who"
        ),
        sa.CheckConstraint(
            "status <> 'Complete' or (locked_time is not null and lock_expires_time is not null"
            " and lock_token >= 1 and num_attempts >= 1)",
            name="queue_history_lease_is_whole",
        ),
        sa.CheckConstraint(
            "status = 'Complete' or result is null", name="queue_history_only_complete_has_result"
        ),
        sa.CheckConstraint(COUNTS, name="queue_history_counts"),
        schema=SCHEMA,
        postgresql_partition_by="range (completion_time)",
    )
    op.create_index("queue_history_request", "queue_history", ["request_id"], schema=SCHEMA)
    # A finished request always has a place to go, even when nobody made today's partition.
    op.execute(
        f"create table {SCHEMA}.queue_history_default partition of {SCHEMA}.queue_history default"
    )


def create_loads() -> None:
    op.create_table(
        "staging",
        column("load_id", sa.String(LOAD_ID)),
        column("row_id", sa.BigInteger),
        column("kind", sa.Text, null=True),
        column("priority", sa.Integer, null=True),
        column("due_time", TIME, null=True),
        column("dedup_key", sa.Text, null=True),
        column("group_key", sa.Text, null=True),
        column("payload", sa.Text, null=True),
        schema=SCHEMA,
        # A crash empties it, and promote then refuses the load, whose row count no longer fits.
        prefixes=["UNLOGGED"],
    )
    op.create_index("staging_load", "staging", ["load_id"], schema=SCHEMA)
    op.create_table(
        "load",
        sa.Column("load_id", sa.String(LOAD_ID), primary_key=True),
        column("queue_name", sa.String(QUEUE_NAME)),
        column("status", sa.String(10)),
        column("num_rows", sa.BigInteger),
        column("num_enqueued", sa.BigInteger, "0"),
        column("num_duplicates", sa.BigInteger, "0"),
        column("started_time", TIME),
        column("promoted_time", TIME, null=True),
        sa.CheckConstraint(one_of("status", LOAD_STATUSES), name="load_status"),
        sa.CheckConstraint(
            "(status = 'Promoted') = (promoted_time is not null)", name="load_promoted"
        ),
        sa.CheckConstraint(
            "num_enqueued >= 0 and num_duplicates >= 0 and num_rows >= num_enqueued",
            name="load_counts",
        ),
        schema=SCHEMA,
    )


def create_ledgers() -> None:
    op.create_table(
        "worker",
        sa.Column("worker_id", sa.String(WORKER_ID), primary_key=True),
        column("host", sa.String(255)),
        column("pid", sa.Integer),
        column("version", sa.String(50)),
        column("queue_names", sa.JSON),
        column("slots", sa.Integer),
        column("busy", sa.Integer, "0"),
        column("consumer_priority", sa.Integer, "0"),
        column("started_time", TIME),
        column("heartbeat_time", TIME),
        schema=SCHEMA,
    )
    op.create_table(
        "enqueue_receipt",
        sa.Column("receipt_key", sa.String(100), primary_key=True),
        column("request_ids", sa.ARRAY(sa.BigInteger)),
        column("received_time", TIME),
        schema=SCHEMA,
    )
    op.create_table(
        "queue_waiter",
        sa.Column("waiter_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        column("queue_name", sa.String(QUEUE_NAME)),
        column("priority", sa.SmallInteger),
        column("num_requests", sa.Integer),
        column("arrived_time", TIME),
        column("expires_time", TIME),
        schema=SCHEMA,
    )
    # Each routine appends what it changed, in its own transaction: sums are exact, nobody waits
    # for a counter row. `maintain` folds many rows into few.
    op.create_table(
        "queue_depth",
        column("queue_name", sa.String(QUEUE_NAME)),
        column("priority", sa.SmallInteger),
        column("scheduled", sa.BigInteger, "0"),
        column("pending", sa.BigInteger, "0"),
        column("processing", sa.BigInteger, "0"),
        column("failed", sa.BigInteger, "0"),
        schema=SCHEMA,
        postgresql_with={
            "autovacuum_vacuum_scale_factor": "0",
            "autovacuum_vacuum_threshold": "2000",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_table(
        "schema_info",
        column("routines_hash", sa.String(64)),
        column("applied_time", TIME),
        schema=SCHEMA,
    )
