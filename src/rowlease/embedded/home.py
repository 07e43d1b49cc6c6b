"""The check that nobody else has put something into the home of the embedded server."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rowlease.embedded.root import server_users
from rowlease.errors import ConfigError

HOME_ADVICE = "set ROWLEASE_HOME to a folder of your own"


def check_home(home: Path) -> None:
    """Refuse a home that another user may have made, or where others could place files or links.

    Raises:
        ConfigError: it is one. The message says what was found, and what to do.
        OSError: the home cannot be read.
    """
    user = os.geteuid()
    for path in (home, *home.parents):
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, user):
            raise ConfigError(f"{path} is a link that user {found.st_uid} has made; {HOME_ADVICE}")
    real = home.resolve()
    found = real.stat()
    if found.st_uid != user:
        raise ConfigError(
            f"{home} belongs to user {found.st_uid}, not to user {user}; {HOME_ADVICE}"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{home} may be written to by other users; {HOME_ADVICE}, or run chmod 700"
        )
    for path in real.parents:
        mode = path.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise ConfigError(
                f"{path} may be written to by everybody, who could replace {home}; {HOME_ADVICE}"
            )
    owners = {user, *(each.pw_uid for each in (server_users() if user == 0 else ()))}
    for path, why in _strange_files(real, owners):
        raise ConfigError(
            f"{path} {why}, so somebody else may have placed it; remove it, or {HOME_ADVICE}"
        )


def _strange_files(home: Path, owners: set[int]) -> Iterator[tuple[Path, str]]:
    """The files of the home that rowlease does not make, and what is wrong with each."""
    for path in home.iterdir():
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode):
            is_usual = path.name == "socket" or path.name.startswith("postgresql-")
        else:
            is_usual = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if not is_usual:
            yield path, "is not a plain file or folder of rowlease"
        elif found.st_uid not in owners:
            yield path, f"belongs to user {found.st_uid}"
