"""Builds and checks a release. Without --tag it changes nothing outside dist/.

    python .ci/release.py [--tag]

It builds the committed state twice and compares the results, checks the files for a package index,
runs what the README shows with the wheel on each Python that is there and with the sdist, and
writes an SBOM and checksums into dist/.
--tag also makes the signed tag. Nothing is uploaded: the last line is the command for it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGE = ROOT / ".ci" / "package.py"
#: The Pythons with which the wheel is installed, if they are there.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: A link of the README that leads to another file of the repository, and an image of it.
RELATIVE = re.compile(r"(!?)(\[[^]]*\]\()(?!https?:|#)([^)\s]+\))")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", action="store_true", help="make the signed tag of the version")
    given = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    missing = problems(project)
    for each in missing:
        print(f"before the first upload: {each}")
    with tempfile.TemporaryDirectory() as folder:
        builds = [built(Path(folder) / name, project) for name in ("first", "second")]
        if builds[0] != builds[1]:
            sys.exit(f"two builds differ: {builds[0]} and {builds[1]}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        hashes = built(Path(folder) / "release", project, keep=DIST)
    print(
        "two builds are equal:", *(f"{digest}  {name}" for name, digest in hashes.items()), sep="\n"
    )
    files = sorted(map(str, DIST.iterdir()))
    call(sys.executable, "-m", "twine", "check", "--strict", *files)
    wheel = next(DIST.glob("*.whl"))
    call(sys.executable, str(PACKAGE), str(next(DIST.glob("*.tar.gz"))))
    call(sys.executable, "-m", "check_wheel_contents", str(wheel))
    with tempfile.TemporaryDirectory() as folder:
        environments = [
            environment for name in PYTHONS if (environment := installed(name, wheel, folder))
        ]
        # SOURCE_DATE_EPOCH and --output-reproducible keep the SBOM free of times.
        call(
            sys.executable, "-m", "cyclonedx_py", "environment", environments[0],
            "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible",
            "--output-file", str(DIST / f"rowlease-{version}.cdx.json"),
        )  # fmt: skip
    sums = {file.name: digest(file) for file in sorted(DIST.iterdir())}
    (DIST / "SHA256SUMS").write_text("".join(f"{d}  {name}\n" for name, d in sums.items()))
    if given.tag:
        if missing or git("status", "--porcelain"):
            sys.exit("no tag: mend what is listed above, and commit everything")
        call("git", "tag", "--sign", f"v{version}", "--message", f"rowlease {version}")
    print(f"dist/ is ready; to upload: twine upload dist/rowlease-{version}*.whl dist/*.tar.gz")


def problems(project: dict[str, object]) -> list[str]:
    """What a release still needs."""
    heading = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    found = []
    if not heading or not re.fullmatch(rf"{project['version']} \(\d{{4}}-\d\d-\d\d\)", heading[1]):
        found.append(f"the topmost heading of CHANGELOG.md must be {project['version']} (date)")
    if not project.get("urls"):
        found.append(
            "pyproject.toml needs [project.urls] with Repository; links of the README use it"
        )
    return found


def built(folder: Path, project: dict[str, object], keep: Path | None = None) -> dict[str, str]:
    """Build the committed state in a new folder; the hashes of the files."""
    source = folder / "source"
    source.mkdir(parents=True)
    archive = folder / "source.tar"
    archive.write_bytes(
        subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    )
    with tarfile.open(archive) as tar:
        tar.extractall(source, filter="data")
    urls = project.get("urls")
    if isinstance(urls, dict):  # relative links do not work on a package index
        readme = source / "README.md"
        # `blob` is the page of a file, `raw` the file itself.
        absolute = RELATIVE.sub(
            lambda link: (
                f"{link[1]}{link[2]}{urls['Repository']}/{'raw' if link[1] else 'blob'}"
                f"/v{project['version']}/{link[3]}"
            ),
            readme.read_text(),
        )
        readme.write_text(absolute)
    output = folder / "dist"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct")}
    call(
        sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(source),
        environment=environment, quiet=True,
    )  # fmt: skip
    if keep is not None:
        for file in output.iterdir():
            shutil.copy(file, keep)
    return {file.name: digest(file) for file in sorted(output.iterdir())}


def installed(name: str, wheel: Path, folder: str) -> str | None:
    """A new environment with the wheel; None if this Python is not there."""
    python = shutil.which(f"python{name}")
    # A shim of pyenv is there for versions that are not.
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        print(f"Python {name} is not here: not tried")
        return None
    home = str(Path(folder) / name)
    call(python, "-m", "venv", home)
    call(
        f"{home}/bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        str(wheel),
    )
    call(f"{home}/bin/rowlease", "--version")
    call(sys.executable, str(PACKAGE), "--python", python, str(wheel))
    return f"{home}/bin/python"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def call(*command: str, environment: dict[str, str] | None = None, quiet: bool = False) -> None:
    done = subprocess.run(command, env=environment, capture_output=quiet, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} failed\n{done.stdout or ''}{done.stderr or ''}")


if __name__ == "__main__":
    main()
