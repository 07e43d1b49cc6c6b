"""Every call to SQL Server ends in time: Microsoft's own driver, and a server that goes silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from time import monotonic

import pytest

from rowlease.errors import StoreTimeout, StoreUnavailable
from rowlease.store import Store, open_store
from tests.tsql import unixodbc
from tests.tsql.fake_server import FakeServer
from tests.tsql.tds import Kind

pytestmark = unixodbc.needed()
SHORT = timedelta(seconds=2)
#: Seconds within which a call with the deadline SHORT has ended, on a machine that is busy; the
#: driver itself would take longer.
SOON = 5.0
STATEMENTS: set[int] = {Kind.BATCH, Kind.RPC}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def store(server: FakeServer) -> Iterator[Store]:
    with closing(open_store(server.dsn)) as opened:
        opened.depth()
        yield opened


def test_a_call_that_is_not_answered_ends_and_the_next_one_uses_a_new_connection(
    store: Store, server: FakeServer
) -> None:
    server.deaf_to = STATEMENTS | {Kind.ATTENTION}
    began = monotonic()
    with pytest.raises(StoreTimeout, match=r"did not answer within 2 s.* not known") as raised:
        store.within(SHORT).depth()
    assert monotonic() - began < SOON
    assert raised.value.maybe_done
    server.deaf_to = set()
    logins = server.heard(Kind.LOGIN)
    assert store.depth() == []
    assert server.heard(Kind.LOGIN) == logins + 1


def test_the_server_is_asked_to_stop_what_was_given_up(store: Store, server: FakeServer) -> None:
    server.deaf_to = STATEMENTS
    with pytest.raises(StoreTimeout):
        store.within(SHORT).depth()
    began = monotonic()
    while not server.heard(Kind.ATTENTION):
        assert monotonic() - began < 10


@pytest.mark.parametrize("deaf_to", [{Kind.PRELOGIN}, {Kind.LOGIN}, STATEMENTS], ids=str)
def test_a_server_that_is_silent_before_or_after_the_login_is_given_up(
    deaf_to: set[int], server: FakeServer
) -> None:
    server.deaf_to = deaf_to | {Kind.ATTENTION}
    with closing(open_store(server.dsn, call_timeout=SHORT)) as store:
        began = monotonic()
        with pytest.raises(StoreUnavailable, match=r"no connection within (2|1\.\d) s") as raised:
            store.depth()
        assert monotonic() - began < SOON
        assert not raised.value.maybe_done


def test_calls_of_other_threads_go_on_beside_one_that_hangs(
    store: Store, server: FakeServer
) -> None:
    server.deaf_to = STATEMENTS | {Kind.ATTENTION}
    with pytest.raises(StoreTimeout):
        store.within(SHORT).depth()
    server.deaf_to = set()
    for _ in range(20):  # the driver is still waiting for the first one
        assert store.within(SHORT).depth() == []
