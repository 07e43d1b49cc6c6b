"""The program of a child process, started by its worker: reads where to import from, then serves.

Only the standard library is imported here: until the worker has sent its `sys.path`, rowlease and
the tasks may not be found, or others of that name.
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

#: As in `rowlease.worker.slots.wire`.
SET_UP = struct.Struct("=I")


def main(requests_fd: int, outcomes_fd: int, memory_fd: int, kill_pipe_fd: int) -> None:
    """Serve until the worker closes the pipe."""
    for fd in (requests_fd, outcomes_fd, memory_fd, kill_pipe_fd):
        os.set_inheritable(fd, False)  # a task's own children must not keep the pipes open
    raise_oom_score()
    # Before READY, after which it may come. Only this thread: the others run on meanwhile.
    faulthandler.register(signal.SIGQUIT, 2, all_threads=False)
    set_up = read_set_up(requests_fd)
    if set_up is None:
        return
    sys.argv[:] = set_up["arguments"]  # its own are descriptors, which mean nothing to a script
    sys.path[:] = set_up["path"]

    from rowlease.worker.slots.child_loop import start

    start(set_up, requests_fd, outcomes_fd, memory_fd)


def read_set_up(fd: int) -> dict[str, Any] | None:
    """What `task_loading.set_up` has made; None if the worker has gone before."""
    header = read_exactly(fd, SET_UP.size)
    body = header and read_exactly(fd, *SET_UP.unpack(header))
    return json.loads(body) if body else None


def read_exactly(fd: int, size: int) -> bytes | None:
    """So many bytes and not one more, which would be of the next frame; None at the pipe's end."""
    data = b""
    while len(data) < size:
        if not (more := os.read(fd, size - len(data))):
            return None
        data += more
    return data


def raise_oom_score() -> None:
    """When memory is short, this process goes before its worker. Linux alone has the setting."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")


def end(code: int) -> None:
    """End this process without the interpreter's wait for threads that tasks have left behind."""
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
