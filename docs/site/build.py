"""Builds the documentation site: the pages of the repository, and a reference made from the code.

    python docs/site/build.py [--pages-only] [FOLDER]

The site is FOLDER/html, and FOLDER is `site` by default. `--pages-only` stops before the HTML: the
pages are in FOLDER/pages then.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from rowlease.cli import cli
from rowlease.store.routines import (
    HEADER_FIELDS,
    PUBLIC,
    load_routines,
    packaged_folder,
    read_routine,
)

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).with_name("zensical.toml")
#: Pages outside docs/, and their places in the site.
PLACES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "sql/README.md": "reference/sql/conventions.md",
    "tests/README.md": "tests.md",
}
#: What users import.
MODULES = (
    "rowlease",
    "rowlease.middleware",
    "rowlease.spark",
    "rowlease.testing",
    "rowlease.events",
    "rowlease.errors",
)
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?(\))")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("site"))
    parser.add_argument("--pages-only", action="store_true", help="stop before the HTML")
    given = parser.parse_args()
    pages = given.folder / "pages"
    shutil.rmtree(given.folder, ignore_errors=True)
    for place, text in {**repository_pages(), **reference_pages()}.items():
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        (pages / place).write_text(text, encoding="utf-8")
    for picture in (ROOT / "docs").glob("*.png"):
        shutil.copy(picture, pages)
    if not given.pages_only:
        shutil.copy(CONFIG, given.folder)
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
        built = subprocess.run(
            command,
            cwd=given.folder,
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        sys.stdout.write(built.stdout)
        # --strict does not know the warnings about docstrings.
        sys.exit(built.returncode or int("griffe: " in built.stdout))


def repository_pages() -> dict[str, str]:
    """The text of each page by its place; links are changed to lead to places."""
    files = {path: ROOT / path for path in PLACES}
    files |= {
        path.relative_to(ROOT).as_posix(): path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if CONFIG.parent not in path.parents
    }
    return {place_of(path): relinked(path, file.read_text()) for path, file in files.items()}


def place_of(path: str) -> str:
    """The place in the site of a file of the repository, by its path."""
    place = PLACES.get(path, path.removeprefix("docs/"))
    return re.sub(r"README\.md$", "index.md", place)


def relinked(path: str, text: str) -> str:
    """A page whose links lead from its place in the site to the places of others."""
    here = os.path.dirname(place_of(path))

    def link(match: re.Match[str]) -> str:
        opening, target, anchor, closing = match.groups()
        file = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if not (ROOT / file).exists():
            raise SystemExit(f"{path}: there is no {target}")
        is_page = file in PLACES or file.startswith("docs/")
        if not is_page:  # a file of the checkout, such as pyproject.toml
            return opening + "contributing.md" + closing
        return opening + os.path.relpath(place_of(file), here or ".") + (anchor or "") + closing

    return LINK.sub(link, text)


def reference_pages() -> dict[str, str]:
    """The pages that are made from the code, by place."""
    sql = {f"reference/sql/{verb}.md": page for verb, page in sql_pages()}
    python = {f"reference/python/{name}.md": python_page(name) for name in MODULES}
    return {"reference/cli.md": cli_page(), **python, **sql}


def cli_page() -> str:
    """Every command with the text of its --help."""
    parts = ["# Command line", "Each command prints this with `--help`."]
    top = click.Context(cli, info_name="rowlease", **cli.context_settings)
    for name, command, context in commands(cli, top):
        parts += [f"## {name}", f"```text\n{command.get_help(context).rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """A command and all below it, by full names."""
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, click.Context(below, context, info_name=name))


def sql_pages() -> Iterator[tuple[str, str]]:
    """A page for each verb: its routines that a role may call, and the views."""
    root = packaged_folder("sql") / "postgresql"
    routines = [each for each in load_routines("postgresql").values() if each.schema == PUBLIC]
    folders = {path.stem: path.parent.name for path in root.rglob("*.sql") if not in_tests(path)}
    routines += [read_routine(path) for path in sorted((root / "views").glob("*.sql"))]
    routines.sort(key=lambda routine: folders[routine.name])
    for verb, members in groupby(routines, key=lambda routine: folders[routine.name]):
        parts = [f"# {verb}"]
        for routine in members:
            fields = [f"**{field}**\n:   {plain(routine.header[field])}" for field in HEADER_FIELDS]
            parts += [f"## {routine.name}", capitalized(routine.summary), *fields]
        yield verb, "\n\n".join(parts) + "\n"


def in_tests(path: Path) -> bool:
    """Is a routine one that tests put in the place of another?"""
    return path.parent.name == "testing"


def plain(text: str) -> str:
    """A text without markup, as Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def python_page(name: str) -> str:
    """A page on which mkdocstrings shows the public names of a module."""
    names = getattr(importlib.import_module(name), "__all__", [])
    chosen = "".join(f"        - {each}\n" for each in names)
    return f"# {name}\n\n::: {name}\n" + (
        f"    options:\n      members:\n{chosen}" if names else ""
    )


if __name__ == "__main__":
    main()
