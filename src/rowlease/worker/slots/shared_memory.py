"""The memory that a child process shares with its worker: its layout, and a view for each side."""

from __future__ import annotations

import mmap
import os

# The memory begins with words of eight bytes. Each word has only one writer: the child or the
# worker. Requests are numbered in the order in which the worker gave them to the child.
#
# The child writes BEGUN (how many requests it has begun) and STARTED (when the last one began).
BEGUN, STARTED = 0, 1
# The worker writes TAKEN_FROM and TAKEN_TO (the range of requests that it takes back), STOP (the
# request that it asks to stop), PROLONGED (the request whose lease was renewed) and ENDS (the new
# end of that lease).
TAKEN_FROM, TAKEN_TO, STOP, PROLONGED, ENDS = range(2, 7)
# The child writes the last progress: PROGRESS_OF (the request), FRACTION, NOTE_BYTES (the length of
# the note) and the note itself. TURN is odd while the child writes them.
TURN, PROGRESS_OF, FRACTION, NOTE_BYTES = range(7, 11)
#: The offset of the note, in bytes.
NOTE_AT = 88
#: The maximum length of the note, in bytes.
MAX_NOTE = 400
MEMORY_BYTES = NOTE_AT + MAX_NOTE


class SharedMemory:
    """The worker's side of the shared memory.

    Attributes:
        fd: the descriptor that the child inherits. The caller closes it when the child has started.
    """

    def __init__(self) -> None:
        self.fd = _file()
        self._memory = mmap.mmap(self.fd, MEMORY_BYTES)
        self._marks = memoryview(self._memory).cast("Q")
        self._times = memoryview(self._memory).cast("d")

    @property
    def begun(self) -> int:
        """The number of requests that the child has begun."""
        return self._marks[BEGUN]

    @property
    def started(self) -> float:
        """When the child began the latest request, by `clock.now`."""
        return self._times[STARTED]

    @property
    def taken_to(self) -> int:
        """The number of the last request that was taken back."""
        return self._marks[TAKEN_TO]

    def take_back(self, first: int, last: int) -> None:
        """Have the child skip the requests with the numbers from `first` to `last`."""
        self._marks[TAKEN_FROM] = first
        self._marks[TAKEN_TO] = last

    def stop(self, number: int) -> None:
        """Ask the n-th request to stop."""
        self._marks[STOP] = number

    def prolong(self, number: int, ends: float) -> None:
        """Set the new end of the lease of the n-th request."""
        self._marks[PROLONGED] = 0
        self._times[ENDS] = ends
        self._marks[PROLONGED] = number

    def progress(self, number: int) -> tuple[float, str] | None:
        """The last progress of the n-th request.

        None if the request has reported no progress, or while the child is writing it.
        """
        turn = self._marks[TURN]
        last = (self._marks[PROGRESS_OF], self._times[FRACTION], self._note())
        if turn % 2 or turn != self._marks[TURN] or last[0] != number:
            return None
        return last[1:]

    def _note(self) -> str:
        size = min(self._marks[NOTE_BYTES], MAX_NOTE)
        note = self._memory[NOTE_AT : NOTE_AT + size]
        return note.decode(errors="ignore")  # MAX_NOTE may have cut a character in two


class SharedMemoryView:
    """The child's side of the shared memory, for the context of a running task."""

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
        import tempfile  # here, because children do not need it and start sooner without it

        fd, name = tempfile.mkstemp()
        os.unlink(name)
    os.ftruncate(fd, MEMORY_BYTES)
    return fd
