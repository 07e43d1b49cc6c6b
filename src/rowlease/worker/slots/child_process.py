"""One child process: the worker's end of its pipes.

Nothing in it blocks: a child that is stopped, stuck or dead never holds up the worker.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

from rowlease.clock import now
from rowlease.model import MAX_PAYLOAD_BYTES
from rowlease.worker.claims.leases import Lease
from rowlease.worker.slots import child_main, wire
from rowlease.worker.slots.kill_pipe import KillPipe
from rowlease.worker.slots.shared_memory import SharedMemory
from rowlease.worker.slots.slot import Answer

#: -P: the child's folder is no place to import from; -u: what a task prints appears at once.
PROGRAM = (sys.executable, "-P", "-u", "-X", "faulthandler", child_main.__file__)
READ_BYTES = 1 << 18
#: Seconds after which a child must have seen that a request was taken back: it looks between two
#: requests, and a store in shared memory is seen within microseconds.
TAKE_BACK_SECONDS = 0.01
#: Seconds in which a child must have ended after it has closed its pipe.
EXIT_TIMEOUT = 1.0


class ChildProcess:
    """One slot: a child process, and the requests given to it that it has not answered.

    Used by one thread; `has_begun`, `stop`, `prolong` and `progress` are for others, too.

    Attributes:
        held: given and unanswered, in order; None stands for what was taken back.
        load: how many are held, without what was taken back.
        ready: it has imported the tasks.
        end_reason: why it is about to end, if that is known.
        import_error: why it could not import the tasks, if it could not.
        pipe_closed_at: when it closed the pipe, which its death does, too.
        is_blocked: it has been busy with one request for long.
        take_back_at: when `finish_take_back` may be asked, after `start_take_back`.
        is_watched_for_writing: the selector knows that `wants_to_write`.
    """

    def __init__(self, slot: int, set_up: bytes) -> None:
        self.slot = slot
        self.held: deque[Lease | None] = deque()
        self.load = 0
        self.ready = False
        self.end_reason: str | None = None
        self.import_error: str | None = None
        self.pipe_closed_at: float | None = None
        self.is_blocked = False
        self.take_back_at: float | None = None
        self.is_watched_for_writing = False
        self._given = 0
        self._answered = 0
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._memory = SharedMemory()
        self._kill_pipe = KillPipe()
        requests, self._requests = os.pipe()
        self._outcomes, outcomes = os.pipe()
        child_ends = (requests, outcomes, self._memory.fd)
        inherited = (*child_ends, self._kill_pipe.fd)
        try:
            # In a process group of its own: Ctrl-C is for the worker, and a kill takes along
            # what the task has started.
            self._process = subprocess.Popen(
                [*PROGRAM, *map(str, inherited)],
                stdin=subprocess.DEVNULL,
                pass_fds=inherited,
                process_group=0,
            )
        except OSError:
            os.close(self._requests)
            os.close(self._outcomes)
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
        self._outgoing += wire.SET_UP.pack(len(set_up)) + set_up
        self.write()

    # -- giving and taking back ------------------------------------------------------------------

    def give(self, leases: Sequence[Lease]) -> None:
        """Send requests; they run in this order."""
        pack = wire.REQUEST.pack
        for lease in leases:
            request = lease.request
            # What is no text fails in the child, which reads it.
            payload = request.payload.encode(errors="surrogatepass")
            self._given += 1
            lease.slot, lease.number = self, self._given
            attempt = (request.lock_token, request.num_attempts, request.max_attempts)
            about = (len(payload), lease.task_number, lease.ends, request.request_id, *attempt)
            self._outgoing += pack(*about) + payload
        self.held.extend(leases)
        self.load += len(leases)
        self.write()

    def write(self) -> None:
        """Send what the pipe takes."""
        try:
            while self._outgoing:
                del self._outgoing[: os.write(self._requests, self._outgoing)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._outgoing.clear()  # it has died, or is about to

    @property
    def is_open(self) -> bool:
        """May it be given more?"""
        blocked = self.is_blocked and self.load > 0
        return self.ready and not blocked and self.end_reason is None and self.take_back_at is None

    @property
    def wants_to_write(self) -> bool:
        return bool(self._outgoing)

    @property
    def requests_fd(self) -> int:
        return self._requests

    @property
    def outcomes_fd(self) -> int:
        return self._outcomes

    def has_begun(self, number: int) -> bool:
        """Has it taken up its n-th request? Safe to ask from any thread."""
        return self._begun() >= number

    def stop(self, number: int) -> None:
        """Ask its n-th request to stop, if that runs. Safe in any thread."""
        self._memory.stop(number)

    def prolong(self, number: int, ends: float) -> None:
        """Tell its n-th request until when its lease is good. For the thread that renews."""
        self._memory.prolong(number, ends)

    def progress(self, number: int) -> tuple[float, str] | None:
        """The last progress of its n-th request, if that runs. Safe in any thread."""
        return self._memory.progress(number)

    def running(self) -> tuple[Lease, float] | None:
        """The request it runs now, and since when."""
        place = self._begun() - self._answered - 1
        if not 0 <= place < len(self.held) or (lease := self.held[place]) is None:
            return None
        return lease, self._memory.started

    def start_take_back(self, at: float) -> None:
        """Stop it from starting what it has not begun; `finish_take_back` has the requests soon."""
        self._memory.take_back(self._begun() + 1, self._given)
        self.take_back_at = at + TAKE_BACK_SECONDS

    def finish_take_back(self) -> list[Lease]:
        """What it has not begun and now never will, in order.

        Call it at `take_back_at`. The child marks a request as begun, then looks whether it was
        taken back: whoever did not see the mark of `start_take_back` has been seen by now. What it did
        begin but then left alone comes as an outcome, NOT_RUN.
        """
        self.take_back_at = None
        first = max(0, self._begun() - self._answered)
        last = self._memory.taken_to - self._answered
        back = []
        for place in range(first, min(last, len(self.held))):
            if lease := self.held[place]:
                back.append(lease)
                lease.slot = None
                self.held[place] = None
        self.load -= len(back)
        return back

    # -- answers ---------------------------------------------------------------------------------

    def read(self) -> list[Answer]:
        """The outcomes that have come, in order; of requests taken back, none."""
        with suppress(BlockingIOError):
            while data := os.read(self._outcomes, READ_BYTES):
                self._incoming += data
            self.pipe_closed_at = now()
        return list(self._parse())

    def _parse(self) -> Iterator[Answer]:
        data, place, header = self._incoming, 0, wire.OUTCOME.size
        while len(data) - place >= header:
            size, code, seconds = wire.OUTCOME.unpack_from(data, place)
            if not (size <= MAX_PAYLOAD_BYTES and code <= wire.NOT_RUN and 0 <= seconds < math.inf):
                self._give_up("was killed because a task had written into the pipe to its worker")
                place = len(data)
                break
            end = place + header + size
            if end > len(data):
                break
            body = bytes(data[place + header : end])
            place = end
            if code == wire.READY:
                self.ready = True
            elif code == wire.BROKEN:
                self.import_error = body.decode(errors="replace")
                self.end_reason = f"could not import the tasks: {self.import_error}"
            elif self.held:
                self._answered += 1
                if lease := self.held.popleft():
                    self.load -= 1
                    lease.slot = None
                    yield Answer(self, lease, wire.unpacked(code, body), seconds)
        del data[:place]

    # -- its end ---------------------------------------------------------------------------------

    def take_unfinished(self) -> tuple[tuple[Lease, float] | None, list[Lease]]:
        """Once it is dead: what it was running and for how long, and what it never began."""
        running = self.running()
        others = [one for one in self.held if one and not (running and one is running[0])]
        self.held.clear()
        self.load = 0
        for lease in others:
            lease.slot = None
        return running and (running[0], now() - running[1]), others

    def close_requests(self) -> None:
        """Let it end by itself: nothing more is to come."""
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def show_stack(self) -> None:
        """Have it write to stderr where its threads stand. It must be ready. Safe in any thread."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGQUIT)

    @property
    def has_closed_pipe(self) -> bool:
        """It will answer no more: it has died, or closed the pipe."""
        return self.pipe_closed_at is not None

    def kill_if_pipe_closed(self, at: float) -> None:
        """Kill it if it has closed its pipe and goes on: nobody would hear of what it does."""
        if (
            self.end_reason is None
            and self.pipe_closed_at
            and at >= self.pipe_closed_at + EXIT_TIMEOUT
        ):
            self._give_up("was killed because it had closed the pipe to its worker and did not end")

    def _give_up(self, end_reason: str) -> None:
        self.end_reason = self.end_reason or end_reason
        self.kill()

    def kill(self) -> None:
        """End it, and what its task has started, at once."""
        if self._process.returncode is None:  # not waited for, so the number is still its own
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self, patience: float = 0.0) -> str:
        """Release all that it used; how it ended, as text.

        Args:
            patience: seconds it has to end by itself before it is killed.
        """
        if patience > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        self.kill()
        code = self._process.wait()
        self._kill_pipe.cut()  # also for a child that ended by itself: its tasks' processes remain
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
