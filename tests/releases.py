"""Two releases that follow each other, as source trees: for tests of an upgrade.

The previous release is the last tag of the repository. Until there is one, this checkout replaces
it, and the next release is a copy of it with one more revision.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from rowlease.store.revisions import revisions

FOLDERS = ("src", "sql", "migrations")
#: A revision that only adds, as any may: columns that the previous release knows nothing of.
ADDS = """\
alter table rowlease.queue add column added text;
alter table rowlease.queue_history add column added text;
alter table rowlease.load add column added text not null default 'x';
alter table rowlease.lane add column added text;
create table rowlease.added (n integer primary key);
"""
REVISION = '''\
"""Columns of the next release.

Revision ID: {number}
Revises: {head}
"""

from rowlease.store.revisions import run_script

revision = "{number}"
down_revision = "{head}"


def upgrade() -> None:
    run_script(__file__)
'''


class Releases(NamedTuple):
    """The folders of two releases, each with src/, sql/ and migrations/."""

    old: Path
    new: Path


def releases(repository: Path, folder: Path) -> Releases:
    """The previous release and the one to come, in a folder of the test's own."""
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    if tag.returncode == 0:
        archive = folder / "old.tar"
        subprocess.run(
            ["git", "archive", "-o", str(archive), tag.stdout.strip(), *FOLDERS],
            cwd=repository,
            check=True,
        )
        shutil.unpack_archive(archive, folder / "old")
        return Releases(folder / "old", repository)
    return Releases(repository, next_release(repository, folder / "new"))


def next_release(repository: Path, folder: Path) -> Path:
    """A copy of the checkout with a revision more."""
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / name, folder / name, ignore=ignored)
    head = revisions()[-1]
    number = f"{int(head) + 1:04}"
    versions = folder / "migrations" / "versions"
    (versions / f"{number}_next.py").write_text(REVISION.format(number=number, head=head))
    (versions / f"{number}_next_postgresql.sql").write_text(ADDS)
    return folder


def environment(release: Path, dsn: str) -> dict[str, str]:
    """The environment of a process that runs a release on a database."""
    return {**os.environ, "PYTHONPATH": str(release / "src"), "ROWLEASE_DSN": dsn}


def migrate(release: Path, dsn: str) -> str:
    """Run a release's `rowlease migrate`; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "rowlease", "migrate"],
        env=environment(release, dsn),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
