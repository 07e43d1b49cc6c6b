"""Runs the revisions on the connection of `rowlease migrate`.

Revisions change tables and indexes; routines are in sql/. The version table is in the schema
`rowlease`, apart from the `alembic_version` of other projects.
"""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context

#: Creates the schema. Before the first revision, a schema that exists must be empty: whoever made
#: it could have put routines into it, and grants on them would stay. SQL Server needs this
#: statement in a batch of its own.
CREATE_SCHEMA = {
    "postgresql": """
do $$
declare
  v_found text;
begin
  if to_regnamespace('rowlease') is null then
    create schema rowlease;
  elsif to_regclass('rowlease.alembic_version') is null then
    select pg_describe_object(d.classid, d.objid, d.objsubid) into v_found
      from pg_depend d
     where d.refclassid = 'pg_namespace'::regclass and d.refobjid = 'rowlease'::regnamespace
     order by 1 limit 1;
    if found then
      raise duplicate_schema using
        message = format('the schema rowlease is not empty: it has %s; `rowlease migrate` creates '
                         'all that is in it, so drop the schema first', v_found);
    end if;
  end if;
end $$""",
    "mssql": """
declare @found nvarchar(300) = (
  select top (1) o.name from sys.objects as o
   where o.schema_id = schema_id('rowlease') and object_id('rowlease.alembic_version') is null
   order by o.name);
if @found is not null
begin
  set @found = concat('the schema rowlease is not empty: it has ', @found, '; `rowlease migrate` ',
                      'creates all that is in it, so drop its objects first');
  throw 51018, @found, 1;
end;
if schema_id('rowlease') is null execute ('create schema rowlease')""",
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
