"""A wrong password is a mistake, which no later try mends: the first call says so at once."""

from __future__ import annotations

from contextlib import closing

import pytest
import sqlalchemy as sa

from rowlease.errors import AccessDenied
from rowlease.store import open_store
from tests.contract.sessions import Session


@pytest.mark.only_on(
    "postgresql", why="tests/tsql/test_odbc_driver.py refuses logins on SQL Server"
)
def test_a_wrong_password_is_refused_at_once(store: Session, dsn: str) -> None:
    url = sa.make_url(dsn).set(password="wrong")
    wrong = url.render_as_string(hide_password=False)
    with closing(open_store(wrong)) as refused, pytest.raises(AccessDenied) as raised:
        refused.depth()
    assert not raised.value.transient
    assert "check the user and the password of the DSN" in str(raised.value)
