"""What `rowlease engines verify` makes of users of one role, and of two databases."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest

from rowlease import verify
from rowlease.errors import AccessDenied
from rowlease.store.routines import roles_of
from rowlease.verify import Result, VerifyReport
from rowlease.verify.checks import Broken
from rowlease.verify.rights import RIGHTS, rights_of

#: The routines of each call, all of which it needs.
CALLED = {
    "_enqueue": ["enqueue"], "_claim": ["dequeue", "complete"], "_pause": ["pause", "resume"],
    "_read": ["depth"],
}  # fmt: skip


@pytest.mark.parametrize("role", RIGHTS)
def test_a_role_is_asked_for_what_it_is_granted_and_for_what_it_is_not(role: str) -> None:
    allowed, refused = RIGHTS[role]
    for routine in CALLED[allowed.__name__]:
        assert f"rowlease_{role}" in roles_of(routine)
    for call in refused:
        assert f"rowlease_{role}" not in roles_of(CALLED[call.__name__][0])


@pytest.mark.parametrize(
    ("denied", "says"),
    [
        ({"dequeue", "pause"}, None),
        ({"dequeue"}, "it may pause"),
        ({"pause"}, "it may claim"),
        ({"enqueue_many", "dequeue", "pause"}, "it may not enqueue"),
    ],
)
def test_a_role_with_more_or_fewer_rights_is_found(
    denied: set[str], says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mock.MagicMock()
    for name in denied:
        getattr(store, name).side_effect = AccessDenied("no")
    monkeypatch.setattr("rowlease.verify.rights.open_store", lambda *_, **__: store)
    check = rights_of("producer", "mssql://u:p@h/db")
    if says is None:
        assert check(mock.Mock()) == "it may enqueue, and nothing of the other roles"
    else:
        with pytest.raises(Broken, match=says):
            check(mock.Mock())


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [
        (("1", "0"), "passed"),
        (("1", "1"), "failed"),
        (("0", "0"), "failed"),
        ((None, "0"), "failed"),
    ],
)
def test_all_checks_are_made_in_both_databases(
    settings: tuple[Any, Any], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [
        VerifyReport(
            name, "0.1", datetime.now(UTC), {"read committed snapshot": value} if value else {},
            [Result("order", result, "", 0.0)],
        )
        for name, value, result in zip("ab", settings, ("passed", "failed"), strict=True)
    ]  # fmt: skip
    monkeypatch.setattr(verify, "_verified", mock.Mock(side_effect=reports))
    report = verify.verify("a", blocking_dsn="b")
    assert [(each.check, each.outcome) for each in report.results] == [
        ("order", "passed"), ("with blocking reads: order", "failed"),
        ("the pair of databases", outcome),
    ]  # fmt: skip
    assert not report.is_sound
