"""Every call to SQL Server ends in time: Microsoft's own driver, and a server that goes silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from time import monotonic

import pytest

from rowlease.errors import ConfigError, StoreTimeout, StoreUnavailable
from rowlease.store import Store, open_store
from rowlease.store.sqlserver.connection import driver, pyodbc
from tests.silent_tds import ATTENTION, BATCH, LOGIN, PRELOGIN, RPC, SilentServer

try:
    pyodbc()
    driver()
except ConfigError as error:
    pytest.skip(str(error), allow_module_level=True)

SHORT = timedelta(seconds=2)
#: Seconds within which a call with the deadline SHORT has ended, on a machine that is busy; the
#: driver itself would take longer.
SOON = 5.0
STATEMENTS = {BATCH, RPC}


@pytest.fixture
def server() -> Iterator[SilentServer]:
    with SilentServer() as running:
        yield running


@pytest.fixture
def store(server: SilentServer) -> Iterator[Store]:
    with closing(open_store(server.dsn)) as opened:
        opened.depth()
        yield opened


def test_a_call_that_is_not_answered_ends_and_the_next_one_uses_a_new_connection(
    store: Store, server: SilentServer
) -> None:
    server.deaf_to = STATEMENTS | {ATTENTION}
    began = monotonic()
    with pytest.raises(StoreTimeout, match=r"did not answer within 2 s.* not known") as raised:
        store.within(SHORT).depth()
    assert monotonic() - began < SOON
    assert raised.value.maybe_done
    server.deaf_to = set()
    logins = server.heard.count(LOGIN)
    assert store.depth() == []
    assert server.heard.count(LOGIN) == logins + 1


def test_the_server_is_asked_to_stop_what_was_given_up(store: Store, server: SilentServer) -> None:
    server.deaf_to = STATEMENTS
    with pytest.raises(StoreTimeout):
        store.within(SHORT).depth()
    began = monotonic()
    while ATTENTION not in server.heard:
        assert monotonic() - began < 10


@pytest.mark.parametrize("deaf_to", [{PRELOGIN}, {LOGIN}, STATEMENTS], ids=lambda kinds: str(kinds))
def test_a_server_that_is_silent_before_or_after_the_login_is_given_up(
    deaf_to: set[int], server: SilentServer
) -> None:
    server.deaf_to = deaf_to | {ATTENTION}
    with closing(open_store(server.dsn, call_timeout=SHORT)) as store:
        began = monotonic()
        with pytest.raises(StoreUnavailable, match=r"no connection within (2|1\.\d) s") as raised:
            store.depth()
        assert monotonic() - began < SOON
        assert not raised.value.maybe_done


def test_calls_of_other_threads_go_on_beside_one_that_hangs(
    store: Store, server: SilentServer
) -> None:
    server.deaf_to = STATEMENTS | {ATTENTION}
    with pytest.raises(StoreTimeout):
        store.within(SHORT).depth()
    server.deaf_to = set()
    for _ in range(20):  # the driver is still waiting for the first one
        assert store.within(SHORT).depth() == []
