"""What an object does in a child process that this process forks.

A child gets copies of all objects, but only the thread that forked. Its copies of connections use
the same sockets as the parent, and a lock that another thread held is never released there.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import ref

from rowlease.errors import ConfigError


class Forgetful(Protocol):
    """An object that must not go on in a forked child as it was."""

    def forget(self) -> None:
        """Drop what belongs to the parent. Called in the child before any other code runs there."""


#: The process whose objects these are.
_pid = os.getpid()
#: Changed only by single calls of C code, so it is whole at every fork.
_watched: set[ref[Forgetful]] = set()


def watch_forks(one: Forgetful) -> None:
    """Call `one.forget()` in every child that this process forks, for as long as `one` exists."""
    _watched.add(ref(one, _watched.discard))


def check_fork() -> None:
    """Raise ConfigError if this process was forked, and no object was told so."""
    if _pid != os.getpid():
        raise ConfigError(
            "this process was forked without Python's fork hooks, so its connections are those of "
            "its parent; with uWSGI, set py-call-osafterfork = true"
        )


def _forget_all() -> None:
    global _pid
    _pid = os.getpid()
    # All exist until all have forgotten: a pool that forgets drops its connections.
    for one in [each() for each in list(_watched)]:
        if one is not None:
            one.forget()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_all)
