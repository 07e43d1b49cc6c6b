"""Finds a user without rights for the server of root, because PostgreSQL refuses to run as root.

This script works only on Linux, and uses only the standard library. `rowlease.embedded` puts it
before the keeper's command line, whose last argument is the order:

    python root.py <command of the keeper> <order>

The keeper stays root, and its server runs as the user `rowlease`, if the machine has this user, or
else as `nobody`. That user owns the data folder and the socket's folder. The home above them is
closed to everybody but root, so the keeper passes the two folders to the server as open files.

In some containers root cannot become another user. Then keeper and server run in a user namespace,
in which root has another name, and the same rights.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl
    import pwd

CLONE_NEWUSER = 0x10000000  # <linux/sched.h>
#: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID and CAP_SETUID of <linux/capability.h>.
NEEDED_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 7
#: Where a copy of the binaries is kept if the server's user cannot reach the package, for example
#: below /root.
COPIES = Path("/var/lib/rowlease")


def server_users() -> list[pwd.struct_passwd]:
    """The users that the server of root may run as; the first one is preferred."""
    found = []
    for name in ("rowlease", "nobody"):
        with suppress(KeyError):
            found.append(pwd.getpwnam(name))
    return found


def run(command: list[str]) -> None:
    order = json.loads(command[-1])
    home, binaries = Path(order["home"]), Path(order["binaries"])
    data = home / f"postgresql-{order['major']}"
    users = server_users()
    if not users:
        raise SystemExit("there is no user nobody, as which the server of root could run")
    user = users[0]
    if can_become(user):
        give(home, data, user.pw_uid, user.pw_gid)
        if not can_execute(binaries / "postgres", user):
            order["binaries"] = str(copied(binaries, user))
        order["user"] = [user.pw_uid, user.pw_gid]
    else:
        give(home, data, 0, 0)
        enter_namespace(user.pw_uid)
    os.execv(command[0], [*command[:-1], json.dumps(order)])  # noqa: S606


def can_become(user: pwd.struct_passwd) -> bool:
    """Whether root may start and stop processes of this user, and give files to it."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return effective & NEEDED_CAPABILITIES == NEEDED_CAPABILITIES and all(
        any(
            first <= number < first + count
            for first, _, count in (map(int, line.split()) for line in table.splitlines())
        )
        for number, table in (
            (user.pw_uid, Path("/proc/self/uid_map").read_text()),
            (user.pw_gid, Path("/proc/self/gid_map").read_text()),
        )
    )


def can_execute(program: Path, user: pwd.struct_passwd) -> bool:
    """Whether this user can execute the program. A child asks, because it becomes the user."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
            os._exit(0 if os.access(program, os.X_OK) else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def copied(binaries: Path, user: pwd.struct_passwd) -> Path:
    """A copy of the package's PostgreSQL in a folder that everybody can reach."""
    package = binaries.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    advice = "set ROWLEASE_PG_BIN to the programs of a PostgreSQL server that this user can execute"
    if not libraries.is_dir():
        raise SystemExit(f"the user {user.pw_name} cannot execute {binaries}/postgres; {advice}")
    found = (binaries / "postgres").stat()
    copy = COPIES / f"postgresql-{found.st_size}-{int(found.st_mtime)}"
    try:
        COPIES.mkdir(mode=0o755, exist_ok=True)
        if COPIES.lstat().st_uid != 0 or COPIES.lstat().st_mode & 0o022:
            raise SystemExit(f"others than root may write to {COPIES}; {advice}")
        if not copy.exists():
            draft = Path(tempfile.mkdtemp(dir=COPIES))
            for part in ("bin", "lib", "share"):
                source = binaries.parent / part
                shutil.copytree(source, draft / source.relative_to(package.parent), symlinks=True)
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
            for folder, _, files in os.walk(draft):
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    if not os.path.islink(path):
                        mode = os.stat(path).st_mode
                        os.chmod(path, mode | 0o444 | (0o111 if mode & 0o100 else 0))
            with suppress(OSError):  # a server with another home was first
                draft.rename(copy)
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise SystemExit(
            f"the user {user.pw_name} cannot execute {binaries}/postgres, and no copy can be made "
            f"in {COPIES}: {error.strerror}; {advice}"
        ) from error
    return copy / binaries.relative_to(package.parent)


def enter_namespace(uid: int) -> None:
    """Enter a user namespace in which this process is the user `uid`."""
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
            raise OSError(number := ctypes.get_errno(), os.strerror(number))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} 0 1")
        Path("/proc/self/gid_map").write_text(f"{uid} 0 1")
    except OSError as error:
        raise SystemExit(
            "root can neither become another user here, nor enter a user namespace "
            f"({error.strerror}); start the program as another user"
        ) from error


def give(home: Path, data: Path, uid: int, gid: int) -> None:
    """Change the owner of the data folder, if it belongs to another user."""
    server = os.open(home / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(server, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # a server is running, so do not change the owner of its files
    folders = home.glob(f"{data.name}*")  # also the folder of an interrupted initdb
    for top in (path for path in folders if path.stat().st_uid != uid):
        for folder, _, files in os.walk(top):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, uid, gid, follow_symlinks=False)


if __name__ == "__main__":
    run(sys.argv[1:])
