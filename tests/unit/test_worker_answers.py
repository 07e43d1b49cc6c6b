"""The buffer in shared memory through which a child process answers."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowlease.lifespans import Shared
from rowlease.worker.slots import shared_memory, wire
from rowlease.worker.slots.shared_memory import (
    BUFFER_BYTES,
    COUNT,
    MEMORY_BYTES,
    PUT,
    TAKEN,
    SharedMemory,
    SharedMemoryView,
)


@contextmanager
def both_sides() -> Iterator[tuple[SharedMemory, SharedMemoryView]]:
    """The worker's side and the child's."""
    worker = SharedMemory()
    mapped = mmap.mmap(worker.fd, MEMORY_BYTES)
    memory = memoryview(mapped)
    yield worker, SharedMemoryView(memory, memory.cast("Q"), memory.cast("d"), Shared(""))
    os.close(worker.fd)


sizes = st.integers(0, 4000)


@settings(deadline=None)
@given(
    batches=st.lists(st.lists(sizes, max_size=40), max_size=40),
    begins_at=st.sampled_from([0, COUNT - 5, BUFFER_BYTES - 1]),
)
def test_answers_come_out_whole_and_in_order(batches: list[list[int]], begins_at: int) -> None:
    number = 0
    with both_sides() as (worker, child):
        worker._marks[PUT] = worker._marks[TAKEN] = begins_at
        for batch in batches:
            put = []
            for size in batch:
                answer = (number, wire.DONE, 0.5, bytes([number % 256]) * size)
                if child.put(wire.answer(*answer)):
                    put.append(answer)
                    number += 1
            assert worker.has_answers is bool(put)
            assert wire.answers_of(*worker.take_answers()) == put
            assert not worker.has_answers


def test_a_full_buffer_takes_nothing_and_loses_nothing() -> None:
    answer = wire.answer(1, wire.DONE, 0.0, b"x" * 1000)
    with both_sides() as (worker, child):
        num_put = 0
        while child.put(answer):
            num_put += 1
        assert num_put == BUFFER_BYTES // len(answer)
        assert len(wire.answers_of(*worker.take_answers())) == num_put
        assert child.put(answer)
        assert not child.put(b"x" * (BUFFER_BYTES + 1))


def test_a_child_wakes_its_worker_once_in_each_wait() -> None:
    with both_sides() as (worker, child):
        assert not child.must_wake()
        for _ in range(2):
            worker.begin_wait()
            assert [child.must_wake(), child.must_wake()] == [True, False]
            worker.end_wait()
            assert not child.must_wake()


def test_without_ordered_writes_there_is_no_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "HAS_BUFFER", False)
    with both_sides() as (_, child):
        assert not child.put(b"x")


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xc1" * 40, wire.answer(1, 9)])
def test_garbage_is_no_answer(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        wire.answer_of(data)
    with pytest.raises(ValueError, match=r".*"):
        wire.answers_of(data, 1)


def test_a_frame_is_read_when_all_of_it_is_there() -> None:
    data = wire.frame(b"one") + wire.frame(b"") + wire.frame(b"three")
    buffer = bytearray()
    found: list[bytes] = []
    for byte in data:
        buffer.append(byte)
        found += wire.frames(buffer)
    assert found == [b"one", b"", b"three"]
    assert buffer == b""


def test_a_frame_that_is_too_large_is_garbage() -> None:
    with pytest.raises(ValueError, match=r".*"):
        list(wire.frames(bytearray(b"\xff" * 8)))
