"""Installs rowlease in an empty environment, and runs what the README shows.

    python .ci/package.py [--python PYTHON] [FILE]

Without a wheel or sdist it installs this checkout, as the README says. It runs the README's app, a
short demo and the dashboard, far from the checkout, and needs nothing but Python.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
ROWS = "2000"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment")
    parser.add_argument("package", nargs="?", default=str(ROOT), help="a wheel or an sdist")
    given = parser.parse_args()
    run_package(given.python, given.package)


def run_package(python: str, package: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rowlease-") as folder:
        home = Path(folder, "environment")
        subprocess.run([python, "-m", "venv", home], check=True)
        run = Installed(home, Path(folder, "work"))
        run("python", "-c", "import sys; print('Python', sys.version.partition(' ')[0])")
        run.pip(f"{package}[embedded]")
        app_of_readme(run)
        run.pip(f"{package}[demo,dashboard]")
        run("rowlease", "demo", "--rows", ROWS)
        serves(run, "rowlease", "dashboard", "--port", "0")


class Installed:
    """Runs the programs of an environment, with a home and a folder of their own."""

    def __init__(self, home: Path, folder: Path) -> None:
        folder.mkdir()
        self.bin = home / "bin"
        self.folder = folder
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("ROWLEASE")
        }
        self.environment = {
            **kept,
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "ROWLEASE_HOME": str(folder / "home"),
        }

    def start(
        self, program: str, *arguments: str, stdin: int | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.bin / program, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, program: str, *arguments: str) -> str:
        """What a program prints; this program ends where that one fails."""
        started = self.start(program, *arguments)
        printed, _ = started.communicate()
        print(printed, end="", flush=True)
        if started.returncode:
            sys.exit(f"{program} {' '.join(arguments)} failed: {started.returncode}")
        return printed

    def pip(self, requirement: str) -> None:
        print(f"pip install '{requirement}' …", flush=True)
        self("python", "-m", "pip", "install", "--quiet", requirement)


def app_of_readme(run: Installed) -> None:
    """Run the program of the README, and compare what it prints."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    program, expected = re.findall(
        r"```(?:python)?\n(# app\.py\n.*?|ROWLEASE_DSN is not .*?)```", page, re.S
    )
    (run.folder / "app.py").write_text(program)
    printed = run("python", "app.py")
    # Times and speeds are those of the machine, and the first line is on stderr.
    times = r"[\d.,]+ s \([\d.,]+/s\)"
    told = re.sub(times, "", expected.partition("\n")[2])
    if re.sub(times, "", printed) != told:
        sys.exit(f"README.md says that app.py prints:\n{told}")


def serves(run: Installed, *program: str) -> None:
    """Start a program that serves pages, and ask it for the first one."""
    started = run.start(*program)
    try:
        assert started.stdout
        said = started.stdout.readline()
        print(said, end="", flush=True)
        with urlopen(said.split()[1], timeout=60) as page:
            if b"rowlease" not in page.read():
                sys.exit(f"{' '.join(program)} does not answer with its page")
    finally:
        started.send_signal(signal.SIGINT)
        started.communicate()


if __name__ == "__main__":
    main()
