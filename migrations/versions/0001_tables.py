"""The tables, roles and schemas of the first release: one SQL script for each engine.

Revision ID: 0001
"""

from __future__ import annotations

from rowlease.store.revisions import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_script(__file__)
