"""A kill pipe: the kernel kills a process group when the process that holds the kill pipe is gone.

It is a pipe into which nobody writes. Its reading end asks for SIGKILL to the whole group, in place
of SIGIO, when something happens to the pipe; the only thing that can happen is that the writing
end is closed, by `cut` or by the end of its process, whatever ended that. So no other process has
to watch, and no number of a process can be mistaken for another's.

Nothing else may kill the child when its worker dies. PR_SET_PDEATHSIG would, as soon as the thread
that started the child is gone; the child's end of the pipe is then closed too early, and in some
cases what its tasks have started survives.

Source: fcntl(2), F_SETOWN, F_SETSIG and O_ASYNC. Only Linux has F_SETSIG.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys

F_SETSIG = 10


class KillPipe:
    """Held by a worker, for one child process and all that its tasks start.

    Attributes:
        fd: for the child to hold as well. The worker keeps it too, in case a task closes the
            child's: the kernel forgets the request when nobody has that end open.
    """

    def __init__(self) -> None:
        self.fd, self._held = os.pipe()

    def guard(self, group: int) -> None:
        """Have this process group killed when it is cut."""
        if sys.platform == "linux":
            fcntl.fcntl(self.fd, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.fd, F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_ASYNC)

    def cut(self) -> None:
        """Kill what is left of the group, and release everything."""
        os.close(self._held)
        os.close(self.fd)
