"""Prints sentences for people, without anything that could control the terminal."""

from __future__ import annotations

import click

from rowlease.visible import visible


def say(sentence: str, *, err: bool = False) -> None:
    """Print one line. A character that cannot be seen is shown as an escape.

    Args:
        err: whether to print on stderr.
    """
    click.echo(visible(sentence), err=err)  # noqa: TID251


def say_lines(label: str, text: str) -> None:
    """Print a label and a text. The text's further lines are indented to the end of the label."""
    first, *more = text.split("\n")
    say(label + first)
    for line in more:
        say(" " * len(label) + line)
