"""Installs each extra of rowlease alone in an empty environment, and runs what it is for.

    python .ci/extras.py [--python PYTHON] [EXTRA ...]

The database of all environments is the embedded server of the first one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from package import ROOT, Installed, serves

#: Prints the DSN of the embedded server, which runs until this program has no input any more.
SERVER = """
import sys
from rowlease.client.database import database
with database(None) as dsn:
    print(dsn, flush=True)
    sys.stdin.read()
"""
SPARK = """
from rowlease.client.database import database
from rowlease.spark import enqueue, local_session, read_requests
with database(None) as dsn:
    session = local_session(dsn=dsn)
    enqueue(session.range(3), dsn, kind="row", queue="default")
    rows = read_requests(session, dsn, columns=["kind"]).where("kind = 'row'")
    print(rows.count(), "requests by Spark", session.version)
"""
SQLSERVER = """
from rowlease.errors import StoreUnavailable
from rowlease.store import open_store
try:
    open_store("mssql://u:p@127.0.0.1:1/db").depth()
except StoreUnavailable as error:
    print("as it should:", error)
"""
OTEL = """
from rowlease import Client, add_middleware, task
from rowlease.tracing import Tracing
add_middleware(Tracing())
with Client() as client:
    print("enqueued:", client.enqueue(task(print)).request_id)
"""
#: A program of an environment, with its arguments, that shows that an extra is there.
PROGRAMS = {
    "": ("rowlease", "enqueue", "idle"),
    "spark": ("python", "-c", SPARK),
    "sqlserver": ("python", "-c", SQLSERVER),
    "metrics": ("rowlease", "exporter", "--once"),
    "otel": ("python", "-c", OTEL),
    "report": ("rowlease", "report"),
    "demo": ("rowlease", "demo", "--rows", "200"),
    "dashboard": ("rowlease", "dashboard", "--port", "0"),
    "docs": ("zensical", "--version"),
    "release": ("twine", "--version"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    parser.add_argument("extras", nargs="*", help="the default is all of them")
    given = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if untried := project["optional-dependencies"].keys() - PROGRAMS - {"embedded", "dev"}:
        sys.exit(f"nothing shows that these extras are there: {', '.join(sorted(untried))}")
    failed = []
    with tempfile.TemporaryDirectory(prefix="rowlease-") as folder:
        first = made(given.python, Path(folder, "embedded"), "[embedded]")
        server = first.start("python", "-c", SERVER, stdin=subprocess.PIPE)
        assert server.stdout
        dsn = server.stdout.readline().strip()
        try:
            for extra in given.extras or PROGRAMS:
                try:
                    run = made(given.python, Path(folder, extra or "none"), f"[{extra}]")
                    run.environment["ROWLEASE_DSN"] = dsn
                    program = PROGRAMS[extra]
                    (serves if "--port" in program else Installed.__call__)(run, *program)
                except SystemExit as error:
                    print(error, flush=True)
                    failed.append(extra)
        finally:
            server.communicate()
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def made(python: str, folder: Path, extras: str) -> Installed:
    """An environment with rowlease and these extras."""
    folder.mkdir()
    subprocess.run([python, "-m", "venv", folder / "environment"], check=True)
    run = Installed(folder / "environment", folder / "work")
    run.pip(f"{ROOT}{extras}".removesuffix("[]"))
    return run


if __name__ == "__main__":
    main()
