"""The contract suite's fixtures.

Every test of this folder takes `store`, which is a store on one connection of its own; further
ones come from `another()`. The engine is a parameter: a test asks for a capability
(`store.can_notify`), never for an engine. A test for one engine alone is marked `only_on`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.contract import engines, sessions, sqlserver
from tests.contract.sessions import EMPTIED, SERVERS, Clock, PostgresSession, Session

SESSIONS: dict[str, Callable[[str], Session]] = {
    "postgresql": PostgresSession,
    "sqlserver": sqlserver.MssqlSession,
}
EMPTIED["sqlserver"] = sqlserver.emptied


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "[sqlserver" in item.nodeid:
            item.add_marker(pytest.mark.timeout(3600))  # some engines make temporary tables slowly
        found = getattr(item, "callspec", None)
        if found is None or "engine" not in found.params:
            continue
        for mark in item.iter_markers("only_on"):
            (name,), why = mark.args, mark.kwargs["why"]
            if found.params["engine"] != name:
                item.add_marker(pytest.mark.skip(reason=f"only on {name}: {why}"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    both = any(metafunc.definition.iter_markers("both_ways"))
    if both and "store" in metafunc.fixturenames:
        floors = pytest.mark.only_on("postgresql", why="there alone are scan floors")
        metafunc.parametrize(
            "with_floors",
            [pytest.param(False, id=""), pytest.param(True, id="floors", marks=floors)],
            indirect=True,
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if stale := engines.stale():
        terminalreporter.write_line(stale, yellow=True)


@pytest.fixture(scope="session", params=engines.available())
def engine(request: pytest.FixtureRequest) -> str:
    """The engine under test."""
    return str(request.param)


@pytest.fixture(scope="session")
def sqlserver_dsn() -> Iterator[str]:
    """A SQL Server on which databases may be created."""
    with sqlserver.server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def sqlserver_database(sqlserver_dsn: str) -> Iterator[str]:
    """One migrated database for the whole run: there is no copying of templates."""
    with sqlserver.database(sqlserver_dsn) as dsn:
        yield dsn


module_database, dsn = sessions.module_database, sessions.emptied_database


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def with_floors(request: pytest.FixtureRequest) -> bool:
    """Do all claims begin with a scan floor? They then never go the plain way (PostgreSQL)."""
    return bool(getattr(request, "param", False))


@pytest.fixture
def another(
    engine: str, dsn: str, clock: Clock, with_floors: bool
) -> Iterator[Callable[[], Session]]:
    """Opens one more session on the test's database, with the test's frozen time."""
    with ExitStack() as stack:

        def session() -> Session:
            opened = SESSIONS[engine](dsn)
            stack.callback(opened.close)
            if engine not in SERVERS:
                SERVERS[engine] = opened.version()
            opened.freeze(clock.now)
            opened.with_floors = with_floors
            clock.sessions.append(opened)
            return opened

        yield session


@pytest.fixture
def store(another: Callable[[], Session]) -> Session:
    """The test's first session."""
    return another()
