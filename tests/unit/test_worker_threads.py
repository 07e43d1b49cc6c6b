"""The threads of a worker, and the errors that end them."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from rowlease.worker.components import Threads


def fail(error: Exception) -> None:
    raise error


def test_the_first_error_is_kept_and_reported() -> None:
    failures: list[int] = []
    threads = Threads(failed=lambda: failures.append(1))
    first = ValueError("first")
    threads.start("one", fail, first)
    assert threads.has_ended("one", 60)
    threads.start("two", fail, ValueError("second"))
    assert threads.has_ended("two", 60)
    assert threads.error is first
    assert len(failures) == 2


def test_the_wait_for_a_thread_ends_in_time() -> None:
    threads, may_end = Threads(failed=lambda: None), Event()
    threads.start("slow", may_end.wait, 60)
    assert not threads.has_ended("slow", 0.0)
    may_end.set()
    assert threads.has_ended("slow", 60)
    assert threads.error is None


def test_several_threads_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their supervisor allows for one, and kills the worker after it."""
    threads, may_end = Threads(failed=lambda: None), Event()
    time, limits = [100.0], list[float | None]()

    def join(thread: Thread, within: float | None = None) -> None:
        limits.append(within)
        time[0] += within or 0.0

    for name in ("one", "two", "three"):
        threads.start(name, may_end.wait, 60)
    monkeypatch.setattr("rowlease.worker.components.now", lambda: time[0])
    with monkeypatch.context() as patched:
        patched.setattr(Thread, "join", join)
        threads.wait(("one", "two", "three"), 5.0)
    assert limits == [5.0, 0.0, 0.0]
    may_end.set()
    threads.wait(("one", "two", "three", "listener"), 60)
    assert all(threads.has_ended(name, 0.0) for name in ("one", "two", "three"))


def test_a_thread_that_never_started_has_ended() -> None:
    assert Threads(failed=lambda: None).has_ended("listener", 60)
