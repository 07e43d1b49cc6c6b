"""A child process: runs one task after the other, as its worker tells it through a pipe.

The worker starts this file as a program, so only the standard library is imported before the
worker's `sys.path` is known. Both sides speak in frames, a fixed header and a body; requests come
in as many per read as the pipe holds. Each outcome is written at once: a child that dies takes none
along, and it is the worker that reads them in batches. Which request runs is marked in memory that
both share, because a message per start would cost as much as a small task.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from datetime import timedelta

    from rowlease.tasks import Task

#: Per request: bytes of payload, number of the task, until when (by `now`) the lease is good, and
#: what its context says: the request's id, which attempt it is, and of how many.
REQUEST = struct.Struct("=IHdqII")
#: Per outcome: bytes of body, what it is (below), seconds it took.
OUTCOME = struct.Struct("=IBd")
#: DONE has the result as body, if any. RETRY has seconds to wait (NaN: the queue's back-off) before
#: its text. NOT_RUN was taken back, or its lease was over. READY and BROKEN answer the set-up.
READY, BROKEN, DONE, FAILED, RETRY, DEAD, NOT_RUN = range(7)
SECONDS = struct.Struct("=d")

#: The shared memory: how many requests the child has begun; when the last one began; the range of
#: requests that the worker takes back; the one it asks to stop; and until when which one's lease
#: was prolonged. Then the child's own again: what which request last said of its progress, a
#: fraction and the bytes of a note; TURN is odd while they change. Each word has one writer.
BEGUN, STARTED, TAKEN_FROM, TAKEN_TO, STOP, PROLONGED, ENDS = range(7)
TURN, SAID_BY, FRACTION, NOTE_BYTES = range(7, 11)
NOTE_AT, MAX_NOTE = 88, 400
MEMORY_BYTES = NOTE_AT + MAX_NOTE

#: What last_error holds (characters).
MAX_ERROR = 8000
MAX_MESSAGE = 2000
#: Frames of these say nothing to a task's author.
OWN_FILES = (__file__, os.path.join(os.path.dirname(__file__), os.pardir, "tasks.py"))
READ_BYTES = 1 << 16
PR_SET_PDEATHSIG = 1


def now() -> float:
    """Seconds on the clock by which leases are judged here: it also runs while the host sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def main(requests_fd: int, outcomes_fd: int, memory_fd: int, worker_pid: int) -> None:
    """Serve until the worker closes the pipe."""
    for fd in (requests_fd, outcomes_fd, memory_fd):
        os.set_inheritable(fd, False)  # a task's own children must not keep the pipes open
    die_with(worker_pid)
    # Before READY says that it may come. Threads of the task may run meanwhile: not to be read.
    faulthandler.register(signal.SIGQUIT, 2, all_threads=False)
    frames = read_frames(requests_fd)
    try:
        _, text = next(frames)
        setup = json.loads(text)
        sys.argv[:] = setup["arguments"]  # its own are descriptors, which say nothing to a script
        tasks = load(setup)
    except StopIteration:
        return
    except BaseException as error:
        write(outcomes_fd, BROKEN, 0.0, describe(error))
        return
    write(outcomes_fd, READY, 0.0, b"")
    with mmap.mmap(memory_fd, MEMORY_BYTES) as memory, memoryview(memory) as view:
        serve(tasks, frames, outcomes_fd, view)


class Line:
    """The shared memory, as the context of a running task uses it."""

    def __init__(
        self, memory: memoryview, marks: memoryview[int], times: memoryview[float]
    ) -> None:
        self._memory = memory
        self._marks = marks
        self._times = times

    def is_asked_to_stop(self, number: int) -> bool:
        return self._marks[STOP] == number

    def lease_ends(self, number: int) -> float | None:
        return self._times[ENDS] if self._marks[PROLONGED] == number else None

    def tell(self, number: int, fraction: float, note: str) -> None:
        said = note.encode(errors="replace")[:MAX_NOTE]
        self._marks[TURN] += 1
        self._marks[SAID_BY] = number
        self._times[FRACTION] = fraction
        self._marks[NOTE_BYTES] = len(said)
        self._memory[NOTE_AT : NOTE_AT + len(said)] = said
        self._marks[TURN] += 1


def serve(
    tasks: list[Task],
    frames: Iterator[tuple[tuple[Any, ...], bytes]],
    outcomes_fd: int,
    memory: memoryview,
) -> None:
    from rowlease.context import Context, running

    pid = os.getpid()
    spare = [(fd, os.dup(fd), name) for fd, name in ((1, "stdout"), (2, "stderr")) if is_open(fd)]
    with memory.cast("Q") as marks, memory.cast("d") as times:
        line = Line(memory, marks, times)
        for number, (about, payload) in enumerate(frames, 1):
            _, task_number, lease_ends, request_id, attempt, max_attempts = about
            started = now()
            times[STARTED] = started
            marks[BEGUN] = number  # first say so, then look whether the worker has taken it back
            if started > lease_ends or marks[TAKEN_FROM] <= number <= marks[TAKEN_TO]:
                code, body = NOT_RUN, b""
            else:
                running.set(Context(request_id, attempt, max_attempts, number, lease_ends, line))
                code, body = run(tasks[task_number], payload)
                if os.getpid() != pid:
                    os._exit(0)  # a process that the task forked has come back from it
                mend(spare)
            write(outcomes_fd, code, now() - started, body)


def mend(spare: list[tuple[int, int, str]]) -> None:
    """Open stdout and stderr again if a task has closed them: the next one may want to print."""
    for fd, copy, name in spare:
        if not is_open(fd):
            os.dup2(copy, fd)
        if getattr(getattr(sys, name), "closed", False):
            setattr(sys, name, os.fdopen(fd, "w", buffering=1, closefd=False))


def is_open(fd: int) -> bool:
    try:
        os.get_inheritable(fd)  # the cheapest of its questions
    except OSError:
        return False
    return True


def run(task: Task, payload: bytes) -> tuple[int, bytes]:
    """Run one request; whatever the task raises becomes text."""
    try:
        with soft_limit(task.soft_time_limit) if task.soft_time_limit else nullcontext():
            result = task.run(payload.decode())
        return DONE, b"" if result is None else result.encode()
    except BaseException as error:
        return failed(task, error)


def failed(task: Task, error: BaseException) -> tuple[int, bytes]:
    """What to say of an attempt that ended with this exception."""
    from rowlease.errors import DeadLetter, Retry

    # isinstance would ask the exception itself, which may raise another.
    kind, said = type(error), cast("Any", error)
    try:
        if issubclass(kind, Retry):
            after = float("nan") if said.after is None else said.after.total_seconds()
            return RETRY, SECONDS.pack(after) + describe(said.reason)
        if issubclass(kind, DeadLetter):
            return DEAD, describe(said.reason)
    except BaseException as worse:
        error = worse
    return (DEAD if task.is_hopeless(error) else FAILED), describe(error)


@contextmanager
def soft_limit(limit: timedelta) -> Iterator[None]:
    """Raise SoftTimeLimitExceeded in the task when its time is up."""
    from rowlease.errors import SoftTimeLimitExceeded

    def expire(*_: object) -> None:
        raise SoftTimeLimitExceeded(f"the task ran past its soft time limit of {limit}")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit.total_seconds())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def describe(error: object) -> bytes:
    """The text of an exception, or of what a task gave as a reason, whatever it is."""
    try:
        if not isinstance(error, BaseException):
            return str(error)[:MAX_ERROR].encode(errors="backslashreplace")
        head = "".join(traceback.format_exception_only(error)).strip()[:MAX_MESSAGE]
        trace = error.__traceback__
        while trace and trace.tb_next and trace.tb_frame.f_code.co_filename in OWN_FILES:
            trace = trace.tb_next
        tail = "".join(traceback.format_exception(type(error), error, trace))
        tail = tail[-(MAX_ERROR - len(head) - 2) :]
        return f"{head}\n\n{tail}".encode(errors="backslashreplace")
    except BaseException as worse:
        kind = type(error).__name__
        return f"{kind} (describing it raised {type(worse).__name__})".encode(errors="replace")


def write(fd: int, code: int, seconds: float, body: bytes) -> None:
    data = memoryview(OUTCOME.pack(len(body), code, seconds) + body)
    while data:
        data = data[os.write(fd, data) :]


def read_frames(fd: int) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Of each request what `REQUEST` says, and its payload; ends with the pipe."""
    buffer = bytearray()
    while data := os.read(fd, READ_BYTES):
        buffer += data
        place = 0
        while len(buffer) - place >= REQUEST.size:
            about = REQUEST.unpack_from(buffer, place)
            end = place + REQUEST.size + about[0]
            if end > len(buffer):
                break
            yield about, bytes(buffer[place + REQUEST.size : end])
            place = end
        del buffer[:place]


def load(setup: dict[str, Any]) -> list[Task]:
    """Import the tasks by their functions' import paths."""
    sys.path[:] = setup["path"]
    import importlib
    import runpy

    from rowlease.tasks import Task

    # As multiprocessing does: the script runs again under another name than __main__.
    script: dict[str, Any] = {}
    if setup["script"]:
        script = runpy.run_path(setup["script"], run_name="__rowlease_main__")
    tasks: list[Task] = []
    for module, qualname, name in setup["tasks"]:
        first, *rest = qualname.split(".")
        names = vars(importlib.import_module(module)) if module else script
        found = names[first]
        for part in rest:
            found = getattr(found, part)
        if not isinstance(found, Task):  # made by a call, under another name than the function's
            made = (one for one in names.values() if isinstance(one, Task) and one.name == name)
            found = next((one for one in made if one.function is found), None) or Task(found, name)
        tasks.append(found)
    return tasks


def die_with(worker_pid: int) -> None:
    """Have the kernel kill this process when the worker dies; and prefer it when memory is out."""
    if sys.platform != "linux":
        return  # the end of the pipe ends an idle child; a busy one ends after its task
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != worker_pid:
        os._exit(1)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
    except OSError:
        pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
