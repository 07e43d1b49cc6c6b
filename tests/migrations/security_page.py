"""The table of SECURITY.md that says what each role may do with each table and view."""

from __future__ import annotations

import re

from rowlease.store.routines import packaged_folder

ROLES = ("rowlease_producer", "rowlease_worker", "rowlease_reader", "rowlease_operator")
#: The words of its cells, and the rights that they mean.
RIGHTS = {"reads": "select", "adds": "insert"}
#: What its cells say of a role that adds, changes or deletes rows by calls of routines.
CALLS = "calls"


def words() -> dict[tuple[str, str], set[str]]:
    """The words of each cell, by table and role."""
    page = (packaged_folder("sql").parent / "SECURITY.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"\n### Table by table\n(.*?)\n### ", page, re.DOTALL)
    found = {}
    for line in re.findall(r"(?m)^\| `.*\|$", section):
        names, _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.findall(r"`(\w+)`", names):
            for role, cell in zip(ROLES, cells, strict=True):
                assert (name, role) not in found, f"{name} has two rows"
                found[name, role] = set(filter(None, cell.split(", ")))
    return found


def rights() -> dict[str, dict[str, set[str]]]:
    """The rights of each role on each table and view, as the words of SQL."""
    found: dict[str, dict[str, set[str]]] = {role: {} for role in ROLES}
    for (name, role), cell in words().items():
        found[role][name] = {RIGHTS[word] for word in cell - {CALLS}}
    return found
