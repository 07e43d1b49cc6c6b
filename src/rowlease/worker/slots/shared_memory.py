"""The memory that a child process shares with its worker: its layout, and a view for each side."""

from __future__ import annotations

import mmap
import os
import platform

from rowlease.context import SharedByTasks

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
# The child writes answers into a circular buffer, and then PUT: how many it has ever written, times
# 2^32, plus their bytes modulo 2^32. The worker writes TAKEN, the PUT that it has read; and WAITS,
# which it raises by 1 before and after it waits for answers: it is odd while the worker waits.
PUT, TAKEN, WAITS = range(11, 14)
COUNT = 1 << 32
#: The offset of the note, in bytes.
NOTE_AT = 112
#: The maximum length of the note, in bytes.
MAX_NOTE = 400
#: The offset and the size of the buffer, in bytes.
BUFFER_AT = NOTE_AT + MAX_NOTE
BUFFER_BYTES = 1 << 16
#: Whether other processors see the writes of one in their order, as on x86. On others, the worker
#: could see PUT before it sees the outcome.
HAS_BUFFER = platform.machine() in ("x86_64", "AMD64")
MEMORY_BYTES = BUFFER_AT + BUFFER_BYTES


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

    @property
    def has_answers(self) -> bool:
        """Whether there are answers in the buffer."""
        return self._marks[PUT] != self._marks[TAKEN]

    def begin_wait(self) -> None:
        """Have the child send a wake-up from now on."""
        self._marks[WAITS] += 1

    def end_wait(self) -> None:
        """Have the child send no wake-up from now on."""
        self._marks[WAITS] += 1

    def take_answers(self) -> tuple[bytes, int]:
        """Remove all answers from the buffer. Return their bytes and their number."""
        put, taken = self._marks[PUT], self._marks[TAKEN]
        if put == taken:
            return b"", 0
        size = (put - taken) % COUNT
        first = BUFFER_AT + taken % BUFFER_BYTES
        data = self._memory[first : min(first + size, MEMORY_BYTES)]
        data += self._memory[BUFFER_AT : BUFFER_AT + size - len(data)]
        self._marks[TAKEN] = put
        return data, put // COUNT - taken // COUNT

    def _note(self) -> str:
        size = min(self._marks[NOTE_BYTES], MAX_NOTE)
        note = self._memory[NOTE_AT : NOTE_AT + size]
        return note.decode(errors="ignore")  # MAX_NOTE may have cut a character in two


class SharedMemoryView:
    """The child's side of the shared memory, for the context of a running task."""

    def __init__(
        self,
        memory: memoryview,
        marks: memoryview[int],
        times: memoryview[float],
        shared: SharedByTasks,
    ) -> None:
        self.shared = shared
        self._memory = memory
        self._marks = marks
        self._times = times
        self._woken = 0

    def put(self, answer: bytes) -> bool:
        """Write an answer into the buffer. Return False if it has no room."""
        put, size = self._marks[PUT], len(answer)
        if size > BUFFER_BYTES - (put - self._marks[TAKEN]) % COUNT or not HAS_BUFFER:
            return False
        first = BUFFER_AT + put % BUFFER_BYTES
        if (left := MEMORY_BYTES - first) >= size:
            self._memory[first : first + size] = answer
        else:
            self._memory[first:] = answer[:left]
            self._memory[BUFFER_AT : BUFFER_AT + size - left] = answer[left:]
        # The bytes must be carried over, but not into the count.
        self._marks[PUT] = (put // COUNT + 1) * COUNT + (put + size) % COUNT
        return True

    def must_wake(self) -> bool:
        """Whether the worker waits for answers and this has not returned True in this wait."""
        waits = self._marks[WAITS]
        if waits % 2 == 0 or waits == self._woken:
            return False
        self._woken = waits
        return True

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
