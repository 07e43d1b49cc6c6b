"""What the command line writes to stderr while it runs: lines of text, or of JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

#: What every record has; all else was put there by whoever logs (`rowlease.events.log`).
STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, process, then an event's name and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        said = {key: value for key, value in vars(record).items() if key not in STANDARD}
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": record.process,
        }
        if record.name != "rowlease":
            line["logger"] = record.name
        if "event" in said:
            line["event"] = said.pop("event")
        else:
            line["message"] = record.getMessage()
        line |= said
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=plain)


def plain(value: object) -> object:
    """What JSON has no word for: durations are seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def set_up_logging(form: str, level: str, *, with_process: bool = False) -> logging.Logger:
    """Write to stderr from now on; rowlease's own logger is returned.

    Args:
        form: `text` or `json`.
        level: of rowlease's own lines; other libraries speak up from `warning` on.
        with_process: text says which process writes.
    """
    process = "%(process)d " if with_process else ""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines()
        if form == "json"
        else logging.Formatter(f"%(asctime)s {process}%(levelname)s %(message)s")
    )
    logging.basicConfig(handlers=[handler])
    logger = logging.getLogger("rowlease")
    logger.setLevel(level.upper())
    return logger
