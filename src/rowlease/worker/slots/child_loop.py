"""The loop of a child process, which runs the requests that arrive through a pipe, one by one.

The child records in shared memory which request is running. Sending a message at each start would
cost as much as a small task.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

from rowlease.clock import now
from rowlease.context import Context, running
from rowlease.errors import SoftTimeLimitExceeded
from rowlease.garbage import search_less
from rowlease.lifespans import Shared
from rowlease.middleware import NO_MIDDLEWARE, around_run
from rowlease.tasks.loading import load_places
from rowlease.tasks.task import Task, runner
from rowlease.worker.attempt import Ending, NotRun, describe, failed, returned
from rowlease.worker.slots import output, wire
from rowlease.worker.slots.shared_memory import (
    BEGUN,
    MEMORY_BYTES,
    STARTED,
    TAKEN_FROM,
    TAKEN_TO,
    SharedMemoryView,
)

#: Has the worker look for outcomes.
WAKE = wire.frame(wire.answer(0, wire.WAKE))
#: True in a process that a task has forked. A flag is cheaper than `os.getpid`, which would be a
#: system call for each request.
_is_forked = False


def start(
    set_up: dict[str, Any], requests_fd: int, outcomes_fd: int, memory_fd: int, output_fd: int
) -> None:
    """Import the tasks and enter lifespans, then run requests until the worker closes the pipe."""
    if set_up["levels"] is not None:
        output.redirect(output_fd, set_up["levels"])
    shared = Shared(set_up["dsn"])
    what = "import the tasks"
    with ExitStack() as stack:
        try:
            tasks = load_places(set_up["tasks"], set_up["script"])
            output.take_over()
            what = "start"
            stack.enter_context(shared.entered(lambda: runner().get_loop()))
        except BaseException as error:
            why = f"could not {what}: {describe(error)}"
            wire.write(outcomes_fd, wire.frame(wire.answer(0, wire.BROKEN, body=why.encode())))
            return
        wire.GivenRequest.kinds = [task.name for task in tasks]
        search_less()
        os.register_at_fork(after_in_child=mark_forked)
        wire.write(outcomes_fd, wire.frame(wire.answer(0, wire.READY)))
        with mmap.mmap(memory_fd, MEMORY_BYTES) as memory, memoryview(memory) as view:
            serve(tasks, wire.read_requests(requests_fd), outcomes_fd, view, shared)


def serve(
    tasks: list[Task[..., Any]],
    requests: Iterator[wire.GivenRequest],
    outcomes_fd: int,
    memory: memoryview,
    shared: Shared,
) -> None:
    """Run requests until the worker closes the pipe."""
    copies = [(fd, os.dup(fd), name) for fd, name in ((1, "stdout"), (2, "stderr")) if is_open(fd)]
    closed = select.poll()  # reports each of these descriptors that is closed, in one system call
    for fd, _, _ in copies:
        closed.register(fd, 0)
    with memory.cast("Q") as marks, memory.cast("d") as times:
        view = SharedMemoryView(memory, marks, times, shared)
        for number, request in enumerate(requests, 1):
            started = now()
            times[STARTED] = started
            marks[BEGUN] = number  # must precede the check below; see ChildProcess.finish_take_back
            ending: Ending
            if started > request.lease_ends or marks[TAKEN_FROM] <= number <= marks[TAKEN_TO]:
                ending = NotRun()
            else:
                running.set(context := Context(request, number, request.lease_ends, view))
                ending = run(tasks[request.task_number], context, request.payload)
                if _is_forked:
                    os._exit(0)  # the task has forked this process, and has returned in it
                if output.unfinished:
                    output.end_lines()
                restore_streams(copies, closed)
            code, body = wire.packed(ending)
            answer = wire.answer(number, code, now() - started, body)
            try:
                if not view.put(answer):
                    wire.write(outcomes_fd, wire.frame(answer))
                elif view.must_wake():
                    wire.write(outcomes_fd, WAKE)
            except BrokenPipeError:
                return  # the worker has ended


def run(task: Task[..., Any], context: Context, payload: bytes) -> Ending:
    """Run one request. An exception of the task becomes a `Failure`."""
    try:
        limit = soft_limit(task.soft_time_limit) if task.soft_time_limit else NO_MIDDLEWARE
        with limit, around_run(task, context):
            result = task.run(payload.decode())
        return returned(context, result)
    except BaseException as error:
        return failed(task, error)


@contextmanager
def soft_limit(limit: timedelta) -> Iterator[None]:
    """Raise SoftTimeLimitExceeded in the task when the soft time limit has passed."""

    def expire(*_: object) -> None:
        raise SoftTimeLimitExceeded(f"the task ran past its soft time limit of {limit}")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit.total_seconds())
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def mark_forked() -> None:
    global _is_forked
    _is_forked = True


def restore_streams(copies: list[tuple[int, int, str]], closed: select.poll) -> None:
    """Open stdout or stderr again if a task has closed it, so that the next task can print."""
    is_any_closed = closed.poll(0)
    for fd, copy, name in copies:
        if is_any_closed and not is_open(fd):
            os.dup2(copy, fd)
        if getattr(getattr(sys, name), "closed", False):
            setattr(sys, name, output.open_stream(name, fd))


def is_open(fd: int) -> bool:
    try:
        os.get_inheritable(fd)  # the cheapest call that fails on a closed descriptor
    except OSError:
        return False
    return True
