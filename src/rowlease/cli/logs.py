"""The log of the command line: lines of text or JSON on stderr."""

from __future__ import annotations

import atexit
import io
import json
import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TextIO, cast

from rowlease.event_log import quoted
from rowlease.log_fields import FIELDS, RequestFields, loggers, plain
from rowlease.visible import visible

#: The attributes that every log record has. Other attributes are the fields of an event; see
#: `rowlease.event_log.log`.
STANDARD_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "message", "asctime"}

#: The maximum number of strings (lines of the log) that may wait while stderr is blocked.
MAX_WAITING = 10_000
#: The maximum number of strings in one write.
WRITTEN_AT_ONCE = 200
#: The longest time in seconds for writing the waiting strings at the end of the process.
LAST_WRITES_SECONDS = 2.0


class WriteBehind(io.TextIOBase):
    """A text stream whose callers never wait, because its own thread writes to the descriptor.

    When the buffer is full, strings are dropped and counted until half of the buffer is free. The
    count is logged after the next successful write. If the descriptor is closed, strings are
    dropped without an error. Any thread may write.

    `logging.handlers.QueueListener` is no alternative: its `stop` waits until the last write has
    ended, and warnings and tracebacks do not pass through it.

    Args:
        fd: the descriptor.
        most: the maximum number of strings that may wait.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, fd: int, most: int = MAX_WAITING) -> None:
        self._fd = fd
        self._most = most
        self._texts: deque[bytes] = deque()
        self._is_full = False
        self._num_dropped = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="rowlease-stderr", daemon=True).start()

    def write(self, text: str) -> int:
        data = text.encode(errors=self.errors)
        with self._changed:
            self._is_full = self._is_full or len(self._texts) >= self._most
            if self._is_full:
                self._num_dropped += 1
            elif data:
                self._texts.append(data)
                self._changed.notify_all()
        return len(text)

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def drain(self, seconds: float = LAST_WRITES_SECONDS) -> bool:
        """Wait until everything is written; False if that takes longer than `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._texts, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._texts)
                # They stay in the buffer until they are written: see `drain`. Many are written at
                # once, because each write may wait for a thread that computes.
                count = min(len(self._texts), WRITTEN_AT_ONCE)
                data = b"".join(islice(self._texts, count))
            was_written = self._write(data)
            with self._changed:
                self._num_dropped += 0 if was_written else count
                for _ in range(count - 1):
                    self._texts.popleft()
                self._is_full = self._is_full and len(self._texts) > self._most // 2
            if was_written:
                self._log_dropped()
            with self._changed:
                self._texts.popleft()
                self._changed.notify_all()

    def _log_dropped(self) -> None:
        with self._changed:
            if self._is_full or not self._num_dropped:
                return
            count, self._num_dropped = self._num_dropped, 0
        about = {"event": "log_lines_dropped", "count": count}
        logging.getLogger("rowlease").warning("log lines dropped count=%d", count, extra=about)

    def _write(self, data: bytes) -> bool:
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # another process may have set O_NONBLOCK
                select.select([], [self._fd], [])
            except OSError:
                return False
        return True


def write_behind_stderr() -> None:
    """Replace stderr, so that no thread of this process blocks on it."""
    if sys.stderr is not None:
        stream = WriteBehind(sys.stderr.fileno())
        sys.stderr = cast("TextIO", stream)
        atexit.register(stream.drain)


class TextLines(logging.Formatter):
    """Formats a record as a line of text. The lines of its traceback are indented.

    The record of a task ends with the fields of its request.
    """

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        line = self.formatMessage(record)
        if not hasattr(record, "event"):
            shown = ((name, getattr(record, name, None)) for name in FIELDS)
            fields = (f" {name}={quoted(value)}" for name, value in shown if value is not None)
            line += "".join(fields)
        more = [traceback_of(self, record), record.stack_info]
        lines = [visible(each) for text in more if text for each in text.split("\n")]
        return "\n  ".join([visible(line), *lines])


def traceback_of(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    """The traceback of a record. Children send it as text."""
    return formatter.formatException(record.exc_info) if record.exc_info else record.exc_text


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON: time, level, process, event, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            key: value for key, value in vars(record).items() if key not in STANDARD_ATTRIBUTES
        }
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": record.process,
        }
        if record.name != "rowlease":
            line["logger"] = record.name
        if "event" in fields:
            line["event"] = fields.pop("event")
        else:
            line["message"] = record.getMessage()
        line |= fields
        if exception := traceback_of(self, record):
            line["exception"] = exception
        return json.dumps(line, default=plain)


def formatter(form: str, *, with_process: bool = False) -> logging.Formatter:
    """The formatter of the format `text` or `json`; lines of text have the process id on demand."""
    process = "%(process)d " if with_process else ""
    text = TextLines(f"%(asctime)s {process}%(levelname)s %(message)s")
    return JsonLines() if form == "json" else text


def set_up_logging(form: str, level: str) -> None:
    """Log to stderr: from `level` up what rowlease logs, and the warnings of others."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("rowlease").setLevel(level.upper())


#: Logs to stderr what a worker and its tasks log. The records of a task have its request.
TASKS_CONSOLE = logging.StreamHandler()
TASKS_CONSOLE.addFilter(RequestFields())


@contextmanager
def log_of_tasks(form: str, level: str, *, with_process: bool) -> Iterator[None]:
    """Log to stderr what all loggers log, in a process that runs tasks."""
    TASKS_CONSOLE.setStream(sys.stderr)
    TASKS_CONSOLE.setFormatter(formatter(form, with_process=with_process))
    root = logging.getLogger()
    root.setLevel(level.upper())
    logging.getLogger("rowlease").setLevel(level.upper())
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs each step of a migration
    take_console()
    try:
        yield
    finally:
        root.removeHandler(TASKS_CONSOLE)


def take_console() -> None:
    """Log each record once: in place of other handlers for stdout and stderr.

    The modules of tasks may set some up, so this is called after they are imported, too.
    """
    root = logging.getLogger()
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    for logger in (root, *loggers()):
        for handler in [one for one in logger.handlers if one is not TASKS_CONSOLE]:
            if getattr(handler, "stream", None) in streams:
                logger.removeHandler(handler)
                logger.propagate = True
    root.addHandler(TASKS_CONSOLE)
    logging.getLogger("rowlease").disabled = False  # `logging.config` disables existing loggers
