"""One child process: the worker's end of the pipe that `rowlease.worker.child` serves.

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
from datetime import timedelta

from rowlease.model import Failure
from rowlease.worker import child
from rowlease.worker.leases import Lease
from rowlease.worker.memory import SharedMemory
from rowlease.worker.slot import Answer

#: -P: the child's folder is no place to import from; -u: what a task prints appears at once.
PROGRAM = (sys.executable, "-P", "-u", "-X", "faulthandler", child.__file__)
READ_BYTES = 1 << 18
#: Seconds; the database's calendar has an end.
LONGEST_RETRY = 10 * 365 * 86_400.0
#: Seconds after which a child must have seen that a request was taken back: it looks between two
#: requests, and a store in shared memory is seen within microseconds.
TAKE_BACK_SECONDS = 0.01


class ChildProcess:
    """One slot: a child process, and the requests given to it that it has not answered.

    Used by one thread; `has_begun`, `stop`, `prolong` and `progress` are for others, too.

    Attributes:
        held: given and unanswered, in order; None stands for what was taken back.
        load: how many are held, without what was taken back.
        ready: it has imported the tasks.
        doom: why it is about to end, if that is known.
        is_silent: it will say no more: it has died, or closed the pipe.
        is_blocked: it has been busy with one request for long.
        take_back_at: when `taken_back` may be asked, after `ask_back`.
        is_watched_for_writing: the selector knows that `wants_to_write`.
    """

    def __init__(self, slot: int, set_up: bytes) -> None:
        self.slot = slot
        self.held: deque[Lease | None] = deque()
        self.load = 0
        self.ready = False
        self.doom: str | None = None
        self.is_silent = False
        self.is_blocked = False
        self.take_back_at: float | None = None
        self.is_watched_for_writing = False
        self._given = 0
        self._answered = 0
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._memory = SharedMemory()
        requests, self._requests = os.pipe()
        self._outcomes, outcomes = os.pipe()
        theirs = (requests, outcomes, self._memory.fd)
        try:
            # In a process group of its own: Ctrl-C is for the worker, and a kill takes along
            # what the task has started.
            self._process = subprocess.Popen(
                [*PROGRAM, *map(str, theirs), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=theirs,
                process_group=0,
            )
        except OSError:
            os.close(self._requests)
            os.close(self._outcomes)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        os.set_blocking(self._requests, False)
        os.set_blocking(self._outcomes, False)
        self._outgoing += child.REQUEST.pack(len(set_up), 0, 0.0, 0, 0, 0) + set_up
        self.write()

    # -- giving and taking back ------------------------------------------------------------------

    def give(self, leases: Sequence[Lease]) -> None:
        """Send requests; they run in this order."""
        pack = child.REQUEST.pack
        for lease in leases:
            request = lease.request
            payload = request.payload.encode()
            self._given += 1
            lease.slot, lease.number = self, self._given
            attempt = (request.request_id, request.num_attempts, request.max_attempts)
            self._outgoing += pack(len(payload), lease.task_number, lease.ends, *attempt)
            self._outgoing += payload
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
        return self.ready and not blocked and self.doom is None and self.take_back_at is None

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
        """What its n-th request last said of itself, if that runs. Safe in any thread."""
        return self._memory.progress(number)

    def running(self) -> tuple[Lease, float] | None:
        """The request it runs now, and since when."""
        place = self._begun() - self._answered - 1
        if not 0 <= place < len(self.held) or (lease := self.held[place]) is None:
            return None
        return lease, self._memory.started

    def ask_back(self, now: float) -> None:
        """Stop it from starting what it has not begun; `taken_back` has the requests soon."""
        self._memory.take_back(self._begun() + 1, self._given)
        self.take_back_at = now + TAKE_BACK_SECONDS

    def taken_back(self) -> list[Lease]:
        """What it has not begun and now never will, in order.

        Call it at `take_back_at`. The child marks a request as begun, then looks whether it was
        taken back: whoever did not see the mark of `ask_back` has been seen by now. What it did
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
            self.is_silent = True
        return list(self._parse())

    def _parse(self) -> Iterator[Answer]:
        data, place, header = self._incoming, 0, child.OUTCOME.size
        while len(data) - place >= header:
            size, code, seconds = child.OUTCOME.unpack_from(data, place)
            end = place + header + size
            if end > len(data):
                break
            body = bytes(data[place + header : end])
            place = end
            if code == child.READY:
                self.ready = True
            elif code == child.BROKEN:
                self.doom = f"could not import the tasks: {body.decode(errors='replace')}"
            elif self.held:
                self._answered += 1
                if lease := self.held.popleft():
                    self.load -= 1
                    lease.slot = None
                    yield Answer(self, lease, code, seconds, body)
        del data[:place]

    # -- its end ---------------------------------------------------------------------------------

    def left_behind(self) -> tuple[tuple[Lease, float] | None, list[Lease]]:
        """Once it is dead: what it was running and for how long, and what it never began."""
        running = self.running()
        others = [one for one in self.held if one and not (running and one is running[0])]
        self.held.clear()
        self.load = 0
        for lease in others:
            lease.slot = None
        return running and (running[0], child.now() - running[1]), others

    def dismiss(self) -> None:
        """Let it end by itself: nothing more is to come."""
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def show_stack(self) -> None:
        """Have it write to stderr where its threads stand. It must be ready. Safe in any thread."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGQUIT)

    def kill(self) -> None:
        """End it, and what its task has started, at once."""
        if self._process.returncode is None:  # not waited for, so the number is still its own
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self, patience: float = 0.0) -> str:
        """Release all that it used, and say in words how it ended.

        Args:
            patience: seconds it has to end by itself before it is killed.
        """
        if patience > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        self.kill()
        code = self._process.wait()
        self.dismiss()
        os.close(self._outcomes)
        if self.pidfd is not None:
            os.close(self.pidfd)
        if self.doom or code >= 0:
            return self.doom or f"exited with code {code}"
        with suppress(ValueError):
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
        return f"was killed by signal {-code}"

    def _begun(self) -> int:
        return min(self._memory.begun, self._given)


def failure(code: int, body: bytes) -> Failure:
    """What a child's answer says about a failed attempt."""
    after = None
    if code == child.RETRY:
        (seconds,) = child.SECONDS.unpack_from(body)
        body = body[child.SECONDS.size :]
        if not math.isnan(seconds):
            after = timedelta(seconds=min(max(0.0, seconds), LONGEST_RETRY))
    return Failure(body.decode(errors="replace"), after, dead=code == child.DEAD)
