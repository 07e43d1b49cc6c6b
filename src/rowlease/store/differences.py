"""The differences between a database and this release, object by object.

An engine reads what a database holds, as definitions by the kind and name of each object. Here
they are compared with what this release expects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from rowlease.store.routines import packaged

#: The table without whose row `rowlease migrate` puts everything of REINSTALLED in place again.
RECORDS = {"postgresql": "rowlease.schema_info", "sqlserver": "rowlease.SchemaInfo"}
REINSTALLED = {"routine", "view", "trigger", "grant"}
#: What to do with an object that is not of this release.
UNWANTED = {
    "grant": "revoke it", "deny": "revoke it", "revoke": "grant it", "member": "remove it",
}  # fmt: skip


class Difference(NamedTuple):
    """One object that differs from this release.

    Attributes:
        object: its kind and name, such as `column rowlease.queue.kind`.
        expected: its definition in this release; None if the release has no such object.
        found: its definition in the database; None if it is missing there.
        advice: what to do.
    """

    object: str
    expected: str | None
    found: str | None
    advice: str


def differences(
    engine: str, expected: Mapping[str, str], found: Mapping[str, str]
) -> list[Difference]:
    """The differences by the names of the objects.

    Args:
        engine: "postgresql" or "sqlserver".
        expected, found: definitions by the kind and name of an object.
    """
    return [
        Difference(name, wanted, there, _advice(engine, name, wanted, there))
        for name in sorted({*expected, *found})
        if (wanted := expected.get(name)) != (there := found.get(name))
    ]


def _advice(engine: str, name: str, expected: str | None, found: str | None) -> str:
    kind = name.partition(" ")[0]
    if expected is None:
        return UNWANTED.get(kind, "drop it, unless it is yours")
    if kind in REINSTALLED:
        return f"delete the row of {RECORDS[engine]} and run `rowlease migrate`"
    if found is None:
        return f"create it as the migrations do: {expected}" if expected else "create it"
    return f"change it to what the migrations make: {expected or 'the default'}"


def shipped(engine: str) -> dict[str, str]:
    """The objects in sql/<engine>/catalogue.json."""
    file = packaged("sql") / engine / "catalogue.json"
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def fingerprint(text: str) -> str:
    """Stands for the text of a routine."""
    return "fingerprint " + hashlib.sha256(text.encode()).hexdigest()[:16]
