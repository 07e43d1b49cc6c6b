"""The pipes between a worker and a child process: frames, each a fixed header and a body.

Requests come in as many per read as the pipe holds. Each outcome is written at once: a child that
dies takes none along, and it is the worker that reads them in batches.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

from rowlease.model import Failure
from rowlease.worker.attempt import Ending, NotRun, Returned, retry_after

#: Per request: bytes of payload, number of the task, until when (by `clock.now`) the lease is good;
#: and for its context: the request's id and lock token, which attempt it is, and of how many.
REQUEST = struct.Struct("=IHdqqII")
#: Per outcome: bytes of body, what it is (below), seconds it took.
OUTCOME = struct.Struct("=IBd")
#: DONE has the result as body, if any. RETRY has seconds to wait (NaN: the queue's back-off) before
#: its text. NOT_RUN was taken back, or its lease was over. READY and BROKEN answer the set-up.
READY, BROKEN, DONE, FAILED, RETRY, DEAD, NOT_RUN = range(7)
SECONDS = struct.Struct("=d")
#: The set-up comes first: bytes of JSON. The child reads it before it can import this module.
SET_UP = struct.Struct("=I")
READ_BYTES = 1 << 16


def packed(ending: Ending) -> tuple[int, bytes]:
    """The code and the body that stand for how an attempt ended."""
    if isinstance(ending, Returned):
        return DONE, b"" if ending.result is None else ending.result.encode()
    if isinstance(ending, NotRun):
        return NOT_RUN, b""
    text = ending.error.encode()
    if ending.after is not None:
        return RETRY, SECONDS.pack(ending.after.total_seconds()) + text
    return (DEAD if ending.dead else FAILED), text


def unpacked(code: int, body: bytes) -> Ending:
    """What a code and a body stand for, which a task may have written."""
    if code == NOT_RUN:
        return NotRun()
    if code == DONE:
        try:
            return Returned(body.decode() if body else None)
        except UnicodeDecodeError:
            return Failure("the task wrote into the pipe to its worker: its result is no text")
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
    """Of each request what `REQUEST` has, and its payload; ends with the pipe."""
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
