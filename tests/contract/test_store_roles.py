"""The roles of a store in Python are those of the database: each calls what its own may call."""

from __future__ import annotations

import pytest

from rowlease.store import Consuming, Operating, Producing, Reading, Scheduling
from rowlease.store.calls import Calls
from tests.contract.sessions import Session

pytestmark = pytest.mark.only_on(
    "postgresql", why="what is granted is the same on both, and asked here"
)


@pytest.mark.parametrize(
    ("role", "grantees"),
    [
        (Producing, {"rowlease_producer"}),
        (Consuming, {"rowlease_worker"}),
        (Operating, {"rowlease_operator"}),
        (Reading, {"rowlease_reader", "rowlease_operator"}),
        # A worker plans and fires schedules, an operator makes and stops them.
        (Scheduling, set()),
    ],
)
def test_what_a_role_calls_is_granted_to_it(
    role: type[Calls], grantees: set[str], store: Session
) -> None:
    rows = store.execute(
        "select p.proname, r.rolname from pg_proc p, pg_roles r"
        " where p.pronamespace = 'rowlease'::regnamespace"
        " and r.rolname in ('rowlease_producer', 'rowlease_worker', 'rowlease_operator',"
        " 'rowlease_reader') and has_function_privilege(r.oid, p.oid, 'execute')"
    )
    calls = {name.removesuffix("_async") for name in vars(role) if not name.startswith("_")}
    assert calls
    for name in calls:
        found = {role for routine, role in rows if routine == name}
        assert found, name
        assert grantees <= found, name


def test_each_routine_has_its_place_in_one_role() -> None:
    roles = (Producing, Consuming, Scheduling, Operating, Reading)
    names = [name for role in roles for name in vars(role) if not name.startswith("_")]
    assert len(names) == len(set(names)) > 30
