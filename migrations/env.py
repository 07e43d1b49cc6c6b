"""Runs the revisions on the connection that `rowlease migrate` hands over.

Tables and indexes live here, behaviour lives in sql/. The version table sits in the schema
`rowlease`, so that it never meets another project's `alembic_version`.
"""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context

#: SQL Server wants this statement in a batch of its own.
CREATE_SCHEMA = {
    "postgresql": "create schema if not exists rowlease",
    "mssql": "if schema_id('rowlease') is null execute ('create schema rowlease')",
}


def run(connection: sa.Connection) -> None:
    connection.execute(sa.text(CREATE_SCHEMA[connection.dialect.name]))
    context.configure(
        connection=connection,
        version_table_schema="rowlease",
        transactional_ddl=True,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    url = sa.make_url(os.environ["ROWLEASE_DSN"]).set(drivername="postgresql+psycopg")
    with sa.create_engine(url).begin() as connection:
        run(connection)


run_online()
