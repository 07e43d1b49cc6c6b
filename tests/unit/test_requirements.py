"""The pinned versions of development are those that pyproject.toml allows."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIN = re.compile(r"^(\S+)==([^ ;\\]+)", re.M)
#: The file that each begins with.
FILES = {"demo": "", "dev": "-r demo.txt\n", "release": "-r dev.txt\n"}


def pins(repository: Path, extra: str) -> dict[str, list[str]]:
    """The versions of each package; there may be one for each range of Python versions."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    while extra:
        text = (repository / "requirements" / f"{extra}.txt").read_text()
        assert text.startswith(FILES[extra])
        for name, version in PIN.findall(text):
            found[canonicalize_name(name)].append(version)
        extra = FILES[extra].removeprefix("-r ").removesuffix(".txt\n")
    return found


def required(extras: dict[str, list[str]], extra: str) -> list[Requirement]:
    """What an extra needs, with what the extras of this package in it need."""
    found = []
    for text in extras[extra]:
        requirement = Requirement(text)
        if requirement.name == "rowlease":
            found += [each for name in requirement.extras for each in required(extras, name)]
        else:
            found.append(requirement)
    return found


@pytest.mark.parametrize("extra", FILES)
def test_pinned_versions_are_allowed_ones(repository: Path, extra: str) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    pinned = pins(repository, extra)
    for requirement in required(extras, "") + required(extras, extra):
        versions = pinned[canonicalize_name(requirement.name)]
        assert versions, f"{requirement} is not pinned; run `make lock`"
        for version in versions:
            assert requirement.specifier.contains(version), f"{requirement}; run `make lock`"


def test_what_travels_into_a_release_has_the_versions_that_tests_ran_with(
    repository: Path,
) -> None:
    ran = pins(repository, "dev")
    for name, versions in pins(repository, "release").items():
        assert set(versions) == set(ran.get(name, versions)), name


@pytest.mark.parametrize("extra", FILES)
def test_each_pin_has_a_hash_and_no_index(repository: Path, extra: str) -> None:
    text = (repository / "requirements" / f"{extra}.txt").read_text()
    assert "://" not in text
    for block in re.split(r"^(?=\S)", text.removeprefix(FILES[extra]), flags=re.M)[1:]:
        assert "--hash=sha256:" in block, block
