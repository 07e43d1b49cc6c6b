"""Finds the settings: arguments first, then the environment, then a TOML file, then defaults."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from rowlease.errors import ConfigError

#: The environment variable with the DSN. Other users can read command lines, but not this variable.
DSN_VARIABLE = "ROWLEASE_DSN"
#: The environment variable with the path of a file that contains the DSN.
DSN_FILE_VARIABLE = "ROWLEASE_DSN_FILE"
#: The environment variable with the path of the settings file.
CONFIG_VARIABLE = "ROWLEASE_CONFIG"
DSN_FILE_ADVICE = "set it to the path of a file that contains the DSN"
#: The settings file, and the file that may have the same settings in its table [tool.rowlease].
OWN_FILE, PROJECT_FILE = "rowlease.toml", "pyproject.toml"
#: The keys at the top of the file. Every other key is a table with the name of a command.
TOP_KEYS = ("dsn", "dsn_file")
#: Parts of a DSN that name a library to load or a file to write.
DSN_PARTS_NOT_FROM_A_FILE = ("driver", "sslkeylogfile")


class Settings(NamedTuple):
    """The content of the settings file.

    Attributes:
        file: the path of the file; None if there is no file.
        values: the keys of the file.
    """

    file: Path | None
    values: dict[str, Any]


class Dsn(NamedTuple):
    """The configured DSN, and the place that it comes from."""

    value: str
    place: str


def settings() -> Settings:
    """The settings file: the one that ROWLEASE_CONFIG names, or else the nearest one.

    The nearest one is `rowlease.toml`, or a `pyproject.toml` with a table `[tool.rowlease]`, in the
    working directory or in a folder above it, up to the root of the project. Somebody else may have
    written it, if it or its folder belongs to neither this user nor root, or if everybody may write
    to it; then it is refused. A file that ROWLEASE_CONFIG names is not checked.

    Raises:
        ConfigError: the file cannot be read, is not TOML or has a wrong key at its top, or
            somebody else may have written it.
    """
    if named := os.environ.get(CONFIG_VARIABLE):
        file = Path(named)
        found = _read(file, f"{CONFIG_VARIABLE} is {named}, which")
        return _checked(file, _own(file, found) or {})
    for each in _project_folders(Path.cwd()):
        for name in (OWN_FILE, PROJECT_FILE):
            file = each / name
            if file.is_file() and (own := _own(file, _read(file, str(file)))) is not None:
                _check_writers(file)
                return _checked(file, own)
    return Settings(None, {})


def _project_folders(folder: Path) -> tuple[Path, ...]:
    """This folder and those above it, up to the root of the project.

    The root is the nearest folder with `.git`, or else the nearest with `pyproject.toml`. Outside
    of a project it is the folder itself (decision 98 in docs/decisions).
    """
    above = (folder, *folder.parents)
    for marker in (".git", PROJECT_FILE):
        for place, each in enumerate(above, 1):
            if (each / marker).exists():
                return above[:place]
    return above[:1]


def _check_writers(file: Path) -> None:
    """Refuse a file that somebody else may have written, as git does with a repository.

    Raises:
        ConfigError: this user or root does not own the file, its link or its folder; or everybody
            may write to them.
    """
    if not hasattr(os, "geteuid"):  # Windows
        return
    user = os.geteuid()
    trusted = {0, user}
    if user == 0 and (before := os.environ.get("SUDO_UID", "")).isdecimal():
        trusted.add(int(before))
    folder = file.parent.stat()
    for found in (file.lstat(), file.stat(), folder):
        if found.st_uid not in trusted:
            raise _refused(file, f"user {found.st_uid} owns it or its folder")
    if file.stat().st_mode & stat.S_IWOTH:
        raise _refused(file, "everybody may write to it")
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        raise _refused(file, "everybody may write to its folder")


def _refused(file: Path, why: str) -> ConfigError:
    return ConfigError(
        f"the settings file {file} is not used, because {why}: it could name a database or tasks "
        f"of somebody else. If you trust it, set {CONFIG_VARIABLE}={file}; to go on without a "
        f"settings file, set {CONFIG_VARIABLE}=/dev/null"
    )


def configured_dsn(given: str | None = None) -> str | None:
    """The configured DSN. None means that the embedded server is used.

    The DSN is the first of these that is set: the argument; ROWLEASE_DSN; the content of the file
    that ROWLEASE_DSN_FILE names (for mounted secrets); `dsn` or `dsn_file` in the settings file.

    Raises:
        ConfigError: `given` is empty, or a file cannot be read or is empty.
    """
    found = dsn_with_place(given)
    return None if found is None else found.value


def dsn_with_place(given: str | None = None) -> Dsn | None:
    """The same as `configured_dsn`, with the place that the DSN comes from."""
    if given is not None:
        if isinstance(given, str) and not given.strip():  # as in --dsn "$UNSET"
            raise ConfigError(
                "the DSN is empty; write postgresql://user:password@host:port/database"
            )
        return Dsn(given, "argument")
    if given := os.environ.get(DSN_VARIABLE):
        return Dsn(given, f"environment variable {DSN_VARIABLE}")
    if path := os.environ.get(DSN_FILE_VARIABLE):
        value = _content(Path(path), f"{DSN_FILE_VARIABLE} is {path}, which")
        return Dsn(value, f"environment variable {DSN_FILE_VARIABLE}: {path}")
    file, values = settings()
    if file is None:
        return None
    if given := values.get("dsn"):
        return _harmless(Dsn(given, f"{file}: dsn"))
    if path := values.get("dsn_file"):
        value = _content(file.parent / path, f"dsn_file in {file} is {path}, which")
        return _harmless(Dsn(value, f"{file}: dsn_file"))
    return None


def _harmless(found: Dsn) -> Dsn:
    """Refuse a DSN of a settings file that loads a library or writes a file.

    Raises:
        ConfigError: it does.
    """
    for name, _ in parse_qsl(found.value.partition("?")[2], keep_blank_values=True):
        if name.lower() in DSN_PARTS_NOT_FROM_A_FILE:
            raise ConfigError(
                f"the DSN of {found.place} has {name}=, which loads a library or writes a file; "
                f"put such a DSN into {DSN_VARIABLE} or {DSN_FILE_VARIABLE}"
            )
    return found


def _content(path: Path, subject: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"{subject} cannot be read: {error.strerror}; {DSN_FILE_ADVICE}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{subject} is not UTF-8 text; {DSN_FILE_ADVICE}") from error
    if not text:
        raise ConfigError(f"{subject} is empty; {DSN_FILE_ADVICE}")
    return text


def _read(file: Path, subject: str) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{subject} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{subject} is not valid TOML: {error}") from error


def _own(file: Path, found: dict[str, Any]) -> dict[str, Any] | None:
    """The settings in a file; None if it is a pyproject.toml without settings."""
    if file.name != PROJECT_FILE:
        return found
    tool = found.get("tool", {})
    own = tool.get("rowlease") if isinstance(tool, dict) else None
    if not isinstance(own, dict | None):
        raise ConfigError(
            f"tool.rowlease in {file} is {own!r}; it must be a table: [tool.rowlease]"
        )
    return own


def _checked(file: Path, values: dict[str, Any]) -> Settings:
    for key in TOP_KEYS:
        if not isinstance(values.get(key, ""), str):
            raise ConfigError(f"{key} in {file} must be a string")
    if "dsn" in values and "dsn_file" in values:
        raise ConfigError(f"{file} has both dsn and dsn_file; keep one of them")
    return Settings(file, values)
