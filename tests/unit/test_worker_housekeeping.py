from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from rowlease.errors import AccessDenied, StoreUnavailable
from rowlease.worker import housekeeping as module
from rowlease.worker.housekeeping import Housekeeping


class Records:
    """A store that remembers its calls, and a clock that each wait moves."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.calls: list[str] = []
        self.beats: list[dict[str, Any]] = []
        self.rounds: list[float] = []
        self.errors: dict[int, Exception] = {}

    def maintain(self) -> None:
        self.calls.append("maintain")
        self.rounds.append(self.time)
        if error := self.errors.get(len(self.rounds)):
            raise error

    def worker_heartbeat(self, worker_id: str, **given: Any) -> None:
        self.calls.append("heartbeat")
        self.beats.append({"worker_id": worker_id, "at": self.time, **given})

    def worker_bye(self, worker_id: str) -> None:
        self.calls.append("bye")
        raise StoreUnavailable

    def wait(self, pause: float) -> bool:
        self.time += pause
        return len(self.rounds) == 12


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Records:
    store = Records()
    monkeypatch.setattr(module, "now", lambda: store.time)
    return store


def keeping(store: Records, busy: int = 1) -> Housekeeping:
    this: Any = store
    house = Housekeeping(this, "w", ["a", "b"], slots=4, busy=lambda: busy, consumer_priority=7)
    house._stopped = this
    return house


@pytest.mark.parametrize(("busy", "pause"), [(1, 1.0), (0, 2.0)])
def test_it_maintains_every_second_and_less_often_when_idle(
    store: Records, busy: int, pause: float
) -> None:
    keeping(store, busy).run()
    gaps = [later - earlier for earlier, later in zip(store.rounds, store.rounds[1:], strict=False)]
    assert all(0.8 * pause <= gap <= 1.2 * pause for gap in gaps)
    assert len(set(gaps)) > 1  # jittered


def test_it_says_what_the_worker_is_every_five_seconds_and_bye_at_the_end(store: Records) -> None:
    keeping(store).run()
    first, second, *_ = store.beats
    assert first["at"] == 1000.0
    assert 4.5 <= second["at"] - first["at"] <= 6.7
    assert (first["worker_id"], first["queues"], first["slots"]) == ("w", ["a", "b"], 4)
    assert (first["busy"], first["consumer_priority"]) == (1, 7)
    assert (first["host"], first["pid"]) == (socket.gethostname(), os.getpid())
    assert store.calls[0] == "heartbeat"
    assert store.calls[-1] == "bye"


def test_a_database_that_is_away_is_left_alone_until_the_next_time(store: Records) -> None:
    store.errors = {3: StoreUnavailable(), 5: AccessDenied("no")}
    with pytest.raises(AccessDenied):
        keeping(store).run()
    assert len(store.rounds) == 5
