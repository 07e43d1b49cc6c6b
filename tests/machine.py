"""What this machine has of programs and libraries that tests use and no package index brings.

Each test that needs one asks here. It is skipped if there is none, and the reason names the command
that brings it. ROWLEASE_TEST_BARE=1 hides them all, as on a machine that has only make and Python.

    python -m tests.machine

prints the test modules for which that variable hides something here.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

BARE = "ROWLEASE_TEST_BARE"
ROOT = Path(__file__).resolve().parents[1]
#: Programs that `make helm`, `make promtool` and `make chromium` have brought.
TOOLS = ROOT / ".tools" / "bin"
#: What brings a program or a library.
BROUGHT_BY = {
    "chromium": "make chromium",
    "fish": "apt-get install fish",
    "helm": "make helm",
    "ICU": "apt-get install icu-devtools",
    "pgbouncer": "apt-get install pgbouncer",
    "promtool": "make promtool",
    "systemd-analyze": "apt-get install systemd",
    "zsh": "apt-get install zsh",
}
#: Names of a program that has several, the preferred one first.
NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome")}
#: Programs that a bare machine lacks, too. What rowlease and its tests need of them, they have from
#: Python packages.
ALSO_HIDDEN = ("docker", "java", "node", "npm", "psql")
#: Libraries by the name under which the system finds them.
LIBRARIES = {"ICU": "icuuc", "unixODBC": "odbc"}
#: The test modules that ask, and for what. Without psql and unixODBC they use those of packages.
ASKED_BY = {
    "tests/acceptance/test_cli_psql.py": ("psql",),
    "tests/acceptance/test_deadlines_sqlserver.py": ("unixODBC",),
    "tests/acceptance/test_proxy.py": ("pgbouncer",),
    "tests/dashboard/test_browser.py": ("chromium",),
    "tests/stress/test_pooler_faults.py": ("pgbouncer",),
    "tests/tsql/test_model.py": ("ICU",),
    "tests/tsql/test_observer.py": ("unixODBC",),
    "tests/tsql/test_odbc_driver.py": ("unixODBC",),
    "tests/unit/test_cli_config.py": ("fish", "zsh"),
    "tests/unit/test_deploy.py": ("helm", "promtool", "systemd-analyze"),
    "tests/unit/test_sqlserver.py": ("unixODBC",),
}


def is_bare() -> bool:
    """Is this machine to be taken for one that has only make and Python?"""
    return os.environ.get(BARE) == "1"


def program(name: str) -> str | None:
    """The path of a program; None if there is none."""
    if is_bare():
        return None
    path = f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}"
    found = (shutil.which(each, path=path) for each in NAMES.get(name, (name,)))
    return next(filter(None, found), None)


def path_of(name: str) -> str:
    """The path of a program; without it, the test is skipped."""
    if (found := program(name)) is None:
        pytest.skip(lacks(name))
    return found


def needs(name: str) -> pytest.MarkDecorator:
    """Skips tests for which a program is missing."""
    return pytest.mark.skipif(program(name) is None, reason=lacks(name))


def lacks(name: str) -> str:
    return f"no {name}: `{BROUGHT_BY[name]}` brings it"


def library(name: str) -> str | None:
    """The file name of a shared library of the system; None if there is none."""
    return None if is_bare() else find_library(LIBRARIES[name])


def docker_answers(timeout: float = 1.0) -> bool:
    """Does a Docker engine answer a ping? The command alone proves nothing."""
    if is_bare():
        return False
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    family, address = (
        (socket.AF_UNIX, host.removeprefix("unix://"))
        if host.startswith("unix://")
        else (socket.AF_INET, _tcp_address(host))
    )
    try:
        with socket.socket(family) as probe:
            probe.settimeout(timeout)
            probe.connect(address)
            probe.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in probe.recv(64)
    except OSError:
        return False


def _tcp_address(host: str) -> tuple[str, int]:
    name, _, port = host.removeprefix("tcp://").rpartition(":")
    return name, int(port) if port.isdigit() else 2375


def hide(folder: Path) -> None:
    """Take the programs out of PATH, also for rowlease itself and what it starts.

    A folder of PATH that has one of them is replaced by a folder of links to its other programs.

    Args:
        folder: an empty folder for these folders; servers of other users read it, too.
    """
    folder.chmod(0o755)
    hidden = {each for name in (*BROUGHT_BY, *ALSO_HIDDEN) for each in NAMES.get(name, (name,))}
    places = []
    for number, place in enumerate(os.environ.get("PATH", "").split(os.pathsep)):
        found = set(os.listdir(place)) if os.path.isdir(place) else set()
        if found & hidden:
            links = folder / str(number)
            links.mkdir()
            for name in found - hidden:
                (links / name).symlink_to(os.path.join(place, name))
            place = str(links)
        places.append(place)
    os.environ["PATH"] = os.pathsep.join(places)
    os.environ.pop("JAVA_HOME", None)


def main() -> None:
    for module, asked in ASKED_BY.items():
        if any(library(each) if each in LIBRARIES else program(each) for each in asked):
            sys.stdout.write(f"{module}\n")


if __name__ == "__main__":
    main()
