"""The format of the pipes between a worker and a child process: frames with a header and a body.

The child reads many requests in one call. It writes each outcome immediately, so that no outcome is
lost if the child dies. The worker reads many outcomes in one call.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

from rowlease.model import Failure
from rowlease.worker.attempt import Ending, NotRun, Returned, SnoozeAsked, retry_after, snooze_for

#: The header of a request: the size of the body in bytes, the index of the task, the end of the
#: lease (by `clock.now`), the request's id, its lock token, its attempt, its maximum number of
#: attempts, and the sizes of its queue's name and of its headers in bytes. The body is the name,
#: the headers, then the payload.
REQUEST = struct.Struct("=IHdqqIIHH")
#: The header of an outcome: the size of the body in bytes, a code, and the run time in seconds.
OUTCOME_HEADER = struct.Struct("=IBd")
#: The codes of outcomes. READY and BROKEN are the answers to the set-up. The body of DONE is the
#: result, if there is one. The body of FAILED and DEAD is the error, its type and its traceback,
#: separated by NUL. The body of RETRY is SECONDS, then the same three strings; the body of SNOOZED
#: is SECONDS, then the reason. NOT_RUN means that the request was taken back, or that its lease had
#: ended.
READY, BROKEN, DONE, FAILED, RETRY, DEAD, NOT_RUN, SNOOZED = range(8)
#: The pause before a retry, or of a snooze, in seconds.
SECONDS = struct.Struct("=d")
#: The header of the set-up, the first message: the size of the JSON in bytes. `child_program` has a
#: copy, because it reads the set-up before it can import this module.
SET_UP = struct.Struct("=I")
REQUEST_READ_BYTES = 1 << 16
#: The replacement for NUL in a string, because no database can store NUL.
NUL = "\N{REPLACEMENT CHARACTER}"


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
    if code == NOT_RUN:
        return NotRun()
    if code == DONE:
        try:
            return Returned(body.decode() if body else None)
        except UnicodeDecodeError:
            return Failure("the task wrote into the pipe to its worker: its result is not text")
    if code == SNOOZED and len(body) >= SECONDS.size:
        (seconds,) = SECONDS.unpack_from(body)
        return SnoozeAsked(snooze_for(seconds), body[SECONDS.size :].decode(errors="replace"))
    after = None
    if code == RETRY and len(body) >= SECONDS.size:
        (seconds,) = SECONDS.unpack_from(body)
        after, body = retry_after(seconds), body[SECONDS.size :]
    error, kind, traceback, *_ = [*body.decode(errors="replace").split("\0"), "", ""]
    return Failure(error, after, code == DEAD, kind or None, traceback or None)


def write(fd: int, code: int, seconds: float, body: bytes) -> None:
    """Write one outcome."""
    data = memoryview(OUTCOME_HEADER.pack(len(body), code, seconds) + body)
    while data:
        data = data[os.write(fd, data) :]


def read_frames(fd: int) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Read requests until the pipe ends. Yield the fields of `REQUEST` and the body of each."""
    rest = b""
    while data := os.read(fd, REQUEST_READ_BYTES):
        buffer = rest + data
        place = 0
        while len(buffer) - place >= REQUEST.size:
            about = REQUEST.unpack_from(buffer, place)
            end = place + REQUEST.size + about[0]
            if end > len(buffer):
                break
            yield about, buffer[place + REQUEST.size : end]
            place = end
        rest = buffer[place:]
