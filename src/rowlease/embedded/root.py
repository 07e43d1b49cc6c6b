"""Lets root run PostgreSQL, which refuses to start as root.

This script works only on Linux, and uses only the standard library. `rowlease.embedded` puts it
before the keeper's command line:

    python root.py <home> <data folder> <binaries> <command> ...

If possible, the command runs in a user namespace, so that files and processes still belong to root.
If user namespaces are forbidden, as in Docker by default, the command runs as the user `nobody`,
who becomes the owner of the data folder.
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
    nobody = pwd.getpwnam("nobody")  # initdb needs a user that exists
    if namespace_suffices(nobody.pw_uid, home, binaries):
        give(home, data, 0, 0)
        enter_namespace(nobody.pw_uid)
    else:
        give(home, data, nobody.pw_uid, nobody.pw_gid)
        become(nobody.pw_uid, nobody.pw_gid)
    os.execv(command[0], command)  # noqa: S606


def namespace_suffices(uid: int, home: Path, binaries: Path) -> bool:
    """True if root can use the folders from a user namespace.

    This is tried in a child process, because a process cannot leave a namespace.
    """
    child = os.fork()
    if child == 0:
        try:
            enter_namespace(uid)
            # In the namespace, root has no special rights to other users' files.
            os._exit(0 if os.access(home, os.W_OK) and os.access(binaries, os.X_OK) else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def enter_namespace(uid: int) -> None:
    """Enter a user namespace in which this process is the user `uid`."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} 0 1")
    Path("/proc/self/gid_map").write_text(f"{uid} 0 1")


def become(uid: int, gid: int) -> None:
    """Become another user, but keep the capability to ignore file permissions.

    PostgreSQL needs this capability if the home or the binaries are below /root. Only an ambient
    capability survives exec.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    mask = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # The sets effective, permitted and inheritable: first capabilities 0 to 31, then 32 to 63.
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
    if libc.capset(header, sets) or libc.prctl(
        PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0
    ):
        sys.stderr.write(
            "CAP_DAC_OVERRIDE is not available, so the user nobody must be able to read the home "
            "and the binaries.\n"
        )


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
    run(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
