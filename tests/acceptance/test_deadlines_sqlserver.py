"""Every call to SQL Server may take its time, and ends in time: with Microsoft's own driver.

`ROWLEASE_DEADLINES=1 pytest -s tests/acceptance/test_deadlines_sqlserver.py` is the long form: with
the deadlines and the slow answers of a real server, in 4 minutes. The short form has a fifth of
them, and of those that take long, none.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

from rowlease.errors import StoreTimeout, StoreUnavailable
from rowlease.model import NewRequest, Outcome
from rowlease.store import Store, deadlines, open_store
from rowlease.store.sqlserver.store import MAX_CURSORS
from tests.tsql import unixodbc
from tests.tsql.fake_server import Failure, FakeServer, Late, Rows
from tests.tsql.tds import Kind
from tests.waiting import until

pytestmark = unixodbc.needed()
SHORT = timedelta(seconds=2)
#: Seconds within which a call with the deadline SHORT has ended, on a machine that is busy; the
#: driver itself would take longer.
SOON = 5.0
#: The part of the true deadlines and answers with which this runs.
SCALE = float(os.environ.get("ROWLEASE_DEADLINES", "0.2"))
#: Seconds that one answer takes at most in the short form.
SLOWEST = 5.0
#: A call that takes long, its answer, and what the store makes of it.
Slow = tuple[Callable[[Store], Any], Rows, Any]
DEPTH: Slow = (lambda store: store.depth()[0].pending, Rows(("default", 0, 0, 5, 0, 0)), 5)
PROMOTE: Slow = (
    lambda store: store.promote("x", 1, 1).outcome, Rows(("ok", 1, 0, 0, 0)), Outcome.OK
)  # fmt: skip
RECOUNT: Slow = (lambda store: store.recount(), Rows(columns=[("queue_name", "nvarchar(400)")]), [])
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
    until(lambda: server.heard(Kind.ATTENTION), 10)


@pytest.mark.parametrize("deaf_to", [{Kind.PRELOGIN}, {Kind.LOGIN}, STATEMENTS], ids=str)
def test_a_server_that_is_silent_before_or_after_the_login_is_given_up(
    deaf_to: set[int], server: FakeServer
) -> None:
    server.deaf_to = deaf_to | {Kind.ATTENTION}
    sooner = SHORT / 2  # than the driver, which gives up a login after the scaled CONNECT
    with closing(open_store(server.dsn, call_timeout=sooner)) as store:
        began = monotonic()
        with pytest.raises(StoreUnavailable, match=r"no connection within (1|0\.\d) s") as raised:
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


# -- calls that take long --------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All deadlines are shorter, in proportion."""
    monkeypatch.setattr(deadlines, "LOCK", deadlines.LOCK * SCALE)
    monkeypatch.setattr(deadlines, "CONNECT", round(deadlines.CONNECT * SCALE))
    for routine, deadline in deadlines.LONG.items():
        monkeypatch.setitem(deadlines.LONG, routine, deadline * SCALE)


@contextmanager
def opened(server: FakeServer, call_timeout: float) -> Iterator[Store]:
    """A store with one connection, on which a call with its plain deadline was made."""
    scaled = timedelta(seconds=call_timeout) * SCALE
    with closing(open_store(server.dsn, call_timeout=scaled)) as store:
        store.within(timedelta(seconds=30)).depth()
        store.depth()
        server.forget()
        yield store


def slow_answers() -> Iterator[Any]:
    """A call, the default deadline of its store, and the seconds until its answer."""
    for name, slow, call_timeout, after in (
        ("depth", DEPTH, 30, 12), ("promote", PROMOTE, 10, 12), ("recount", RECOUNT, 10, 12),
        ("promote", PROMOTE, 30, 60), ("recount", RECOUNT, 30, 40),
    ):  # fmt: skip
        is_long = after * SCALE > SLOWEST and SCALE < 1
        marks = [pytest.mark.skip(reason="long form: ROWLEASE_DEADLINES=1")] if is_long else []
        yield pytest.param(slow, call_timeout, after, id=f"{name} {after} s", marks=marks)


@pytest.mark.parametrize(("slow", "call_timeout", "after"), [*slow_answers()])
def test_a_call_may_take_until_its_own_deadline(
    slow: Slow, call_timeout: int, after: int, server: FakeServer
) -> None:
    call, answer, expected = slow
    with opened(server, call_timeout) as store:
        server.answer("exec rowlease", (Late(after * SCALE), answer))
        assert call(store) == expected
    assert len(server.requests) == 1
    assert not server.heard(Kind.ATTENTION)


@pytest.mark.parametrize(
    ("slow", "call_timeout", "own"),
    [(DEPTH, 5, 5), (DEPTH, 15, 15), (PROMOTE, 5, 15), (RECOUNT, 5, 15)],
    ids=("depth 5 s", "depth 15 s", "promote", "recount"),
)
def test_a_call_that_is_never_answered_ends_at_its_own_deadline(
    slow: Slow, call_timeout: int, own: int, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, *_ = slow
    long = dict.fromkeys(deadlines.LONG, timedelta(seconds=own) * SCALE)
    monkeypatch.setattr(deadlines, "LONG", long)
    with opened(server, call_timeout) as store:
        server.answer("exec rowlease", Late(3600))
        limit = own * SCALE
        began = monotonic()
        with pytest.raises(StoreTimeout, match=f"did not answer within {limit:.3g} s") as raised:
            call(store)
        assert limit <= monotonic() - began < limit + SOON
        assert raised.value.maybe_done
        until(lambda: server.heard(Kind.ATTENTION), SOON)  # the server is asked to stop


@pytest.mark.parametrize("call_timeout", [5, 10, 30, 300])
def test_a_lock_that_is_not_granted_is_a_conflict_before_the_deadline(
    call_timeout: int, server: FakeServer
) -> None:
    """The call is repeated: nothing was done, which a call that timed out does not know."""
    with opened(server, call_timeout) as store:
        server.answer("exec rowlease.depth", *[Failure(1222)] * 2, Rows(("default", 0, 0, 5, 0, 0)))
        assert store.depth()[0].pending == 5
    limit = math.ceil(call_timeout * SCALE)
    calls = [one.text for one in server.requests if "rowlease.depth" in one.text]
    waits = [re.match(r"set lock_timeout (\d+); exec rowlease\.depth", text) for text in calls]
    assert len(waits) == 3
    assert all(0 < int(ms[1]) <= min(10_000 * SCALE, 334 * limit) for ms in waits if ms)
    assert all(waits)


def test_an_enqueue_that_waits_for_a_lock_in_vain_is_made_again(server: FakeServer) -> None:
    with opened(server, 30) as store:
        server.answer(
            "exec rowlease.enqueue ", (Late(10 * SCALE), Failure(1222)), Rows((7, "ok", 1))
        )
        (found,) = store.enqueue_many("default", [NewRequest(kind="a")])
    assert found.outcome == Outcome.OK
    assert not server.heard(Kind.ATTENTION)


def test_a_connection_keeps_a_few_cursors_however_many_deadlines_there_are(
    store: Store, server: FakeServer
) -> None:
    server.forget()
    for seconds in range(1, 3 * MAX_CURSORS):
        store.within(timedelta(seconds=seconds)).depth()
    assert server.heard(Kind.LOGIN) == 0
    connection = store._pool._idle[-1][1]  # type: ignore[attr-defined]
    assert len(connection._cursors) == MAX_CURSORS
