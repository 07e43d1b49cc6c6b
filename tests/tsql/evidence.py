"""What stands behind each promise of SQL Server's locks and plans, without a SQL Server.

    python -m tests.tsql.evidence

reads all mutants of sql/sqlserver by the lint, and writes promises.toml with the number of those
that each promise's rules notice into docs/engines.md.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rowlease.store.routines import scripts_hash
from tests.contract.engines import LOCKS, PAGE, write_section
from tests.mutation.linted import can_be_linted, lint
from tests.mutation.mutants import mutants

FILE = Path(__file__).with_name("promises.toml")
PROTOCOL = PAGE.with_name("sqlserver.md")
#: A step of the protocol: its number and its names.
STEP = re.compile(r"^\| (\d+) \| ([^:|]+?)(?::| \|)", re.MULTILINE)


class Promise(NamedTuple):
    """What locks or plans are to do.

    Attributes:
        says: the promise.
        rules: those of the lint that guard it.
        ran: what ran of it on something else than SQL Server.
        needs: the checks that only a server can answer.
    """

    says: str
    rules: tuple[str, ...]
    ran: str
    needs: tuple[str, ...]


def promises() -> list[Promise]:
    return [
        Promise(one["says"], tuple(one["rules"]), one["ran"], tuple(one["needs"]))
        for one in tomllib.loads(FILE.read_text(encoding="utf-8"))["promise"]
    ]


def table(noticed: Counter[str | None], when: str) -> list[str]:
    """The section of docs/engines.md."""
    total, caught = noticed.total(), noticed.total() - noticed[None]
    lines = [
        f"Written by `python -m tests.tsql.evidence`, {when}, with sql/sqlserver",
        f"`{scripts_hash('sqlserver')}`: {caught:,} of {total:,} mutants of",
        "sql/sqlserver are noticed by the rules of [the lint](../tests/tsql/rules), which reads",
        "the text with Microsoft's own grammar. A mutant is one hint, lock, order or condition",
        "taken out of a routine. This shows that the text says what it is to say, and not what a",
        "server does with it: each promise needs a server in the end, by the steps of the protocol",
        "[Check your own server](sqlserver.md#check-your-own-server).",
        "",
        "| promise | rules of the lint | mutants | what ran | needs a server |",
        "|---|---|---:|---|---|",
    ]
    for one in promises():
        rules = ", ".join(f"`{rule}`" for rule in one.rules)
        count = sum(noticed[rule] for rule in one.rules)
        lines.append(f"| {one.says} | {rules} | {count} | {one.ran} | {needed(one)} |")
    return lines


def needed(one: Promise) -> str:
    """The steps of the protocol that a promise needs, with their names."""
    page = PROTOCOL.read_text(encoding="utf-8")
    steps = {
        name: number for number, name in re.findall(r"(?m)^\| (\d+) \| ([^:|]+?)(?::| \|)", page)
    }
    number_of = {part: number for name, number in steps.items() for part in name.split(", ")}
    return ", ".join(f"protocol step {number_of[name]} ({name})" for name in one.needs)


def main() -> None:
    chosen = [one for one in mutants() if can_be_linted(one)]
    when = datetime.now(UTC).date().isoformat()
    write_section(LOCKS, table(Counter(lint(chosen, jobs=2)), when))


if __name__ == "__main__":
    main()
