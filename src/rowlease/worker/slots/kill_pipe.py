"""A pipe by which the kernel kills a child process when its worker ends."""

from __future__ import annotations

import fcntl
import os
import signal
import sys

F_SETSIG = 10


class KillPipe:
    """Makes the kernel kill a child process, and what its tasks start, when the worker ends.

    Nothing is written to the pipe. Its reading end is set up so that the kernel sends SIGKILL to
    the group, instead of SIGIO, at the next event of the pipe. The only possible event is that the
    writing end is closed, by `cut` or by the end of the process that holds it. So no process has to
    watch another process, and the reuse of a process id cannot cause a wrong kill.

    PR_SET_PDEATHSIG must not be used in addition. It kills the child as soon as the thread that
    started the child ends. Then the child's end of the pipe is closed too early, and processes that
    the child's tasks have started may survive.

    Source: fcntl(2), F_SETOWN, F_SETSIG and O_ASYNC. Only Linux has F_SETSIG.

    Attributes:
        fd: the reading end, which the child inherits. The worker keeps its copy open in case a task
            closes the child's copy: the kernel forgets the setting when the last copy is closed.
    """

    def __init__(self) -> None:
        self.fd, self._held = os.pipe()

    def guard(self, group: int) -> None:
        """Have the kernel kill this process group when the writing end is closed."""
        if sys.platform == "linux":
            fcntl.fcntl(self.fd, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.fd, F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_ASYNC)

    def cut(self) -> None:
        """Kill the processes that are left in the group, and close the pipe."""
        os.close(self._held)
        os.close(self.fd)
