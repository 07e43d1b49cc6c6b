"""Options that several commands have."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any

import click

from rowlease import durations
from rowlease.errors import ConfigError


def duration(text: str) -> timedelta:
    """A duration, such as `1h`, of the command line."""
    try:
        return durations.parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


#: The form of a time in help texts.
TIME_FORM = "2026-11-22T18:00, in UTC"


def time_of(_context: click.Context, _param: click.Parameter, text: str | None) -> datetime | None:
    """A time of the command line."""
    from rowlease.filters.language import parse_time

    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def dsn_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dsn",
        envvar="ROWLEASE_DSN",
        metavar="URL",
        help="postgresql://user:password@host:port/database. Other users of this machine can see "
        "arguments, so set a DSN with a password in ROWLEASE_DSN, or in a file that "
        "ROWLEASE_DSN_FILE names. Default: a PostgreSQL server that rowlease starts and stops.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        command
    )


def actor_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--actor",
        default=login_name,
        help="The operator's name, for the audit. Default: your login name.",
    )(command)


def login_name() -> str | None:
    """The name of the operating system's user; None if the user has none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def limit_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--limit",
        type=click.IntRange(1, 10_000),
        default=default,
        show_default=True,
        help="The maximum number of rows.",
    )


def header_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_headers,
        help="A header of the request, which its task can read. May be repeated.",
    )(command)


def _headers(
    _context: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    if wrong := [each for each in given if "=" not in each]:
        raise click.BadParameter(f"{wrong[0]!r} has no '='; write NAME=VALUE")
    return dict(each.split("=", 1) for each in given)


class ListGroup(click.Group):
    """A group whose command `list` runs if no command is given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        is_given = first[:1] not in ("", "-") or first in ctx.help_option_names
        if not is_given and not ctx.resilient_parsing:  # completion offers the commands
            args = ["list", *args]
        return super().parse_args(ctx, args)


def dry_run_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--dry-run", is_flag=True, help="Only print what would be done.")(command)


def needs_extra(extra: str, *modules: str, command: str = "") -> None:
    """Check that the modules of an extra are installed.

    Args:
        command: the command that needs them; empty means the one with the name of the extra.

    Raises:
        ConfigError: a module is missing. The message has the command that installs the extra.
    """
    if missing := [module for module in modules if find_spec(module) is None]:
        raise ConfigError(
            f"`rowlease {command or extra}` needs {missing[0]}, which is not installed; run "
            f"`pip install 'rowlease[{extra}]'`"
        )


def show_json(data: Any) -> None:
    click.echo(json.dumps(data, default=str))  # noqa: TID251
