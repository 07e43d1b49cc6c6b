"""sql/sqlserver/catalogue.json is what the scripts declare."""

from __future__ import annotations

import pytest

from rowlease.store.differences import read_catalogue
from tests.migrations.catalogue import declared
from tests.tsql import scriptdom

pytestmark = pytest.mark.skipif(
    scriptdom.missing() is not None, reason=scriptdom.missing() or "it is there"
)


def test_the_release_ships_the_catalogue_that_the_scripts_declare() -> None:
    assert declared() == read_catalogue("sqlserver"), "python -m tests.migrations.catalogue"
