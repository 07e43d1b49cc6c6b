"""Finds the DSN of the database: an argument, or a setting in the environment."""

from __future__ import annotations

import os
from pathlib import Path

from rowlease.errors import ConfigError

#: The environment variable with the DSN. Other users can read command lines, but not this variable.
DSN_VARIABLE = "ROWLEASE_DSN"
#: The environment variable with the path of a file that contains the DSN.
DSN_FILE_VARIABLE = "ROWLEASE_DSN_FILE"
ADVICE = "set it to the path of a file that contains the DSN"


def configured_dsn(given: str | None = None) -> str | None:
    """The configured DSN. None means that the embedded server is used.

    The DSN is the first of these that is set: the argument, ROWLEASE_DSN, and the content of the
    file that ROWLEASE_DSN_FILE names (for mounted secrets).

    Raises:
        ConfigError: `given` is not a string, or the file cannot be read or is empty.
    """
    if not isinstance(given, str | None):
        raise ConfigError(
            f"dsn is {given!r}; it must be a string such as postgresql://user@host/database"
        )
    if given or (given := os.environ.get(DSN_VARIABLE)):
        return given
    if path := os.environ.get(DSN_FILE_VARIABLE):
        try:
            text = Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(
                f"{DSN_FILE_VARIABLE} is {path}, which cannot be read: {error.strerror}; {ADVICE}"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{DSN_FILE_VARIABLE} is {path}, which is not UTF-8 text; {ADVICE}"
            ) from error
        if not text:
            raise ConfigError(f"{DSN_FILE_VARIABLE} is {path}, which is empty; {ADVICE}")
        return text
    return None
