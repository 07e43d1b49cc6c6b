"""What passes between a worker and a child process: requests one way, answers the other.

Requests pass through a pipe, many in one frame. The child writes each answer at once into a
circular buffer in shared memory, which outlives it, so that no outcome is lost if the child dies.
Only if the worker waits does the child write to the pipe of outcomes, too. An answer for which the
buffer has no room passes through that pipe.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Meta

from rowlease.model import Failure
from rowlease.worker.attempt import (
    NOTHING,
    Ending,
    NotRun,
    Returned,
    SnoozeAsked,
    retry_after,
    snooze_for,
)

if TYPE_CHECKING:  # a child starts without the modules of the worker
    from rowlease.worker.claims.leases import Lease


class GivenRequest(msgspec.Struct, array_like=True, gc=False):
    """A request as a child process gets it; see `LeasedRequest`.

    Attributes:
        task_number: the index of its task.
        lease_ends: when its lease ends, by `clock.now`.
        payload: UTF-8; invalid if the request has lone surrogates.
    """

    task_number: int
    lease_ends: float
    request_id: int
    queue_name: str
    lock_token: int
    num_attempts: int
    max_attempts: int
    load_id: str | None
    headers: str | None
    payload: bytes

    #: The kinds of the tasks, by their numbers.
    kinds: ClassVar[list[str]] = []

    @property
    def kind(self) -> str:
        return self.kinds[self.task_number]


#: The number of the request, a code, the run time in seconds, and a body. Requests are numbered in
#: the order in which the worker gave them to the child.
Answer = tuple[int, Annotated[int, Meta(ge=0, le=8)], Annotated[float, Meta(ge=0, lt=1e12)], bytes]
#: The codes of outcomes. READY and BROKEN are the answers to the set-up. The body of DONE is the
#: result, if there is one. The body of FAILED and DEAD is the error, its type and its traceback,
#: separated by NUL. The body of RETRY is SECONDS, then the same three strings; the body of SNOOZED
#: is SECONDS, then the reason. NOT_RUN means that the request was taken back, or that its lease had
#: ended. WAKE is no outcome: it ends the wait of the worker, which then looks into the buffer.
READY, BROKEN, DONE, FAILED, RETRY, DEAD, NOT_RUN, SNOOZED, WAKE = range(9)
#: The pause before a retry, or of a snooze, in seconds.
SECONDS = struct.Struct("=d")
#: The header of a frame in a pipe: the size of the rest in bytes. `child_program` has a copy,
#: because it reads the first frame, the set-up, before it can import this module.
FRAME_SIZE = struct.Struct("=I")
#: The size of the payloads in a frame with several requests, in bytes. The child begins with the
#: first request when it has the whole frame.
FRAME_BYTES = 1 << 15
#: The largest frame in bytes: a task may write into the pipe, too.
MAX_FRAME_BYTES = 1 << 24
READ_BYTES = 1 << 16
#: The beginning of an array in MessagePack; its length follows in four bytes. The buffer has the
#: elements alone, because the child does not know how many the worker will read at once.
ARRAY = b"\xdd"
#: The replacement for NUL in a string, because no database can store NUL.
NUL = "\N{REPLACEMENT CHARACTER}"

_encode = msgspec.msgpack.Encoder().encode
_requests = msgspec.msgpack.Decoder(list[GivenRequest]).decode
_answer = msgspec.msgpack.Decoder(Answer).decode
_answers = msgspec.msgpack.Decoder(list[Answer]).decode


def frame(data: bytes) -> bytes:
    """The frame of a pipe."""
    return FRAME_SIZE.pack(len(data)) + data


def frames(buffer: bytearray) -> Iterator[bytes]:
    """Remove and yield the content of the whole frames at the beginning of the buffer.

    Raises:
        ValueError: this is no frame.
    """
    place = 0
    try:
        while len(buffer) - place >= FRAME_SIZE.size:
            start = place + FRAME_SIZE.size
            (size,) = FRAME_SIZE.unpack_from(buffer, place)
            if size > MAX_FRAME_BYTES:
                raise ValueError(size)
            if start + size > len(buffer):
                break
            place = start + size
            yield bytes(buffer[start:place])
    finally:
        del buffer[:place]


# -- requests ------------------------------------------------------------------------------------


def request_frames(leases: Sequence[Lease]) -> Iterator[bytes]:
    """The frames of these requests."""
    given: list[tuple[object, ...]] = []
    size = 0
    for lease in leases:
        request = lease.request
        # The child cannot decode a payload with lone surrogates, so such a request fails there.
        payload = request.payload.encode(errors="surrogatepass")
        if given and size + len(payload) > FRAME_BYTES:
            yield frame(_encode(given))
            given, size = [], 0
        headers = request.headers and request.headers.encode(errors="replace").decode()
        given.append(
            (
                lease.task_number,
                lease.ends,
                request.request_id,
                request.queue_name,
                request.lock_token,
                request.num_attempts,
                request.max_attempts,
                request.load_id,
                headers,
                payload,
            )
        )
        size += len(payload)
    if given:
        yield frame(_encode(given))


def read_requests(fd: int) -> Iterator[GivenRequest]:
    """Read requests until the pipe ends."""
    buffer = bytearray()
    while data := os.read(fd, READ_BYTES):
        buffer += data
        for each in frames(buffer):
            yield from _requests(each)


# -- answers -------------------------------------------------------------------------------------


def answer(number: int, code: int, seconds: float = 0.0, body: bytes = b"") -> bytes:
    """An answer in MessagePack, for `answers_of` or, in a frame, for `answer_of`."""
    return _encode((number, code, seconds, body))


def write(fd: int, data: bytes) -> None:
    """Write all bytes into a pipe."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def answer_of(data: bytes) -> Answer:
    """The answer in a frame.

    Raises:
        ValueError: this is none; a task may write into the pipe, too.
    """
    answer: Answer = _answer(data)
    return answer


def answers_of(data: bytes, count: int) -> list[Answer]:
    """The answers in a part of the buffer.

    Raises:
        ValueError: these are none.
    """
    return _answers(ARRAY + count.to_bytes(4, "big") + data) if count else []


def packed(ending: Ending) -> tuple[int, bytes]:
    """Encode how an attempt ended as a code and a body."""
    if isinstance(ending, Returned):
        return DONE, b"" if ending.result is None else ending.result.encode()
    if isinstance(ending, NotRun):
        return NOT_RUN, b""
    if isinstance(ending, SnoozeAsked):
        return SNOOZED, SECONDS.pack(ending.after.total_seconds()) + ending.reason.encode()
    parts = (ending.error, ending.error_type or "", ending.traceback or "")
    text = "\0".join(part.replace("\0", NUL) for part in parts).encode()
    if ending.after is not None:
        return RETRY, SECONDS.pack(ending.after.total_seconds()) + text
    return (DEAD if ending.dead else FAILED), text


def unpacked(code: int, body: bytes) -> Ending:
    """Decode a code and a body. Both may be invalid, because a task can also write to the pipe."""
    if code == DONE:
        try:
            return Returned(body.decode()) if body else NOTHING
        except UnicodeDecodeError:
            return Failure("the task wrote into the pipe to its worker: its result is not text")
    if code == NOT_RUN:
        return NotRun()
    if code == SNOOZED and len(body) >= SECONDS.size:
        (seconds,) = SECONDS.unpack_from(body)
        return SnoozeAsked(snooze_for(seconds), body[SECONDS.size :].decode(errors="replace"))
    after = None
    if code == RETRY and len(body) >= SECONDS.size:
        (seconds,) = SECONDS.unpack_from(body)
        after, body = retry_after(seconds), body[SECONDS.size :]
    error, kind, traceback, *_ = [*body.decode(errors="replace").split("\0"), "", ""]
    return Failure(error, after, code == DEAD, kind or None, traceback or None)
