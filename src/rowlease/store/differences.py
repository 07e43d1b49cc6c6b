"""The differences between a database and this release, object by object.

The module of an engine reads the definitions of a database's objects, by kind and name. This module
compares them with the definitions that this release expects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import NamedTuple

from rowlease.store.routines import packaged_folder

#: The kinds of objects that every migration replaces.
REINSTALLED = {"routine", "view", "grant"}
#: The advice for an object that `rowlease migrate` creates again.
RECREATED = "run `rowlease migrate`, which creates it while workers work"
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
    expected: Mapping[str, str],
    found: Mapping[str, str],
    records: str,
    recreated: Collection[str] = (),
) -> list[Difference]:
    """The differences, sorted by the names of the objects.

    Args:
        expected: the definitions of this release, by the kind and name of an object.
        found: the definitions of the database, likewise.
        records: the table in which `rowlease migrate` records what it installed. If its row is
            missing, `migrate` installs all objects of the kinds in REINSTALLED again, and triggers
            that are missing.
        recreated: the objects that `migrate` creates again, alone and at once.
    """
    return [
        Difference(
            name,
            wanted,
            there,
            RECREATED if name in recreated else _advice(name, wanted, there, records),
        )
        for name in sorted({*expected, *found})
        if (wanted := expected.get(name)) != (there := found.get(name))
    ]


def _advice(name: str, expected: str | None, found: str | None, records: str) -> str:
    kind = name.partition(" ")[0]
    if expected is None:
        return UNWANTED.get(kind, "drop it, unless it is yours")
    reinstall = f"delete the row of {records} and run `rowlease migrate`"
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
