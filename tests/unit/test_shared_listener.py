"""One session that listens for all who wait."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from rowlease.store.notice import Notice
from rowlease.store.shared_listener import SharedListener
from tests.waiting import until


class Channel:
    """A session that hears what a test says; `lost` ends it."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.may_open = threading.Event()
        self.may_open.set()

    def __call__(self) -> Channel:
        self.may_open.wait(60)
        self.opened += 1
        return self

    def heard(self, seconds: float) -> list[str]:
        try:
            message = self.said.get(timeout=seconds)
        except queue.Empty:
            return []
        if message == "lost":
            raise OSError("the session is lost")
        return [message]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def channel() -> Channel:
    return Channel()


@pytest.fixture
def listener(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedListener]:
    monkeypatch.setattr("rowlease.store.shared_listener.REOPEN_SECONDS", 0.01)
    monkeypatch.setattr("rowlease.store.shared_listener.WAKE_ALL_AFTER", ())
    made = SharedListener(channel, lambda: True)
    yield made
    made.close()


def is_woken(notice: Notice) -> bool:
    notice.wait(60)
    return notice.is_set


def test_only_those_who_wait_for_it_are_woken(listener: SharedListener, channel: Channel) -> None:
    with listener.expecting("1") as one, listener.expecting("1") as too:
        with listener.expecting("2") as two:
            channel.said.put("7 1 8")
            assert is_woken(one)
            assert is_woken(too)
            assert not two.is_set
        assert listener.num_waiting == 1
    assert listener.num_waiting == 0
    assert channel.opened == 1


def test_a_name_may_have_spaces(listener: SharedListener, channel: Channel) -> None:
    with listener.expecting("my queue") as mine:
        channel.said.put("my queue")
        assert is_woken(mine)


def test_everybody_looks_once_it_listens(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = SharedListener(channel, lambda: True)
    channel.may_open.clear()
    with listener.expecting("1") as one:
        assert not listener.is_listening
        assert not one.is_set
        channel.may_open.set()
        assert is_woken(one)
        until(lambda: listener.is_listening)
    listener.close()


def test_the_session_ends_when_nobody_waits(
    listener: SharedListener, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlease.store.shared_listener.UNUSED_SESSION_SECONDS", 0.0)
    for times in (1, 2):
        with listener.expecting("1") as one:
            channel.said.put("1")
            assert is_woken(one)
        until(lambda times=times: channel.closed == times)  # type: ignore[misc]
        until(lambda: not listener.is_listening)
    assert channel.opened == 2


def test_those_who_wait_one_after_the_other_share_a_session(
    listener: SharedListener, channel: Channel
) -> None:
    for _ in range(5):
        with listener.expecting("1") as one:
            channel.said.put("1")
            assert is_woken(one)
    assert channel.opened == 1


def test_a_session_that_was_lost_is_opened_again(
    listener: SharedListener, channel: Channel
) -> None:
    with listener.expecting("1") as one:
        until(lambda: listener.is_listening)
        channel.said.put("lost")
        assert is_woken(one)  # it looks, for what came in between
        with listener.expecting("1") as again:
            until(lambda: channel.opened == 2)
            channel.said.put("1")
            assert is_woken(again)


def test_where_no_notifications_come_nobody_listens(channel: Channel) -> None:
    listener = SharedListener(channel, lambda: False)
    with listener.expecting("1") as one:
        assert not listener.is_listening
        assert not one.is_set
    assert channel.opened == 0


def test_a_closed_one_ends_its_session_and_opens_no_other(
    listener: SharedListener, channel: Channel
) -> None:
    with listener.expecting("1"):
        until(lambda: listener.is_listening)
        listener.close()
        assert channel.closed == 1
        with listener.expecting("2"):
            pass
    assert channel.opened == 1


def test_a_caller_that_was_interrupted_keeps_no_session_open(
    listener: SharedListener, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowlease.store.shared_listener.UNUSED_SESSION_SECONDS", 0.0)
    listener._notices._waiting["0"] = set()  # what is left of its wait
    with listener.expecting("1"):
        until(lambda: listener.is_listening)
    until(lambda: channel.closed == 1)
