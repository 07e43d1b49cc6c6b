"""Brings what a child process logs and prints into the log of its worker.

The child writes each record and each printed text into a pipe at once, as a line of JSON with the
request that it runs. So nothing is lost if the child dies. A thread of the worker passes the lines
to the worker's loggers. If the worker's process has set up no logging, its children have not
either, and they print to the worker's stdout and stderr.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from contextlib import suppress
from typing import Any, TextIO

from rowlease.log_fields import RequestFields, loggers, plain, request_fields
from rowlease.worker.slots import wire

#: The level of the lines that a task prints. They are logged whatever the level of the log is.
PRINTED = {"stdout": logging.INFO, "stderr": logging.WARNING}
#: The largest part of a printed line, in characters: a task may print without ever ending a line.
MAX_LINE = 1 << 16


def levels() -> dict[str, int] | None:
    """The levels of this process's loggers; None if its root logger has no handler."""
    root = logging.getLogger()
    if not root.handlers:
        return None
    return {"": root.level} | {one.name: one.level for one in loggers() if one.level}


# -- the child's side ----------------------------------------------------------------------------


class PipeHandler(logging.Handler):
    """Writes records and printed texts into the pipe to the worker."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self.addFilter(RequestFields())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            attributes = {**vars(record), "msg": record.getMessage(), "args": None}
            if record.exc_info and not record.exc_text:
                attributes["exc_text"] = logging.Formatter().formatException(record.exc_info)
            attributes["exc_info"] = None
            self._write(None, attributes)
        except Exception:
            self.handleError(record)

    def print(self, stream: str, text: str) -> None:
        """Write what a task has printed. It need not be a whole line."""
        at = time.time()
        times = {"created": at, "msecs": at % 1 * 1000}
        attributes = {**times, "process": os.getpid(), **request_fields()}
        self._write(stream, attributes, text)

    def _write(self, *message: object) -> None:
        # The line begins with its own end: if an exception, such as that of the soft time limit,
        # has cut off the line before, this one is whole all the same.
        data = f"\n{json.dumps(message, default=plain)}\n".encode()
        self.acquire()  # a lock that `logging` makes new in a forked process
        try:
            with suppress(OSError):
                wire.write(self._fd, data)
        finally:
            self.release()


class PipeStream(io.RawIOBase):
    """The stdout or stderr of a child process."""

    def __init__(self, handler: PipeHandler, name: str, fd: int) -> None:
        self._handler = handler
        self._name = name
        self._fd = fd

    def write(self, data: Any) -> int:
        given = bytes(data)
        self._handler.print(self._name, given.decode(errors="backslashreplace"))
        if given:
            (unfinished.discard if given.endswith(b"\n") else unfinished.add)(self._name)
        return len(given)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd  # for processes that the task starts


_handler: PipeHandler | None = None
#: The streams whose last line has no end yet.
unfinished: set[str] = set()


def end_lines() -> None:
    """End the lines that a task has printed without an end, so that they are logged."""
    while unfinished and _handler:
        _handler.print(unfinished.pop(), "\n")


def redirect(fd: int, levels: dict[str, int]) -> None:
    """Log and print into the pipe, as the worker's process logs."""
    global _handler
    _handler = PipeHandler(fd)
    logging.basicConfig(handlers=[_handler])
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    sys.stdout, sys.stderr = open_stream("stdout", 1), open_stream("stderr", 2)


def take_over() -> None:
    """Send all records through the pipe, and only there, after the tasks are imported.

    The worker's process imports the same modules. So it has all the handlers that these set up.
    """
    if _handler is not None:
        root = logging.getLogger()
        for logger in (root, *loggers()):
            logger.handlers.clear()
            logger.propagate = True
        root.addHandler(_handler)


def open_stream(name: str, fd: int) -> TextIO:
    """A stdout or stderr for this child process."""
    if _handler is None:
        return os.fdopen(fd, "w", buffering=1, closefd=False)
    raw: Any = PipeStream(_handler, name, fd)
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)


# -- the worker's side ---------------------------------------------------------------------------


def relay(fd: int) -> None:
    """Log what a child logs and prints, until the child has ended. Closes the descriptor."""
    printed = PrintedLines()
    with open(fd, "rb") as pipe:
        for line in pipe:
            if line == b"\n":
                continue
            try:
                stream, attributes, *text = json.loads(line)
                if stream is None:
                    log(logging.makeLogRecord(attributes))
                else:
                    printed.add(stream, attributes, *text)
            except Exception:  # the line was cut off, or a task has written it
                printed.add("stderr", {}, line.decode(errors="backslashreplace"))
    printed.end()


def log(record: logging.LogRecord) -> None:
    """Log the record of a child, if this process's logger has its level, too."""
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


class PrintedLines:
    """Makes a record of each line that tasks print: one call of `print` writes several texts."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[dict[str, Any], str]] = {}

    def add(self, stream: str, attributes: dict[str, Any], text: str) -> None:
        """Log the lines that end in this text, and keep the rest."""
        if stream not in PRINTED:
            raise ValueError(stream)
        first, begun = self._begun.pop(stream, (attributes, ""))
        *lines, rest = (begun + text).split("\n")
        for line in lines:
            self._log(stream, first, line)
            first = attributes
        while len(rest) > MAX_LINE:
            self._log(stream, first, rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        if rest:
            self._begun[stream] = first, rest

    def end(self) -> None:
        """Log the lines that have no end."""
        for stream, (attributes, text) in self._begun.items():
            self._log(stream, attributes, text)

    def _log(self, stream: str, attributes: dict[str, Any], line: str) -> None:
        level = PRINTED[stream]
        record = logging.LogRecord(stream, level, stream, 0, line, None, None)
        vars(record).update(attributes)
        logging.getLogger(stream).handle(record)
