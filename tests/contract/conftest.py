"""The contract suite's fixtures.

Every test of this folder takes `store`, which is a store on one connection of its own; further
ones come from `another()`. The engine is a parameter: a test asks for a capability
(`store.can_notify`), never for an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.contract.sessions import Clock, PostgresSession, Session


@pytest.fixture(params=["postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine under test."""
    return str(request.param)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def another(engine: str, dsn: str, clock: Clock) -> Iterator[Callable[[], Session]]:
    """Opens one more session on the test's database, with the test's frozen time."""
    with ExitStack() as stack:

        def session() -> Session:
            opened = PostgresSession(dsn)
            stack.callback(opened.close)
            opened.freeze(clock.now)
            clock.sessions.append(opened)
            return opened

        yield session


@pytest.fixture
def store(another: Callable[[], Session]) -> Session:
    """The test's first session."""
    return another()
