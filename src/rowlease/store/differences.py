"""The differences between a database and this release, object by object.

The module of an engine reads the definitions of a database's objects, by kind and name. This module
compares them with the definitions that this release expects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from rowlease.store.routines import packaged_folder

#: The table in which `rowlease migrate` records what it installed. If its row is missing, `migrate`
#: installs all objects of the kinds in REINSTALLED again, and triggers that are missing.
RECORDS = {"postgresql": "rowlease.schema_info", "sqlserver": "rowlease.SchemaInfo"}
#: The kinds of objects that every migration replaces.
REINSTALLED = {"routine", "view", "grant"}
#: The advice for an object that this release does not have, by the object's kind.
UNWANTED = {
    "grant": "revoke it", "deny": "revoke it", "revoke": "grant it", "member": "remove it",
}  # fmt: skip


class Difference(NamedTuple):
    """One object that differs from this release.

    Attributes:
        object: the kind and name of the object, such as `column rowlease.queue.kind`.
        expected: the definition in this release; None if this release has no such object.
        found: the definition in the database; None if the object is missing there.
        advice: what to do about the difference.
    """

    object: str
    expected: str | None
    found: str | None
    advice: str


def differences(
    engine: str, expected: Mapping[str, str], found: Mapping[str, str]
) -> list[Difference]:
    """The differences, sorted by the names of the objects.

    Args:
        engine: "postgresql" or "sqlserver".
        expected: the definitions of this release, by the kind and name of an object.
        found: the definitions of the database, likewise.
    """
    return [
        Difference(name, wanted, there, _advice(engine, name, expected, there))
        for name in sorted({*expected, *found})
        if (wanted := expected.get(name)) != (there := found.get(name))
    ]


def is_recreated(name: str, expected: Mapping[str, str], found: str | None) -> bool:
    """Whether `rowlease migrate` on PostgreSQL creates an object again, alone and at once.

    It does so with an index that is missing or only half made, unless it is that of a constraint.

    Args:
        name: the kind and name of the object.
        expected: the definitions of this release.
        found: the definition in the database; None if the object is missing there.
    """
    kind, _, index = name.partition(" ")
    return (
        kind == "index"
        and name in expected
        and found in (None, f"{expected[name]} invalid")
        and not any(
            one.startswith("constraint ")
            and one.rpartition(".")[2] == index.rpartition(".")[2]
            and definition.startswith(("PRIMARY KEY", "UNIQUE"))
            for one, definition in expected.items()
        )
    )


def _advice(engine: str, name: str, release: Mapping[str, str], found: str | None) -> str:
    kind = name.partition(" ")[0]
    expected = release.get(name)
    if engine == "postgresql" and is_recreated(name, release, found):
        return "run `rowlease migrate`, which creates it while workers work"
    if expected is None:
        return UNWANTED.get(kind, "drop it, unless it is yours")
    reinstall = f"delete the row of {RECORDS[engine]} and run `rowlease migrate`"
    if kind in REINSTALLED or (kind == "trigger" and found is None):
        return reinstall
    if kind == "trigger":
        return f"drop it, {reinstall}"
    if found is None:
        return f"create it as the migrations do: {expected}" if expected else "create it"
    return f"change it to what the migrations make: {expected or 'the default'}"


def read_catalogue(engine: str) -> dict[str, str]:
    """The objects in sql/<engine>/catalogue.json."""
    file = packaged_folder("sql") / engine / "catalogue.json"
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def fingerprint(text: str) -> str:
    """A short hash that stands for the text of a routine."""
    return "fingerprint " + hashlib.sha256(text.encode()).hexdigest()[:16]
