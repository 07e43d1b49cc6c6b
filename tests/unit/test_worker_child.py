"""The loop of a child process, run in this process."""

from __future__ import annotations

import inspect
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rowlease.clock import now
from rowlease.context import Context, current
from rowlease.errors import DeadLetter, Retry, Snooze, SoftTimeLimitExceeded
from rowlease.lifespans import Shared
from rowlease.model import Failure
from rowlease.tasks.task import Task
from rowlease.worker import attempt
from rowlease.worker.attempt import Ending, NotRun, Returned, SnoozeAsked
from rowlease.worker.slots import child_loop, child_program, shared_memory, wire
from tests.contexts import context_of

GIVEN = wire.GivenRequest(0, math.inf, 7, "mail", 1, 2, 5, None, None, b"{}")
CONTEXT = context_of(GIVEN)


class Wordless(Exception):
    def __str__(self) -> str:
        raise MemoryError


class Nameless(Exception):
    """An exception whose attributes cannot be read."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


def as_task(call: Any, **settings: Any) -> Task[..., Any]:
    """A task that gets the payload as text."""
    function: Callable[..., Any] = call if inspect.isroutine(call) else lambda: None
    made = Task(function, "a", **settings)
    made.run = call  # type: ignore[method-assign]
    return made


def run(call: Any, payload: bytes = b"{}") -> Ending:
    return child_loop.run(as_task(call), CONTEXT, payload)


def failure(call: Any) -> str:
    """The text of a failure after which the request is tried again."""
    ending = run(call)
    assert isinstance(ending, Failure)
    assert (ending.after, ending.dead) == (None, False)
    return ending.error


def raising(error: BaseException) -> Any:
    def call(payload: str) -> None:
        raise error

    return call


def test_a_returned_result_and_a_raised_error_become_outcomes() -> None:
    assert run(lambda payload: None) == Returned(None)
    assert run(lambda payload: payload.upper(), '"ä"'.encode()) == Returned('"Ä"')
    assert run(raising(DeadLetter("give up"))) == Failure("give up", dead=True)
    assert run(raising(Retry("later"))) == Failure("later")
    minute = timedelta(minutes=1)
    assert run(raising(Retry("later", after=minute))) == Failure("later", minute)
    assert run(raising(Snooze(minute, "not ready"))) == SnoozeAsked(minute, "not ready")
    assert run(raising(Snooze(-minute))) == SnoozeAsked(timedelta(0), "")


def test_a_task_may_have_the_same_pause_after_each_failed_attempt() -> None:
    pause, longer = timedelta(seconds=7), timedelta(minutes=1)
    settings: dict[str, Any] = {"retry_pause": pause, "dead_letter_on": KeyError}

    def ending(error: BaseException) -> tuple[Any, ...]:
        ended = child_loop.run(as_task(raising(error), **settings), CONTEXT, b"{}")
        assert isinstance(ended, Failure)
        assert wire.unpacked(*wire.packed(ended)) == ended
        return ended.after, ended.dead

    assert ending(ValueError("no")) == ending(Retry("later")) == (pause, False)
    assert ending(Retry("later", after=longer)) == (longer, False)
    assert ending(KeyError("no")) == ending(DeadLetter("no")) == (None, True)


@pytest.mark.parametrize("made", [Retry, Snooze])
def test_a_pause_that_is_no_timedelta_is_named(made: Any) -> None:
    def ask(_: object) -> None:
        raise made(after=5)

    ended = run(ask)
    assert isinstance(ended, Failure)
    assert "TypeError: after is 5; it must be a timedelta, for example" in ended.error
    assert ended.traceback is not None
    assert "in ask" in ended.traceback


def test_a_snooze_in_a_transaction_takes_a_timedelta() -> None:
    wrong: Any = 5
    connection: Any = object()
    with pytest.raises(TypeError, match="after is 5; it must be a timedelta"):
        CONTEXT.snooze(connection, wrong)
    assert not CONTEXT.has_reported


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no"), "ValueError: no"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SystemExit(3), "SystemExit: 3"),
        (Wordless(), "test_worker_child.Wordless: <exception str() failed>"),
        (Nameless(), "Nameless (describing it raised ValueError)"),
        (ValueError("\udc80"), "ValueError: \\udc80"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_exception_becomes_text(error: BaseException, message: str) -> None:
    assert message in failure(raising(error))


def test_a_traceback_begins_with_the_task() -> None:
    ending = run(raising(ValueError("no")))
    assert isinstance(ending, Failure)
    assert ending.traceback
    assert ending.traceback.count("File ") == 1
    assert "in call" in ending.traceback
    assert ending.traceback.endswith("ValueError: no\n")


def test_an_error_has_the_name_of_its_type() -> None:
    for error, name in [
        (ValueError("no"), "ValueError"),
        (json.JSONDecodeError("no", "", 0), "json.decoder.JSONDecodeError"),
        (Wordless(), "tests.unit.test_worker_child.Wordless"),
    ]:
        ending = run(raising(error))
        assert isinstance(ending, Failure)
        assert ending.error_type == name


def test_a_reason_that_a_task_gives_has_no_type_unless_it_is_an_exception() -> None:
    assert run(raising(Retry("later"))) == Failure("later")
    for asked in (Retry(KeyError("x")), DeadLetter(KeyError("x"))):  # type: ignore[arg-type]
        ending = run(raising(asked))
        assert isinstance(ending, Failure)
        assert (ending.error, ending.error_type) == ("KeyError: 'x'", "KeyError")


def test_a_long_error_is_cut_to_its_beginning_and_its_traceback_to_its_end() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("x" * 50_000)
        deep(n - 1)

    ending = run(lambda payload: deep(500))
    assert isinstance(ending, Failure)
    assert ending.traceback
    assert len(ending.error) == attempt.MAX_ERROR
    assert ending.error.startswith("ValueError: xxx")
    assert len(ending.traceback) == attempt.MAX_TRACEBACK
    assert ending.traceback.endswith("x\n")


def test_an_error_crosses_the_pipe_in_its_parts() -> None:
    for failure in (
        Failure("no", None, False, "a.B", "Traceback\nB: no"),
        Failure("no", timedelta(seconds=5), False, "B", None),
        Failure("no", None, True),
    ):
        assert wire.unpacked(*wire.packed(failure)) == failure
    odd = Failure("n\0o", None, False, "B\0", "T\0")
    assert wire.unpacked(*wire.packed(odd)) == Failure(
        "n\N{REPLACEMENT CHARACTER}o",
        error_type="B\N{REPLACEMENT CHARACTER}",
        traceback="T\N{REPLACEMENT CHARACTER}",
    )
    written = wire.unpacked(wire.FAILED, b"a task wrote\0this\0into\0the pipe")
    assert isinstance(written, Failure)
    assert written.error == "a task wrote"


def test_an_endless_recursion_is_a_failure() -> None:
    def endless(payload: str) -> None:
        endless(payload)

    assert failure(endless).startswith("RecursionError: maximum recursion depth exceeded")


def test_the_progress_of_a_task_is_read_from_shared_memory() -> None:
    with a_line() as line:
        line.send(b"1", b"2", b"3")
        seen = []
        long = "\u00e9" * shared_memory.MAX_NOTE

        def call(payload: str) -> None:
            reported = {"1": (0.5, "half"), "2": (7.0, long)}.get(payload)
            if reported:
                current().progress(*reported)
            turn, number, size = (
                line.marks[at]
                for at in (shared_memory.TURN, shared_memory.PROGRESS_OF, shared_memory.NOTE_BYTES)
            )
            note = bytes(line.memory[shared_memory.NOTE_AT : shared_memory.NOTE_AT + size])
            fraction = line.memory.cast("d")[shared_memory.FRACTION]
            seen.append((turn, number, fraction, note))

        line.serve(call)
    cut = long.encode()[: shared_memory.MAX_NOTE]
    assert seen == [(2, 1, 0.5, b"half"), (4, 2, 1.0, cut), (4, 2, 1.0, cut)]


class Line:
    """Both ends of the pipes and the shared memory of a child that runs here."""

    def __init__(self) -> None:
        self.requests, self.worker = os.pipe()
        self.outcomes_in, self.outcomes = os.pipe()
        self.memory = memoryview(bytearray(shared_memory.MEMORY_BYTES))
        self.marks = self.memory.cast("Q")

    def send(self, *payloads: bytes, ends: float = math.inf) -> None:
        given = [replace(GIVEN, lease_ends=ends, payload=payload) for payload in payloads]
        os.write(self.worker, wire.frame(msgspec.msgpack.encode(given)))

    def serve(
        self, call: Any, given: Iterator[wire.GivenRequest] | None = None
    ) -> list[tuple[int, bytes]]:
        os.close(self.worker)
        # In its own context, so that the next test does not see a running request.
        copy_context().run(
            child_loop.serve,
            [call if isinstance(call, Task) else as_task(call)],
            given or wire.read_requests(self.requests),
            self.outcomes,
            self.memory,
            Shared(""),
        )
        count, size = divmod(self.marks[shared_memory.PUT], shared_memory.COUNT)
        buffer = bytes(self.memory[shared_memory.BUFFER_AT :])
        return [(code, body) for _, code, _, body in wire.answers_of(buffer[:size], count)]


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
            seen.append(line.marks[shared_memory.BEGUN])
            return payload

        answers = line.serve(call)
    assert answers == [(wire.DONE, text) for text in (b"1", b"2", b"", b"x" * 10_000)]
    assert seen == [1, 2, 3, 4]


def test_a_request_that_was_taken_back_is_not_run() -> None:
    with a_line() as line:
        line.send(b"1", b"2", b"3", b"4")
        line.marks[shared_memory.TAKEN_FROM] = 2
        line.marks[shared_memory.TAKEN_TO] = 3
        answers = line.serve(lambda payload: payload)
    assert [code for code, _ in answers] == [wire.DONE, wire.NOT_RUN, wire.NOT_RUN, wire.DONE]


def test_a_request_that_is_taken_back_while_another_runs_is_not_run() -> None:
    with a_line() as line:
        line.send(b"1", b"2")

        def call(payload: str) -> None:
            line.marks[shared_memory.TAKEN_FROM] = line.marks[shared_memory.BEGUN] + 1
            line.marks[shared_memory.TAKEN_TO] = 2

        answers = line.serve(call)
    assert [code for code, _ in answers] == [wire.DONE, wire.NOT_RUN]


def test_a_request_is_marked_before_the_child_looks_whether_it_was_taken_back() -> None:
    class End(float):
        """The end of a lease, with which the look begins."""

        def __lt__(self, at: float) -> bool:
            marked.append(line.marks[shared_memory.BEGUN])
            return False

    marked: list[int] = []
    with a_line() as line:
        line.serve(lambda payload: None, iter([replace(GIVEN, lease_ends=End(math.inf))]))
    assert marked == [1]


def test_a_worker_that_waits_is_told_once_of_outcomes() -> None:
    with a_line() as line:
        line.send(b"1", b"2")
        line.marks[shared_memory.WAITS] = 1
        line.serve(lambda payload: payload)
        assert os.read(line.outcomes_in, 1000) == child_loop.WAKE


@pytest.mark.parametrize("result", ["short", "x" * shared_memory.BUFFER_BYTES])
def test_a_child_whose_worker_has_ended_runs_no_more(result: str) -> None:
    with a_line() as line:
        line.marks[shared_memory.WAITS] = 1
        line.send(b"1", b"2")
        seen = []

        def call(payload: str) -> str:
            seen.append(payload)
            return result

        os.dup2(line.requests, line.outcomes_in)  # nobody reads the outcomes any more
        line.serve(call)
    assert seen == ["1"]


def test_a_descriptor_that_a_task_closed_is_open_again() -> None:
    fd = os.open(os.devnull, os.O_WRONLY)
    closed = select.poll()
    closed.register(fd, 0)
    copies = [(fd, os.dup(fd), "stdout")]
    os.close(fd)
    child_loop.restore_streams(copies, closed)
    for open_again in copies[0][:2]:
        os.close(open_again)


def test_a_process_that_a_task_forked_ends_when_the_task_returns_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ended(Exception): ...

    def end(code: int) -> None:
        raise Ended

    with a_line() as line:
        line.send(b"1", b"2")
        monkeypatch.setattr(os, "_exit", end)
        with pytest.raises(Ended):
            line.serve(lambda payload: monkeypatch.setattr(child_loop, "_is_forked", True))
        os.set_blocking(line.outcomes_in, False)
        with pytest.raises(BlockingIOError):
            os.read(line.outcomes_in, 1)


def test_a_request_whose_lease_is_over_is_not_run() -> None:
    with a_line() as line:
        line.send(b"late", ends=now() - 0.001)
        line.send(b"good", ends=now() + 60)
        answers = line.serve(lambda payload: payload)
    assert answers == [(wire.NOT_RUN, b""), (wire.DONE, b"good")]


def test_a_task_can_ask_about_its_attempt() -> None:
    seen: list[Context] = []
    asked = []
    with a_line() as line:
        line.send(b"1", b"2", ends=now() + 60)

        def call(payload: str) -> None:
            here = current()
            seen.append(here)
            asked.append([here.should_stop])
            line.marks[shared_memory.STOP] = 2
            asked[-1].append(here.should_stop)
            line.memory.cast("d")[shared_memory.ENDS] = now() + 90
            left = here.lease_seconds_left
            line.marks[shared_memory.PROLONGED] = len(seen)
            assert here.lease_seconds_left > left + 20

        answers = line.serve(call)
    assert [code for code, _ in answers] == [wire.DONE, wire.DONE]
    assert [(one.request_id, one.attempt, one.max_attempts) for one in seen] == [(7, 2, 5)] * 2
    assert asked == [[False, False], [True, True]]


def test_each_coroutine_sees_its_own_attempt() -> None:
    seen = []

    async def ask() -> None:
        seen.append(current())

    with a_line() as line:
        line.send(b"{}", b"{}")
        answers = line.serve(Task(ask, "a"))
    assert [code for code, _ in answers] == [wire.DONE, wire.DONE]
    assert seen[0] is not seen[1]


@pytest.mark.parametrize(
    ("settings", "dead"),
    [
        ({}, False),
        ({"retry_on": OSError}, True),
        ({"retry_on": (OSError, LookupError)}, False),
        ({"dead_letter_on": KeyError}, True),
        ({"dead_letter_on": [LookupError], "retry_on": KeyError}, True),
        ({"dead_letter_on": OSError}, False),
    ],
)
def test_the_exception_decides_whether_another_attempt_follows(
    settings: dict[str, Any], dead: bool
) -> None:
    ending = child_loop.run(as_task(raising(KeyError("k")), **settings), CONTEXT, b"{}")
    assert isinstance(ending, Failure)
    assert (ending.dead, ending.error[:12]) == (dead, "KeyError: 'k")


def test_a_soft_time_limit_raises_an_exception_in_the_task() -> None:
    tidied = []
    left = []

    def call(payload: str) -> None:
        try:
            # The limit ends here. A short limit could end too early on a busy machine.
            left.append(signal.setitimer(signal.ITIMER_REAL, 0.001)[0])
            while True:
                time.sleep(60)
        except SoftTimeLimitExceeded:
            tidied.append(payload)
            raise

    limited = as_task(call, soft_time_limit=timedelta(minutes=1))
    ending = child_loop.run(limited, CONTEXT, b"{}")
    assert isinstance(ending, Failure)
    over = "SoftTimeLimitExceeded: the task ran past its soft time limit of 0:01:00"
    assert over in ending.error
    assert tidied == ["{}"]
    assert 0 < left[0] <= 60
    assert run(lambda payload: None) == Returned(None)


def test_a_soft_time_limit_ends_with_its_task() -> None:
    child_loop.run(as_task(lambda _: None, soft_time_limit=timedelta(hours=1)), CONTEXT, b"{}")
    assert signal.setitimer(signal.ITIMER_REAL, 0)[0] == 0


def test_any_bytes_from_the_pipe_can_be_read_as_a_failure() -> None:
    after = wire.SECONDS.pack(90.0)
    assert wire.unpacked(wire.FAILED, b"no") == Failure("no", None, dead=False)
    assert wire.unpacked(wire.DEAD, b"no") == Failure("no", None, dead=True)
    assert wire.unpacked(wire.RETRY, after + b"later") == Failure("later", timedelta(seconds=90))
    assert wire.unpacked(wire.SNOOZED, after + b"ready?") == SnoozeAsked(
        timedelta(seconds=90), "ready?"
    )
    assert wire.unpacked(*wire.packed(SnoozeAsked(timedelta(0), "ä"))) == SnoozeAsked(
        timedelta(0), "ä"
    )
    assert wire.unpacked(wire.RETRY, wire.SECONDS.pack(float("nan")) + b"x") == Failure("x")
    early, late = (wire.SECONDS.pack(seconds) for seconds in (-5.0, 1e300))
    assert wire.unpacked(wire.RETRY, early) == Failure("", timedelta(0))
    longest = timedelta(seconds=attempt.LONGEST_RETRY)
    assert wire.unpacked(wire.RETRY, late) == Failure("", longest)
    assert wire.unpacked(wire.DONE, b"\xff") == Failure(
        "the task wrote into the pipe to its worker: its result is not text"
    )


@pytest.mark.parametrize(
    "ending",
    [
        Returned(None),
        Returned('"ä"'),
        NotRun(),
        Failure("no"),
        Failure("never", dead=True),
        Failure("later", timedelta(seconds=1.5)),
        Failure("", timedelta(0)),
    ],
)
def test_an_ending_is_the_same_after_the_pipe(ending: Ending) -> None:
    assert wire.unpacked(*wire.packed(ending)) == ending


def test_the_program_reads_the_set_up_in_the_form_in_which_it_is_written() -> None:
    """The program has a copy of the form, because it cannot import the module `wire`."""
    assert child_program.FRAME_SIZE.format == wire.FRAME_SIZE.format


def test_a_child_starts_without_the_modules_of_the_worker() -> None:
    """Importing them would take longer than everything that a child needs."""
    program = (
        "import sys, rowlease.worker.slots.child_loop;"
        "print([name for name in ('sqlalchemy', 'rowlease.store', 'asyncio')"
        " if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")
