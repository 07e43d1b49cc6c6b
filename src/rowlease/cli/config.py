"""`rowlease config`, and how options take values from the environment and the settings file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from rowlease.cli.options import json_option, show_json
from rowlease.cli.say import say
from rowlease.config import (
    CONFIG_VARIABLE,
    DSN_FILE_VARIABLE,
    DSN_VARIABLE,
    TOP_KEYS,
    dsn_with_place,
    settings,
)
from rowlease.errors import ConfigError

#: The text that `show` prints in place of a secret.
MASK = "***"
SECRET = ("token", "password", "secret")
#: The parameters that run commands.
NOT_FROM_A_FILE = ("psql.arguments",)
#: The environment variables that are no options.
PLAIN_VARIABLES = (
    "ROWLEASE_HOME", "ROWLEASE_EMBEDDED_PORT", "ROWLEASE_PG_BIN", "ROWLEASE_JDBC_JARS",
    "ROWLEASE_TEST_DSN", CONFIG_VARIABLE,
)  # fmt: skip
#: The environment variables of the database, and those of the dashboard.
OTHER_VARIABLES = {
    DSN_VARIABLE, DSN_FILE_VARIABLE,
    "ROWLEASE_DASHBOARD_READER_TOKEN", "ROWLEASE_DASHBOARD_OPERATOR_TOKEN",
}  # fmt: skip


class Shown(NamedTuple):
    """A setting, its value, and the place that the value comes from."""

    setting: str
    value: Any
    source: str


def name_variables(root: click.Group) -> None:
    """Let each option read an environment variable: ROWLEASE_WORKER_CONCURRENCY, for example."""
    for path, command in commands(root):
        for parameter in settable_parameters(command):
            own = variable_name(path, parameter)
            known = _variable_names(parameter)
            if own not in known:
                parameter.envvar = [*known, own]


def defaults(root: click.Group) -> dict[str, Any]:
    """The values of the settings file, as `default_map` of click.

    Raises:
        ConfigError: a key is unknown, or its value has a wrong type.
    """
    file, values = settings()
    if file is None:
        return {}
    return _table(root, {k: v for k, v in values.items() if k not in TOP_KEYS}, file, ())


def place_of_error(error: click.BadParameter) -> str:
    """The place that a wrong value comes from, unless it is an argument."""
    if error.ctx is None or error.param is None:
        return ""
    source = error.ctx.get_parameter_source(error.param.name or "")
    path = tuple(error.ctx.command_path.split()[1:])
    if source is ParameterSource.DEFAULT_MAP:
        return f" (from {'.'.join((*path, key_of(error.param)))} in {settings().file})"
    if source is ParameterSource.ENVIRONMENT:
        return f" (from the environment variable {_set_variable(error.param)})"
    return ""


@click.group()
def config() -> None:
    """Show the settings, and where their values come from.

    Each option takes its value from the first of these places that has one: the argument; the
    environment variable; the settings file; the default. The settings file is rowlease.toml, or the
    table [tool.rowlease] of pyproject.toml, in the working directory or above it, up to the root of
    the project: the nearest folder with .git, or else with pyproject.toml.

    \b
      dsn_file = "/run/secrets/dsn"
      [worker]
      concurrency = 8          # as --concurrency, or ROWLEASE_WORKER_CONCURRENCY
    """


@config.command()
@click.option("--all", "with_defaults", is_flag=True, help="Also show options that have defaults.")
@json_option
@click.pass_context
def show(context: click.Context, with_defaults: bool, as_json: bool) -> None:
    """Print the settings that have a value, and where each comes from. Secrets are masked."""
    root = context.find_root().command
    assert isinstance(root, click.Group)
    rows = [*_database(), *_variables(), *_unknown_variables(root)]
    rows += [row for row in _options(root) if with_defaults or row.source != "default"]
    if as_json:
        show_json([row._asdict() for row in rows])
        return
    file = settings().file
    say(f"settings file: {file or 'none'}")
    for row in rows:
        say(f"{row.setting} = {row.value}    ({row.source})")


def commands(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that is not a group, with its path."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def settable_parameters(command: click.Command) -> list[click.Parameter]:
    """The options and arguments that may be set elsewhere. The DSN has keys of its own."""
    return [
        each
        for each in command.params
        if each.name != "dsn" and not getattr(each, "hidden", False) and each.expose_value
    ]


def key_of(parameter: click.Parameter) -> str:
    """The name of a parameter in the settings file: that of its option, with underscores."""
    longest = max(parameter.opts, key=len)
    return longest.lstrip("-").replace("-", "_").lower()


def variable_name(path: tuple[str, ...], parameter: click.Parameter) -> str:
    """The environment variable of a parameter."""
    return "_".join(("rowlease", *path, key_of(parameter))).replace("-", "_").upper()


def _table(
    group: click.Group, values: dict[str, Any], file: Path, path: tuple[str, ...]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = key if key in group.commands else key.replace("_", "-")
        command = group.commands.get(name)
        place = ".".join((*path, key))
        if command is None:
            known = [*([] if path else TOP_KEYS), *group.commands]
            raise ConfigError(f"{place} in {file} is unknown; {_advice(key, known)}")
        if not isinstance(value, dict):
            raise ConfigError(f"{place} in {file} must be a table: [{place}]")
        if isinstance(command, click.Group):
            found[name] = _table(command, value, file, (*path, name))
        else:
            found[name] = _values(command, value, file, (*path, name))
    return found


def _values(
    command: click.Command, values: dict[str, Any], file: Path, path: tuple[str, ...]
) -> dict[str, Any]:
    known = {key_of(each): each for each in settable_parameters(command)}
    found = {}
    for key, value in values.items():
        place = ".".join((*path, key))
        parameter = known.get(key.replace("-", "_"))
        if key in TOP_KEYS:
            raise ConfigError(f"{place} in {file}: {key} belongs at the top of the file")
        if parameter is None:
            raise ConfigError(f"{place} in {file} is unknown; {_advice(key, list(known))}")
        if place in NOT_FROM_A_FILE:
            raise ConfigError(f"{place} in {file}: psql runs what it says; pass it as arguments")
        if getattr(parameter, "is_flag", False):
            fits, wanted = isinstance(value, bool), "true or false"
        elif parameter.multiple or parameter.nargs != 1:
            fits, wanted = isinstance(value, list), "a list"
        else:
            fits = isinstance(value, str | int | float) and not isinstance(value, bool)
            wanted = "a string or a number"
        if not fits:
            raise ConfigError(f"{place} in {file} is {value!r}; it must be {wanted}")
        found[parameter.name or ""] = value
    return found


def _advice(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key.replace("-", "_"), known, 1)
    return f"did you mean {near[0]}?" if near else f"the keys are: {', '.join(sorted(known))}"


def _database() -> list[Shown]:
    from rowlease.store import redact

    found = dsn_with_place()
    if found is None:
        return [Shown("dsn", "the embedded server", "default")]
    return [Shown("dsn", redact(found.value), found.place)]


def _variables() -> Iterator[Shown]:
    """The environment variables that are no options."""
    for name in PLAIN_VARIABLES:
        if value := os.environ.get(name):
            yield Shown(name, value, "environment")


def _unknown_variables(root: click.Group) -> Iterator[Shown]:
    """The environment variables that look like settings, but are not read."""
    known = OTHER_VARIABLES.union(PLAIN_VARIABLES)
    for _, command in commands(root):
        known.update(name for each in command.params for name in _variable_names(each))
    for name in sorted(os.environ):
        if name.startswith("ROWLEASE_") and name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.9)
            advice = f"; did you mean {near[0]}?" if near else ""
            yield Shown(name, MASK, f"environment; no setting has this name{advice}")


def _options(root: click.Group) -> Iterator[Shown]:
    found = defaults(root)
    file = settings().file
    for path, command in commands(root):
        below = found
        for name in path:
            below = below.get(name, {})
        for parameter in settable_parameters(command):
            setting = ".".join((*path, key_of(parameter)))
            if named := _set_variable(parameter):
                value, source = os.environ[named], f"environment variable {named}"
            elif (parameter.name or "") in below:
                value, source = below[parameter.name or ""], f"{file}: {setting}"
            else:
                default = parameter.to_info_dict().get("default")
                default = default() if callable(default) else default
                value, source = ("" if default is None else default), "default"
            secret = any(word in setting for word in SECRET)
            yield Shown(setting, MASK if secret and value else value, source)


def _set_variable(parameter: click.Parameter) -> str | None:
    return next((name for name in _variable_names(parameter) if os.environ.get(name)), None)


def _variable_names(parameter: click.Parameter) -> list[str]:
    """The environment variables of a parameter."""
    given = parameter.envvar
    return [given] if isinstance(given, str) else list(given or ())
