"""The program of a child process: reads its set-up from the worker, then runs requests.

The program imports only the standard library until it has the worker's `sys.path`. Before that, an
import of rowlease or of the tasks could fail, or find other modules with the same names.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import signal
import struct
import sys
import traceback
from contextlib import suppress
from typing import Any

#: The same struct as in `rowlease.worker.slots.wire`, which cannot be imported yet.
FRAME_SIZE = struct.Struct("=I")


def main(*fds: int) -> None:
    """Run requests until the worker closes the pipe."""
    requests_fd, outcomes_fd, memory_fd, output_fd, _kill_pipe_fd = fds
    for fd in fds:
        os.set_inheritable(fd, False)  # processes that a task starts must not keep the pipes open
    raise_oom_score()
    # The handler must be registered before READY is sent, because then the worker may send the
    # signal. The handler writes only this thread's stack, because the other threads would run while
    # it reads their stacks.
    faulthandler.register(signal.SIGQUIT, 2, all_threads=False)
    set_up = read_set_up(requests_fd)
    if set_up is None:
        return
    sys.argv[:] = set_up["arguments"]  # a script that defines tasks may read its arguments
    sys.path[:] = set_up["path"]

    from rowlease.worker.slots.child_loop import start

    start(set_up, requests_fd, outcomes_fd, memory_fd, output_fd)


def read_set_up(fd: int) -> dict[str, Any] | None:
    """Read the message of `task_loading.set_up`. Return None if the worker has closed the pipe."""
    header = read_exactly(fd, FRAME_SIZE.size)
    body = header and read_exactly(fd, *FRAME_SIZE.unpack(header))
    return json.loads(body) if body else None


def read_exactly(fd: int, size: int) -> bytes | None:
    """Read exactly `size` bytes. Return None if the pipe ends before that."""
    data = b""
    while len(data) < size:
        if not (more := os.read(fd, size - len(data))):
            return None
        data += more
    return data


def raise_oom_score() -> None:
    """Have the kernel kill this process before its worker if memory runs out. Linux only."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")


def end(code: int) -> None:
    """End this process without waiting for threads that tasks have started."""
    with suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    try:
        main(*map(int, sys.argv[1:]))
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
        end(1)
    end(0)
