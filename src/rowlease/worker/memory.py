"""The memory that a child process shares with its worker, at the worker's end.

What is where, and who writes it, `rowlease.worker.child` says.
"""

from __future__ import annotations

import mmap
import os
import tempfile

from rowlease.worker import child


class SharedMemory:
    """Words that one side writes and the other reads, with no message between them.

    Attributes:
        fd: for the child; closed by whoever made this, once the child has it.
    """

    def __init__(self) -> None:
        self.fd = _file()
        self._memory = mmap.mmap(self.fd, child.MEMORY_BYTES)
        self._marks = memoryview(self._memory).cast("Q")
        self._times = memoryview(self._memory).cast("d")

    @property
    def begun(self) -> int:
        """How many requests the child has begun."""
        return self._marks[child.BEGUN]

    @property
    def started(self) -> float:
        """When it began the last one."""
        return self._times[child.STARTED]

    @property
    def taken_to(self) -> int:
        """The last request that was taken back."""
        return self._marks[child.TAKEN_TO]

    def take_back(self, first: int, last: int) -> None:
        """Have it leave these requests alone."""
        self._marks[child.TAKEN_FROM] = first
        self._marks[child.TAKEN_TO] = last

    def stop(self, number: int) -> None:
        """Ask the n-th request to stop."""
        self._marks[child.STOP] = number

    def prolong(self, number: int, ends: float) -> None:
        """Say until when the lease of the n-th request is good."""
        self._marks[child.PROLONGED] = 0
        self._times[child.ENDS] = ends
        self._marks[child.PROLONGED] = number

    def progress(self, number: int) -> tuple[float, str] | None:
        """What the n-th request last said of itself; None if nothing, or it is saying it now."""
        turn = self._marks[child.TURN]
        said = (self._marks[child.SAID_BY], self._times[child.FRACTION], self._note())
        if turn % 2 or turn != self._marks[child.TURN] or said[0] != number:
            return None
        return said[1:]

    def _note(self) -> str:
        size = min(self._marks[child.NOTE_BYTES], child.MAX_NOTE)
        note = self._memory[child.NOTE_AT : child.NOTE_AT + size]
        return note.decode(errors="ignore")  # it may be cut inside a character


def _file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rowlease")
    else:
        fd, name = tempfile.mkstemp()
        os.unlink(name)
    os.ftruncate(fd, child.MEMORY_BYTES)
    return fd
