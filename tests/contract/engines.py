"""Which engines the contract suite runs on; and its results, side by side, for docs/engines.md.

    python -m tests.contract.engines

runs the suite and writes the page. Nothing is claimed there that did not run.
"""

from __future__ import annotations

from rowlease.store.routines import packaged, scripts_hash
from tests.contract import sqlserver

PAGE = packaged("sql").parent / "docs" / "engines.md"


def available() -> list[str]:
    """The engines that there is a server for; PostgreSQL's is always there."""
    return ["postgresql"] if sqlserver.missing() else ["postgresql", "sqlserver"]


def stale() -> str | None:
    """A sentence, if docs/engines.md tells of other routines than those of sql/sqlserver."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if scripts_hash("sqlserver") in text:
        return None
    return (
        "docs/engines.md tells of an older sql/sqlserver than this one; "
        "`python -m tests.contract.engines` runs the suite again and writes it"
    )
