"""The memory that a child process shares with its worker: what is where, and both ends of it."""

from __future__ import annotations

import mmap
import os

#: How many requests the child has begun; when the last one began; the range of requests that the
#: worker takes back; the one it asks to stop; and until when which one's lease was prolonged. Then
#: the child's own again: the last progress of which request, a fraction and the bytes of a note;
#: TURN is odd while they change. Each word has one writer.
BEGUN, STARTED, TAKEN_FROM, TAKEN_TO, STOP, PROLONGED, ENDS = range(7)
TURN, PROGRESS_OF, FRACTION, NOTE_BYTES = range(7, 11)
NOTE_AT, MAX_NOTE = 88, 400
MEMORY_BYTES = NOTE_AT + MAX_NOTE


class SharedMemory:
    """The worker's end: words that one side writes and the other reads, with no message between.

    Attributes:
        fd: for the child; closed by whoever made this, once the child has it.
    """

    def __init__(self) -> None:
        self.fd = _file()
        self._memory = mmap.mmap(self.fd, MEMORY_BYTES)
        self._marks = memoryview(self._memory).cast("Q")
        self._times = memoryview(self._memory).cast("d")

    @property
    def begun(self) -> int:
        """How many requests the child has begun."""
        return self._marks[BEGUN]

    @property
    def started(self) -> float:
        """When it began the last one."""
        return self._times[STARTED]

    @property
    def taken_to(self) -> int:
        """The last request that was taken back."""
        return self._marks[TAKEN_TO]

    def take_back(self, first: int, last: int) -> None:
        """Have it leave these requests alone."""
        self._marks[TAKEN_FROM] = first
        self._marks[TAKEN_TO] = last

    def stop(self, number: int) -> None:
        """Ask the n-th request to stop."""
        self._marks[STOP] = number

    def prolong(self, number: int, ends: float) -> None:
        """Say until when the lease of the n-th request is good."""
        self._marks[PROLONGED] = 0
        self._times[ENDS] = ends
        self._marks[PROLONGED] = number

    def progress(self, number: int) -> tuple[float, str] | None:
        """The last progress of the n-th request; None if there is none, or it is being written."""
        turn = self._marks[TURN]
        last = (self._marks[PROGRESS_OF], self._times[FRACTION], self._note())
        if turn % 2 or turn != self._marks[TURN] or last[0] != number:
            return None
        return last[1:]

    def _note(self) -> str:
        size = min(self._marks[NOTE_BYTES], MAX_NOTE)
        note = self._memory[NOTE_AT : NOTE_AT + size]
        return note.decode(errors="ignore")  # it may be cut inside a character


class SharedMemoryView:
    """The child's end, as the context of a running task uses it."""

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

    def report_progress(self, number: int, fraction: float, note: str) -> None:
        data = note.encode(errors="replace")[:MAX_NOTE]
        self._marks[TURN] += 1
        self._marks[PROGRESS_OF] = number
        self._times[FRACTION] = fraction
        self._marks[NOTE_BYTES] = len(data)
        self._memory[NOTE_AT : NOTE_AT + len(data)] = data
        self._marks[TURN] += 1


def _file() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rowlease")
    else:
        import tempfile  # a child, which needs none of it, starts sooner

        fd, name = tempfile.mkstemp()
        os.unlink(name)
    os.ftruncate(fd, MEMORY_BYTES)
    return fd
