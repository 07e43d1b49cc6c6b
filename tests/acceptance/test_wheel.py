"""The wheel, installed elsewhere: it holds all it needs, and nothing else."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import in_database, scratch_database

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling, which builds, is missing"
)

#: The folders of the checkout, and their places in the wheel.
PLACES = {
    "src/rowlease": "rowlease",
    "src/pyspark_rowlease": "pyspark_rowlease",
    "sql": "rowlease/_sql",
    "migrations": "rowlease/_migrations",
}

JOBS = """\
from rowlease import task

@task
def double(n):
    return 2 * n
"""


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=repository,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel; what it needs comes from the one the tests run in."""
    home = tmp_path_factory.mktemp("elsewhere")
    python = str(home / "bin" / "python")
    shares_pip = importlib.util.find_spec("pip") is not None  # else it has to install one: 5 s
    venv.create(home, with_pip=not shares_pip, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", python] if shares_pip else [python, "-m", "pip"]
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True
    )
    ours = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (purelib / "shared.pth").write_text("".join(f"{path}\n" for path in ours))
    return home


@pytest.fixture
def call(elsewhere: Path, tmp_path: Path, database: str) -> Callable[..., str]:
    """Run a program of that environment, far from the checkout, on a fresh database."""
    kept = {key: value for key, value in os.environ.items() if not re.match("PYTHON|ROWLEASE", key)}

    def run(program: str, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [elsewhere / "bin" / program, *arguments],
            cwd=tmp_path,
            env={**kept, "ROWLEASE_DSN": database},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def database(server_dsn: str) -> Iterator[str]:
    with scratch_database(server_dsn) as name:
        yield in_database(server_dsn, name)


def test_the_wheel_holds_the_package_its_sql_and_its_migrations_and_nothing_else(
    wheel: Path, repository: Path
) -> None:
    files = [
        (path.relative_to(repository / source), place)
        for source, place in PLACES.items()
        for path in (repository / source).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    expected = {f"{place}/{path.as_posix()}" for path, place in files}
    assert {f"rowlease/_sql/{name}" for name in ("README.md", "postgresql/grants.sql")} < expected
    with zipfile.ZipFile(wheel) as opened:
        found = set(opened.namelist())
    about = {name for name in found if ".dist-info/" in name}
    assert found - about == expected
    assert {name.partition("/")[2] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_the_wheel_migrates_a_database_and_runs_a_worker(
    call: Callable[..., str], elsewhere: Path, tmp_path: Path, database: str
) -> None:
    where = call("python", "-c", "import rowlease; print(rowlease.__file__)").strip()
    assert Path(where).is_relative_to(elsewhere)
    assert re.fullmatch(r"rowlease, version \d+\.\d+\.\d+\n", call("rowlease", "--version"))

    assert "from an empty database" in call("rowlease", "migrate")
    assert "up to date" in call("rowlease", "migrate")

    (tmp_path / "jobs.py").write_text(JOBS)
    lines = "".join(f'{{"n": {n}}}\n' for n in range(20))
    assert call("rowlease", "enqueue", "double", "--lines", "-", stdin=lines)
    assert "20 finished" in call("rowlease", "worker", "jobs", "--burst", "--concurrency", "2")
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "select status, (payload ->> 'n')::int, result::text::int from rowlease.requests"
        ).fetchall()
    assert sorted(found) == [("Complete", n, 2 * n) for n in range(20)]


def test_the_command_that_installs_an_extra_needs_no_index_for_rowlease(elsewhere: Path) -> None:
    """Errors name this command. The installed distribution satisfies it, also one of a checkout."""
    python = str(elsewhere / "bin" / "python")
    done = subprocess.run(
        [python, "-m", "pip", "install", "--no-index", "--no-deps", "rowlease[dashboard]"],
        capture_output=True,
        text=True,
    )
    assert "Requirement already satisfied: rowlease[dashboard]" in done.stdout, done.stderr


def test_pytest_finds_the_fixtures_of_the_wheel(call: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import os\nos.environ['ROWLEASE_TEST_DSN'] = os.environ['ROWLEASE_DSN']\n"
    )
    (tmp_path / "test_jobs.py").write_text(
        JOBS + "\n\ndef test_double(rowlease_client):\n"
        "    from rowlease.testing import drain\n"
        "    rowlease_client.enqueue(double, 21)\n"
        "    assert [ran.result for ran in drain(rowlease_client, double)] == [42]\n"
    )
    assert "1 passed" in call("python", "-m", "pytest", "-q", "-W", "error")
