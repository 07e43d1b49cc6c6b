"""The worker's side of one child process: its pipes, its shared memory and its end.

Only `close` waits for the child, so a child that is stopped, stuck or dead does not delay the
running worker.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rowlease.clock import now
from rowlease.worker.attempt import Ending
from rowlease.worker.claims.leases import Lease
from rowlease.worker.claims.outcomes import Ended
from rowlease.worker.slots import child_program, output, wire
from rowlease.worker.slots.kill_pipe import KillPipe
from rowlease.worker.slots.shared_memory import SharedMemory


class Limits(NamedTuple):
    """The limits of a child process. When it has reached one, another child replaces it.

    Attributes:
        tasks: how many requests it runs.
        memory: how much memory it has in RAM after a task, in MiB.
    """

    tasks: float = math.inf
    memory: float = math.inf


NO_LIMITS = Limits()
MIB = 1 << 20
#: -P keeps the folder of `child_program` out of sys.path. With -u, a task's output appears at once.
PROGRAM = (sys.executable, "-P", "-u", "-X", "faulthandler", child_program.__file__)
OUTCOME_READ_BYTES = 1 << 18
#: Seconds after which a child certainly sees which requests were taken back. Another
#: processor sees a write to shared memory within microseconds.
TAKE_BACK_SECONDS = 0.01
#: Seconds within which a child must end after it has closed its pipe.
CLOSED_PIPE_TIMEOUT = 1.0


class ChildProcess:
    """One slot: a child process, and the requests that the child has not answered yet.

    Only the dispatcher's thread uses this object, except that any thread may call `has_begun`,
    `stop`, `progress` and `show_stack`, and the leases' thread calls `prolong`.

    Attributes:
        held: the unanswered requests, in order. None stands for a request that was taken back.
        load: the number of requests held, without those taken back.
        ready: whether the child has imported the tasks.
        end_reason: why the child is about to end, or None.
        start_error: why the child could not import the tasks or start, or None.
        pipe_closed_at: when the child closed the pipe of outcomes or died; None before that.
        num_blocked: 1 if the child has been running one request for a long time, else 0.
        take_back_at: when to call `finish_take_back`; None while none has been started.
        is_watched_for_writing: whether the selector waits until the pipe of requests has room.
        output: the thread that logs what the child logs and prints. It ends after the child.
    """

    def __init__(self, slot: int, set_up: dict[str, Any], limits: Limits = NO_LIMITS) -> None:
        self.slot = slot
        self.num_left = limits.tasks
        self._max_memory = limits.memory
        self.held: deque[Lease | None] = deque()
        self.load = 0
        self.ready = False
        self.end_reason: str | None = None
        self.num_blocked = 0
        self.start_error: str | None = None
        self.pipe_closed_at: float | None = None
        self.take_back_at: float | None = None
        self.is_watched_for_writing = False
        self._given = 0
        self._answered = 0
        self._incoming = bytearray()
        self._piped: deque[wire.Answer] = deque()
        self._buffered: deque[wire.Answer] = deque()
        self._outgoing = bytearray()
        self._memory = SharedMemory()
        self._kill_pipe = KillPipe()
        requests, self._requests = os.pipe()
        self._outcomes, outcomes = os.pipe()
        self._output, output_fd = os.pipe()
        child_ends = (requests, outcomes, self._memory.fd, output_fd)
        inherited = (*child_ends, self._kill_pipe.fd)
        try:
            # The child has its own process group. So Ctrl-C in a terminal reaches only the worker.
            # Killing the group also ends the processes that a task has started.
            self._process = subprocess.Popen(
                [*PROGRAM, *map(str, inherited)],
                stdin=subprocess.DEVNULL,
                pass_fds=inherited,
                process_group=0,
            )
        except OSError:
            os.close(self._requests)
            os.close(self._outcomes)
            os.close(self._output)
            self._kill_pipe.cut()
            raise
        finally:
            for fd in child_ends:
                os.close(fd)
        self.pid = self._process.pid
        self._kill_pipe.guard(self.pid)
        self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        os.set_blocking(self._requests, False)
        os.set_blocking(self._outcomes, False)
        self.output = threading.Thread(
            target=output.relay, args=(self._output,), name="rowlease-output", daemon=True
        )
        self.output.start()
        message = json.dumps({**set_up, "levels": output.levels()})
        self._outgoing += wire.frame(message.encode())
        self.write()

    # -- giving and taking back ------------------------------------------------------------------

    def give(self, leases: Sequence[Lease]) -> None:
        """Send requests, which run in this order."""
        for number, lease in enumerate(leases, self._given + 1):
            lease.runner, lease.number = self, number
        self._given += len(leases)
        self.num_left -= len(leases)
        for each in wire.request_frames(leases):
            self._outgoing += each
        self.held.extend(leases)
        self.load += len(leases)
        self.write()

    def write(self) -> None:
        """Write as many bytes as the pipe has room for."""
        try:
            while self._outgoing:
                del self._outgoing[: os.write(self._requests, self._outgoing)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._outgoing.clear()  # the child has died, or is about to

    @property
    def num_slots(self) -> int:
        """1 if the child can run requests, else 0."""
        return int(self.ready and self.end_reason is None)

    @property
    def num_busy(self) -> int:
        return int(self.load > 0)

    @property
    def num_idle(self) -> int:
        return int(self.load == 0 and self.num_slots and self.num_left > 0)

    @property
    def has_unsent(self) -> bool:
        return bool(self._outgoing)

    @property
    def requests_fd(self) -> int:
        return self._requests

    @property
    def outcomes_fd(self) -> int:
        return self._outcomes

    def has_begun(self, number: int) -> bool:
        """Whether the child has begun its n-th request. Safe from any thread."""
        return self._begun() >= number

    def stop(self, number: int) -> None:
        """Ask the n-th request to stop, if it is running. Safe from any thread."""
        self._memory.stop(number)

    def prolong(self, number: int, ends: float) -> None:
        """Set the new end of the n-th request's lease. Only the leases' thread may call this."""
        self._memory.prolong(number, ends)

    def progress(self, number: int) -> tuple[float, str] | None:
        """The last progress of the n-th request, if it is running. Safe from any thread."""
        return self._memory.progress(number)

    def running(self) -> list[tuple[Lease, float]]:
        """The request that is running, if there is one."""
        place = self._begun() - self._answered - 1
        if not 0 <= place < len(self.held) or (lease := self.held[place]) is None:
            return []
        return [(lease, self._memory.started)]

    def next_up(self) -> list[Lease]:
        """The request that runs, or that runs next."""
        return [self.held[0]] if self.held and self.held[0] else []

    def start_take_back(self, at: float) -> None:
        """Have the child skip the requests that have not begun; `finish_take_back` returns them."""
        self._memory.take_back(self._begun() + 1, self._given)
        self.take_back_at = at + TAKE_BACK_SECONDS

    def finish_take_back(self) -> list[Lease]:
        """Return the requests that the child will not run, in order. Call this at `take_back_at`.

        No request is both returned here and run. The child marks a request as begun before it
        checks whether to skip the request. If the check ran too early to see that the request was
        taken back, the mark is visible here by now, and the request is not returned. If the child
        marks a request and then skips it, its answer is NOT_RUN.
        """
        self.take_back_at = None
        first = max(0, self._begun() - self._answered)
        last = self._memory.taken_to - self._answered
        back = []
        for place in range(first, min(last, len(self.held))):
            if lease := self.held[place]:
                back.append(lease)
                lease.runner = None
                self.held[place] = None
        self.load -= len(back)
        return back

    # -- answers ---------------------------------------------------------------------------------

    def begin_wait(self) -> None:
        """Before the worker waits for answers: have the child wake it."""
        self._memory.begin_wait()

    @property
    def has_answers(self) -> bool:
        """Whether answers have arrived that need no pipe."""
        return self._memory.has_answers

    def end_wait(self) -> None:
        """After the worker has waited for answers."""
        self._memory.end_wait()

    def read_pipe(self) -> None:
        """Read what the child has written to the pipe of outcomes."""
        with suppress(BlockingIOError):
            while data := os.read(self._outcomes, OUTCOME_READ_BYTES):
                self._incoming += data
            self.pipe_closed_at = now()
        try:
            for each in wire.frames(self._incoming):
                number, code, _, body = found = wire.answer_of(each)
                if code == wire.READY:
                    self.ready = True
                elif code == wire.BROKEN:
                    self.end_reason = self.start_error = body.decode(errors="replace")
                elif number:
                    self._piped.append(found)
        except ValueError:
            self._incoming.clear()
            self._end("was killed because a task had written into the pipe to its worker")

    def answers(self) -> list[Ended[Ending]]:
        """The answers that have arrived, in order, without those of requests taken back."""
        try:
            self._buffered += wire.answers_of(*self._memory.take_answers())
        except ValueError:
            self._end("was killed because a task had written into its shared memory")
        answers: list[Ended[Ending]] = []
        for _, code, seconds, body in self._in_order():
            if self.held and (lease := self.held.popleft()):
                self.load -= 1
                lease.runner = None
                answers.append(Ended(lease, wire.unpacked(code, body), seconds))
        if answers and self._max_memory < math.inf and self._memory_mib() > self._max_memory:
            self.num_left = 0
        return answers

    def _memory_mib(self) -> float:
        """Its memory in RAM. The peak of getrusage is no measure: it may be that of the worker."""
        try:
            with open(f"/proc/{self.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB
        except OSError:
            return 0  # it has ended

    def _in_order(self) -> Iterator[wire.Answer]:
        """Remove and yield the next answers. Each came through the buffer or through the pipe."""
        goes_on = True
        while goes_on:
            goes_on = False
            for source in (self._buffered, self._piped):
                while source and source[0][0] == self._answered + 1:
                    self._answered += 1
                    goes_on = True
                    yield source.popleft()
                if source and source[0][0] <= self._answered:
                    source.clear()
                    self._end("was killed because a task had answered for another")

    # -- its end ---------------------------------------------------------------------------------

    def take_unfinished(self) -> tuple[tuple[Lease, float] | None, list[Lease]]:
        """Give up all requests. Return the running one with its run time, and the rest."""
        ran = next(iter(self.running()), None)
        others = [one for one in self.held if one and not (ran and one is ran[0])]
        self.held.clear()
        self.load = 0
        for lease in others:
            lease.runner = None
        return ran and (ran[0], now() - ran[1]), others

    def cancels(self, lease: Lease) -> bool:
        return False

    def end(self, lease: Lease, why: str) -> None:
        """Kill the child, unless it is about to end already."""
        if self.end_reason is None:
            self.end_reason = why
            self.kill()

    def give_up(self) -> tuple[list[Lease], list[Lease]]:
        """Kill the child, and give up all requests. Return the running one, and the others."""
        self.kill()
        ran, others = self.take_unfinished()
        return ([ran[0]] if ran else []), others

    def close_requests(self) -> None:
        """Close the pipe of requests. The child answers the requests that it has, then ends."""
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def show_stack(self, lease: Lease | None = None) -> None:
        """Have the child, which must be ready, write its stack to stderr. Safe from any thread."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGQUIT)

    @property
    def has_closed_pipe(self) -> bool:
        """Whether no more answers can arrive, because the child has died or closed the pipe."""
        return self.pipe_closed_at is not None

    def kill_if_pipe_closed(self, at: float) -> None:
        """Kill a child that closed its pipe but did not end: its further outcomes would be lost."""
        since = self.pipe_closed_at
        if self.end_reason is None and since and at >= since + CLOSED_PIPE_TIMEOUT:
            self._end("was killed because it had closed the pipe to its worker and did not end")

    def _end(self, reason: str) -> None:
        self.end_reason = self.end_reason or reason
        self.kill()

    def kill(self) -> None:
        """Kill the child and the processes that its tasks have started."""
        if self._process.returncode is None:  # not reaped, so its process id has not been reused
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self, timeout: float = 0.0) -> str:
        """Release all resources, and return a phrase that describes how the child ended.

        Args:
            timeout: the seconds that the child has to end before it is killed. When the worker
                stops, the pool passes what is left of `timings.SLOTS_SHUTDOWN`.
        """
        if timeout > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()
        code = self._process.wait()
        # Processes that the child's tasks started may still run, even if the child was not killed.
        self._kill_pipe.cut()
        self.close_requests()
        os.close(self._outcomes)
        if self.pidfd is not None:
            os.close(self.pidfd)
        if self.end_reason or code >= 0:
            return self.end_reason or f"exited with code {code}"
        with suppress(ValueError):
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
        return f"was killed by signal {-code}"

    def _begun(self) -> int:
        return min(self._memory.begun, self._given)
