"""What a release needs: its metadata, its files for a public forge, and builds that are equal."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import versions


@pytest.fixture
def project(repository: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return found


def test_the_citation_names_this_version(repository: Path, project: dict[str, Any]) -> None:
    cited = yaml.safe_load((repository / "CITATION.cff").read_text())
    assert (cited["title"], cited["version"], cited["license"]) == (
        project["name"],
        project["version"],
        project["license"],
    )
    heading = re.search(r"^## (\S+)", (repository / "CHANGELOG.md").read_text(), re.M)
    assert heading
    assert heading[1] == project["version"]


def test_the_workflows_run_commands_that_are_there(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text()
    workflows = list((repository / ".github" / "workflows").glob("*.yml"))
    assert len(workflows) == 2
    for file in workflows:
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            assert job["timeout-minutes"] <= 60
            commands = [step.get("run", "") for step in job["steps"]]
            matrix = job.get("strategy", {}).get("matrix", {})
            commands += matrix.get("command", [])
            commands += [each.get("command", "") for each in matrix.get("include", [])]
            for command in commands:
                if command.startswith("make "):
                    target = command.split()[1].replace(".venv/", "$(VENV)/")
                    assert f"\n{target}:" in makefile, command
                elif found := re.match(r"(?:python )?((?:\.ci|tests)/\S+)", command):
                    assert (repository / found[1]).exists(), command


def test_the_workflows_pin_the_actions_that_they_use(repository: Path) -> None:
    used = [
        use
        for file in (repository / ".github" / "workflows").glob("*.yml")
        for use in re.findall(r"uses: (.*)", file.read_text())
    ]
    assert used
    assert [use for use in used if not re.search(r"@[0-9a-f]{40} # v\d", use)] == []


def test_the_workflow_runs_each_version_of_postgresql(repository: Path) -> None:
    test = yaml.safe_load((repository / ".github" / "workflows" / "test.yml").read_text())
    assert test["jobs"]["versions"]["strategy"]["matrix"]["postgresql"] == list(versions.VERSIONS)


def test_the_pythons_are_those_of_the_classifiers(
    repository: Path, project: dict[str, Any]
) -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    release = runpy.run_path(str(repository / ".ci" / "release.py"))
    assert tuple(named) == release["PYTHONS"]
    test = yaml.safe_load((repository / ".github" / "workflows" / "test.yml").read_text())
    for job in ("readme", "versions"):
        assert test["jobs"][job]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


@pytest.mark.skipif(
    importlib.util.find_spec("build") is None, reason="no build: `make release` brings it"
)
def test_two_builds_are_equal(repository: Path, project: dict[str, Any], tmp_path: Path) -> None:
    if subprocess.run(["git", "rev-parse"], cwd=repository, capture_output=True).returncode:
        pytest.skip("not a git checkout")
    release = runpy.run_path(str(repository / ".ci" / "release.py"))
    url = {**project, "urls": {"Repository": "https://forge.example/rowlease"}}
    first = release["built"](tmp_path / "first", url, keep=tmp_path)
    assert first == release["built"](tmp_path / "second", url)
    readme = tmp_path / "first" / "source" / "README.md"
    links = re.findall(r"\]\(([^)]+)\)", readme.read_text())
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    (image,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme.read_text())
    assert image == f"https://forge.example/rowlease/raw/v{project['version']}/docs/demo.png"
