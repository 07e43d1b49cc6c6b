"""Lets root run PostgreSQL, which refuses to start as root.

A script that uses only the standard library; Linux only. `rowlease.embedded` puts it before the
keeper's command line:

    python root.py <home> <data folder> <binaries> <command> ...

A user namespace is preferred, because files and processes then still belong to root. If none is
allowed (Docker forbids them by default), the command runs as `nobody`, which owns the data folder.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000  # <linux/sched.h>
PR_SET_KEEPCAPS = 8  # <linux/prctl.h>
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_DAC_OVERRIDE = 1  # <linux/capability.h>
CAPABILITY_VERSION_3 = 0x20080522


def run(home: Path, data: Path, binaries: Path, command: list[str]) -> None:
    nobody = pwd.getpwnam("nobody")  # initdb looks its user up, so the user must exist
    if namespace_suffices(nobody.pw_uid, home, binaries):
        give(home, data, 0, 0)
        enter_namespace(nobody.pw_uid)
    else:
        give(home, data, nobody.pw_uid, nobody.pw_gid)
        become(nobody.pw_uid, nobody.pw_gid)
    os.execv(command[0], command)  # noqa: S606


def namespace_suffices(uid: int, home: Path, binaries: Path) -> bool:
    """Try a namespace in a child process, because a process cannot leave one."""
    child = os.fork()
    if child == 0:
        try:
            enter_namespace(uid)
            # In the namespace root has no rights on files of other users.
            os._exit(0 if os.access(home, os.W_OK) and os.access(binaries, os.X_OK) else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def enter_namespace(uid: int) -> None:
    """Enter a user namespace as `uid`; outside of it nothing changes."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} 0 1")
    Path("/proc/self/gid_map").write_text(f"{uid} 0 1")


def become(uid: int, gid: int) -> None:
    """Become another user, but keep the capability to ignore the permissions of files.

    It is needed for a home and binaries below /root. The capability must be ambient to survive
    exec.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    mask = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # effective, permitted, inheritable; then the same for capabilities from 32 on
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    if libc.capset(header, sets) or libc.prctl(
        PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0
    ):
        sys.stderr.write("No CAP_DAC_OVERRIDE: nobody must be able to read home and binaries.\n")


def give(home: Path, data: Path, uid: int, gid: int) -> None:
    """Change the owner of the data folder if another user made it."""
    server = os.open(home / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(server, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # a server runs, and the keeper will use it, so its files stay as they are
    folders = home.glob(f"{data.name}*")  # also one that an interrupted initdb has left
    for top in (path for path in folders if path.stat().st_uid != uid):
        for folder, _, files in os.walk(top):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, uid, gid, follow_symlinks=False)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
