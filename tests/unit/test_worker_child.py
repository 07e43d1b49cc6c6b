"""The child's side of the pipe, in this process."""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import pytest

from rowlease.context import Context, current
from rowlease.errors import DeadLetter, Retry, SoftTimeLimitExceeded
from rowlease.tasks import Task
from rowlease.worker import child
from rowlease.worker.child import now


class Wordless(Exception):
    def __str__(self) -> str:
        raise MemoryError


class Nameless(Exception):
    """Not even its arguments can be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


def as_task(call: Any, **settings: Any) -> Task:
    """A task that gets the payload as it came."""
    made = Task(call if inspect.isroutine(call) else lambda: None, "a", **settings)
    made.run = call  # type: ignore[method-assign]
    return made


def run(call: Any, payload: bytes = b"{}") -> tuple[int, str]:
    code, body = child.run(as_task(call), payload)
    return code, body.decode()


def raising(error: BaseException) -> Any:
    def call(payload: str) -> None:
        raise error

    return call


def test_an_outcome_says_what_became_of_the_call() -> None:
    assert run(lambda payload: None) == (child.DONE, "")
    assert run(lambda payload: payload.upper(), '"ä"'.encode()) == (child.DONE, '"Ä"')
    assert run(raising(DeadLetter("give up"))) == (child.DEAD, "give up")
    code, body = child.run(as_task(raising(Retry("later"))), b"")
    assert (code, body[8:]) == (child.RETRY, b"later")
    assert math.isnan(child.SECONDS.unpack_from(body)[0])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no"), "ValueError: no\n\nTraceback (most recent call last):\n"),
        (KeyboardInterrupt(), "KeyboardInterrupt\n\nTraceback"),
        (SystemExit(3), "SystemExit: 3\n\nTraceback"),
        (Wordless(), "test_worker_child.Wordless: <exception str() failed>"),
        (Nameless(), "Nameless (describing it raised ValueError)"),
        (Retry(after=5), "AttributeError: 'int' object has no attribute 'total_seconds'"),  # type: ignore[arg-type]
        (ValueError("\udc80"), "ValueError: \\udc80"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_raised_becomes_text(error: BaseException, said: str) -> None:
    code, text = run(raising(error))
    assert code == child.FAILED
    assert said in text


def test_a_traceback_begins_with_the_task() -> None:
    _, text = run(raising(ValueError("no")))
    assert text.count("File ") == 1
    assert "in call" in text


def test_a_long_story_is_cut_to_its_first_words_and_its_last() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("x" * 50_000)
        deep(n - 1)

    code, text = run(lambda payload: deep(500))
    assert code == child.FAILED
    assert len(text) == child.MAX_ERROR
    assert text.startswith("ValueError: xxx")


def test_an_endless_recursion_is_a_failure() -> None:
    def endless(payload: str) -> None:
        endless(payload)

    assert run(endless)[1].startswith("RecursionError: maximum recursion depth exceeded")


def test_what_a_task_says_of_its_progress_is_read_from_the_shared_memory() -> None:
    with a_line() as line:
        line.send(b"1", b"2", b"3")
        seen = []
        long = "\u00e9" * child.MAX_NOTE

        def call(payload: str) -> None:
            told = {"1": (0.5, "half"), "2": (7.0, long)}.get(payload)
            if told:
                current().progress(*told)
            turn, number, size = (
                line.marks[at] for at in (child.TURN, child.SAID_BY, child.NOTE_BYTES)
            )
            note = bytes(line.memory[child.NOTE_AT : child.NOTE_AT + size])
            fraction = line.memory.cast("d")[child.FRACTION]
            seen.append((turn, number, fraction, note))

        line.serve(call)
    cut = long.encode()[: child.MAX_NOTE]
    assert seen == [(2, 1, 0.5, b"half"), (4, 2, 1.0, cut), (4, 2, 1.0, cut)]


class Line:
    """Both ends of the pipes and the shared memory of a child that runs here."""

    def __init__(self) -> None:
        self.requests, self.worker = os.pipe()
        self.outcomes_in, self.outcomes = os.pipe()
        self.memory = memoryview(bytearray(child.MEMORY_BYTES))
        self.marks = self.memory.cast("Q")

    def send(self, *payloads: bytes, ends: float = math.inf) -> None:
        frames = (child.REQUEST.pack(len(text), 0, ends, 7, 2, 5) + text for text in payloads)
        os.write(self.worker, b"".join(frames))

    def serve(self, call: Any) -> list[tuple[int, bytes]]:
        os.close(self.worker)
        # In a context of its own: what runs there must not seem to run in the next test.
        copy_context().run(
            child.serve,
            [as_task(call)],
            child.read_frames(self.requests),
            self.outcomes,
            self.memory,
        )
        data = os.read(self.outcomes_in, 1 << 16)
        answers = []
        while data:
            size, code, _ = child.OUTCOME.unpack_from(data)
            end = child.OUTCOME.size + size
            answers.append((code, data[child.OUTCOME.size : end]))
            data = data[end:]
        return answers


@contextmanager
def a_line() -> Iterator[Line]:
    one = Line()
    yield one
    for fd in (one.requests, one.outcomes_in, one.outcomes):
        os.close(fd)


def test_requests_are_run_in_order_and_each_is_marked_before_it_runs() -> None:
    with a_line() as line:
        line.send(b"1", b"2", b"", b"x" * 10_000)
        seen = []

        def call(payload: str) -> str:
            seen.append(line.marks[child.BEGUN])
            return payload

        answers = line.serve(call)
    assert answers == [(child.DONE, text) for text in (b"1", b"2", b"", b"x" * 10_000)]
    assert seen == [1, 2, 3, 4]


def test_what_was_taken_back_is_not_run() -> None:
    with a_line() as line:
        line.send(b"1", b"2", b"3", b"4")
        line.marks[child.TAKEN_FROM] = 2
        line.marks[child.TAKEN_TO] = 3
        answers = line.serve(lambda payload: payload)
    assert [code for code, _ in answers] == [child.DONE, child.NOT_RUN, child.NOT_RUN, child.DONE]


def test_what_is_taken_back_while_a_task_runs_is_not_run() -> None:
    with a_line() as line:
        line.send(b"1", b"2")

        def call(payload: str) -> None:
            line.marks[child.TAKEN_FROM] = line.marks[child.BEGUN] + 1
            line.marks[child.TAKEN_TO] = 2

        answers = line.serve(call)
    assert [code for code, _ in answers] == [child.DONE, child.NOT_RUN]


def test_a_process_that_a_task_forked_ends_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ended(Exception): ...

    def end(code: int) -> None:
        raise Ended

    with a_line() as line:
        line.send(b"1", b"2")
        monkeypatch.setattr(os, "_exit", end)
        with pytest.raises(Ended):
            line.serve(lambda payload: monkeypatch.setattr(os, "getpid", lambda: -1))
        os.set_blocking(line.outcomes_in, False)
        with pytest.raises(BlockingIOError):
            os.read(line.outcomes_in, 1)


def test_a_request_whose_lease_is_over_is_not_run() -> None:
    with a_line() as line:
        line.send(b"late", ends=now() - 0.001)
        line.send(b"good", ends=now() + 60)
        answers = line.serve(lambda payload: payload)
    assert answers == [(child.NOT_RUN, b""), (child.DONE, b"good")]


def test_a_task_can_ask_about_its_attempt() -> None:
    seen: list[Context] = []
    asked = []
    with a_line() as line:
        line.send(b"1", b"2", ends=now() + 60)

        def call(payload: str) -> None:
            here = current()
            seen.append(here)
            asked.append([here.should_stop])
            line.marks[child.STOP] = 2
            asked[-1].append(here.should_stop)
            line.memory.cast("d")[child.ENDS] = now() + 90
            left = here.lease_seconds_left
            line.marks[child.PROLONGED] = len(seen)
            assert here.lease_seconds_left > left + 20

        answers = line.serve(call)
    assert [code for code, _ in answers] == [child.DONE, child.DONE]
    assert [(one.request_id, one.attempt, one.max_attempts) for one in seen] == [(7, 2, 5)] * 2
    assert asked == [[False, False], [True, True]]


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, child.FAILED),
        ({"retry_on": OSError}, child.DEAD),
        ({"retry_on": (OSError, LookupError)}, child.FAILED),
        ({"dead_letter_on": KeyError}, child.DEAD),
        ({"dead_letter_on": [LookupError], "retry_on": KeyError}, child.DEAD),
        ({"dead_letter_on": OSError}, child.FAILED),
    ],
)
def test_an_exception_says_whether_another_attempt_helps(
    settings: dict[str, Any], code: int
) -> None:
    found, text = child.run(as_task(raising(KeyError("k")), **settings), b"{}")
    assert (found, text[:12]) == (code, b"KeyError: 'k")


def test_a_task_is_told_in_itself_that_its_soft_time_limit_is_over() -> None:
    tidied = []

    def call(payload: str) -> None:
        try:
            while True:
                time.sleep(60)
        except SoftTimeLimitExceeded:
            tidied.append(payload)
            raise

    limited = as_task(call, soft_time_limit=timedelta(milliseconds=1))
    code, text = child.run(limited, b"{}")
    assert code == child.FAILED
    assert b"SoftTimeLimitExceeded: the task ran past its soft time limit of 0:00:00.001" in text
    assert tidied == ["{}"]
    assert child.run(as_task(lambda payload: None), b"{}") == (child.DONE, b"")
