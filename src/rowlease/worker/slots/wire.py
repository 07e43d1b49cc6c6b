"""The format of the pipes between a worker and a child process: frames with a header and a body.

The child reads as many requests at once as the pipe holds. It writes each outcome at once, so that
no outcome is lost if the child dies; the worker reads many in one call.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

from rowlease.model import Failure
from rowlease.worker.attempt import Ending, NotRun, Returned, retry_after

#: The header of a request: bytes of payload, index of the task, end of the lease (by `clock.now`);
#: and for the context: the request's id, its lock token, its attempt and its most attempts.
REQUEST = struct.Struct("=IHdqqII")
#: The header of an outcome: bytes of body, code (below), run time in seconds.
OUTCOME = struct.Struct("=IBd")
#: The body of DONE is the result, if any. That of FAILED, RETRY and DEAD is the error; in RETRY
#: SECONDS precede it (NaN: the queue's back-off). NOT_RUN means that the request was taken back or
#: its lease was over. READY and BROKEN answer the set-up.
READY, BROKEN, DONE, FAILED, RETRY, DEAD, NOT_RUN = range(7)
SECONDS = struct.Struct("=d")
#: The header of the set-up, the first message: bytes of JSON. `child_program` has a copy, because
#: it reads the set-up before it can import this module.
SET_UP = struct.Struct("=I")
READ_BYTES = 1 << 16


def packed(ending: Ending) -> tuple[int, bytes]:
    """Encode how an attempt ended, as a code and a body."""
    if isinstance(ending, Returned):
        return DONE, b"" if ending.result is None else ending.result.encode()
    if isinstance(ending, NotRun):
        return NOT_RUN, b""
    text = ending.error.encode()
    if ending.after is not None:
        return RETRY, SECONDS.pack(ending.after.total_seconds()) + text
    return (DEAD if ending.dead else FAILED), text


def unpacked(code: int, body: bytes) -> Ending:
    """Decode a code and a body. They may be invalid: a task can write to the pipe as well."""
    if code == NOT_RUN:
        return NotRun()
    if code == DONE:
        try:
            return Returned(body.decode() if body else None)
        except UnicodeDecodeError:
            return Failure("the task wrote into the pipe to its worker: its result is not text")
    after = None
    if code == RETRY and len(body) >= SECONDS.size:
        (seconds,) = SECONDS.unpack_from(body)
        after, body = retry_after(seconds), body[SECONDS.size :]
    return Failure(body.decode(errors="replace"), after, dead=code == DEAD)


def write(fd: int, code: int, seconds: float, body: bytes) -> None:
    """Write one outcome."""
    data = memoryview(OUTCOME.pack(len(body), code, seconds) + body)
    while data:
        data = data[os.write(fd, data) :]


def read_frames(fd: int) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Read requests until the pipe ends: for each the fields of `REQUEST`, and the payload."""
    buffer = bytearray()
    while data := os.read(fd, READ_BYTES):
        buffer += data
        place = 0
        while len(buffer) - place >= REQUEST.size:
            about = REQUEST.unpack_from(buffer, place)
            end = place + REQUEST.size + about[0]
            if end > len(buffer):
                break
            yield about, bytes(buffer[place + REQUEST.size : end])
            place = end
        del buffer[:place]
