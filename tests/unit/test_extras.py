"""rowlease, without any extra: only what its dependencies bring can be imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WITHOUT_EXTRAS = """
import json, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} is not among rowlease's dependencies", name=name)

hidden = set(json.loads(sys.stdin.read()))
sys.meta_path.insert(0, Hidden())
"""
USED = """
import rowlease, rowlease.testing
for name in rowlease.__all__:
    getattr(rowlease, name)

from rowlease.cli import cli
for command in cli.list_commands(None):
    cli([command, "--help"], standalone_mode=False)
"""
RUN = """
from rowlease.cli import main
main()
"""


def brought_by(requirements: list[str]) -> set[str]:
    """The names of the distributions that requirements bring, with what these need."""
    found: set[str] = set()
    seen: set[str] = set()
    remaining = list(requirements)
    while remaining:
        text = remaining.pop()
        requirement = Requirement(text)
        if text in seen:
            continue
        seen.add(text)
        found.add(canonicalize_name(requirement.name))
        for needed in map(Requirement, distribution(requirement.name).requires or ()):
            extras = [{"extra": extra} for extra in ("", *requirement.extras)]
            if not needed.marker or any(map(needed.marker.evaluate, extras)):
                needed.marker = None
                remaining.append(str(needed))
    return found


def modules_not_brought_by(requirement: str) -> list[str]:
    """The modules of this environment that `pip install` of the requirement does not bring."""
    brought = brought_by([requirement])
    return [
        module
        for module, names in packages_distributions().items()
        if not brought & set(map(canonicalize_name, names))
    ]


def test_the_public_names_and_the_help_of_commands_need_no_extra() -> None:
    hidden = modules_not_brought_by("rowlease")
    assert {"pyspark", "pyodbc", "starlette", "prometheus_client", "pytest"} < set(hidden)
    assert not {"rowlease", "psycopg", "psycopg_binary", "sqlalchemy"} & set(hidden)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + USED],
        input=json.dumps(hidden),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: -c worker " in done.stdout


@pytest.mark.parametrize(
    "command",
    ["dashboard", "exporter --once", "worker rowlease.demo.tasks --health 0", "migrate"],
)
def test_the_image_has_what_the_services_of_compose_and_the_chart_run(
    command: str, repository: Path
) -> None:
    (extras,) = re.findall("ARG EXTRAS=(.*)", (repository / "Dockerfile").read_text())
    done = subprocess.run(
        [sys.executable, "-c", f"{WITHOUT_EXTRAS}{RUN}", *command.split()],
        input=json.dumps(modules_not_brought_by(f"rowlease[{extras}]")),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ROWLEASE_DSN": "postgresql://nobody@127.0.0.1:1/nowhere"},
    )
    assert "Error: cannot reach the database" in done.stderr
