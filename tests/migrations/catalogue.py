"""What a fresh database holds, for `rowlease migrate --check`.

    python -m tests.migrations.catalogue

writes sql/postgresql/catalogue.json and sql/sqlserver/catalogue.json again, which is to be done
when a table, a routine or a grant has changed. Tests compare the first with a fresh database, the
second with what the scripts declare (see tests/tsql/catalogue.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing

import psycopg

from rowlease.store import migrate
from rowlease.store.postgresql.catalogue import DAILY, read
from rowlease.store.routines import packaged_folder
from tests.servers import embedded_server

__all__ = ["DAILY", "declared", "snapshot"]


def snapshot(dsn: str) -> dict[str, str]:
    """All objects with their definitions, and the rows that a migration writes."""
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        rows = {
            "settings": "select to_json(s)::text from rowlease.queue_settings s order by 1",
            "gates": "select g.queue_name from rowlease.gate g order by 1",
            "revision": "select version_num from rowlease.alembic_version",
            "routines_hash": "select routines_hash from rowlease.schema_info",
        }
        found = {what: str(connection.execute(query).fetchall()) for what, query in rows.items()}
        return {**read(connection), **found}


def declared() -> dict[str, str]:
    """What the scripts for SQL Server declare; in a process of its own, as .NET stays loaded."""
    command = [sys.executable, "-m", "tests.tsql.catalogue"]
    folder = packaged_folder("sql").parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def main() -> None:
    with embedded_server() as dsn:
        migrate(dsn)
        with closing(psycopg.connect(dsn, autocommit=True)) as connection:
            write("postgresql", read(connection))
    write("sqlserver", declared())


def write(engine: str, found: dict[str, str]) -> None:
    text = json.dumps(found, indent=1, sort_keys=True)
    (packaged_folder("sql") / engine / "catalogue.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
