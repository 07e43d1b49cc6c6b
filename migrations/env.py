"""Runs the revisions on the connection of `rowlease migrate`.

Revisions change tables and indexes; routines are in sql/. The version table is in the schema
`rowlease`, apart from the `alembic_version` of other projects.
"""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context

#: SQL Server needs this statement in a batch of its own.
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


def write(dialect: str) -> None:
    """Write the statements as a script; `rowlease migrate --sql` puts them in a transaction."""
    context.configure(
        dialect_name=dialect, version_table_schema="rowlease", as_sql=True, transactional_ddl=False
    )
    if context.get_starting_revision_argument() is None:
        context.execute(CREATE_SCHEMA[dialect])
    context.run_migrations()


def main() -> None:
    attributes = context.config.attributes
    if context.is_offline_mode():
        write(attributes.get("dialect", "postgresql"))
    elif "connection" in attributes:
        run(attributes["connection"])
    else:
        url = sa.make_url(os.environ["ROWLEASE_DSN"]).set(drivername="postgresql+psycopg")
        with sa.create_engine(url).begin() as connection:
            run(connection)


main()
