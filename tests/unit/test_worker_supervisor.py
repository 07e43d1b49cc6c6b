"""The rules of the supervisor, with small programs in place of workers."""

from __future__ import annotations

import signal
import sys
import threading
from datetime import timedelta

import pytest

from rowlease.backoff import Backoff
from rowlease.clock import now
from rowlease.events import Event, Events, WorkerDied, WorkerSpawned
from rowlease.worker.host import supervised as supervised_module
from rowlease.worker.host import supervisor as module
from rowlease.worker.host.health import HealthReport
from rowlease.worker.host.supervised import SupervisedWorker, SupervisorEnd, WorkerEnd
from rowlease.worker.host.supervisor import Supervisor
from rowlease.worker.summary import Summary
from rowlease.worker.timings import REPORT_SILENT, STALLED

REPORTING = """
import json, socket, sys
channel = socket.socket(fileno=int(sys.argv[1]))
send = lambda **message: channel.sendall(json.dumps(message).encode() + b"\\n")
send(report=[True, True, [], False, 2, 1, 5])
"""
SUMMARY = Summary(3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 4.0, 2, 1.5)


def supervisor(code: str, events: Events | None = None, **options: object) -> Supervisor:
    return Supervisor(
        [sys.executable, "-S", "-c", code, "{}"],
        1,
        events or Events(),
        **{"grace": timedelta(seconds=5), **options},  # type: ignore[arg-type]
    )


def deaths_of(code: str, count: int, **options: object) -> tuple[Supervisor, list[WorkerDied]]:
    """Run until `count` workers have died, then stop."""
    events, died = Events(), list[WorkerDied]()

    def note(event: Event) -> None:
        assert isinstance(event, WorkerDied)
        died.append(event)
        if len(died) == count:
            run.stop()

    events.subscribe(note, WorkerDied)
    run = supervisor(code, events, **options)
    run.run()
    return run, died


def test_each_death_in_a_row_doubles_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_module, "Backoff", lambda *_: Backoff(0.01, 0.04))
    run, died = deaths_of("raise SystemExit(1)", 4)
    pauses = [each.restart or 0 for each in died]
    for pause, most in zip(pauses, (0.01, 0.02, 0.04, 0.04), strict=True):
        assert most / 2 <= pause <= most
    assert {each.how for each in died} == {"exited with code 1"}
    assert run.exit_code == 0


def test_a_worker_that_was_stable_is_replaced_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_module, "Backoff", lambda *_: Backoff(0.01, 30.0))
    monkeypatch.setattr(supervised_module, "STABLE_AFTER", 0.0)
    _, died = deaths_of("raise SystemExit(1)", 4)
    assert all((each.restart or 1) <= 0.01 for each in died)


@pytest.mark.parametrize(
    ("code", "how"),
    [("", "exited with code 0"), ("import os; os.kill(os.getpid(), 9)", "SIGKILL")],
)
def test_a_worker_that_ends_unexpectedly_is_replaced(
    code: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_module, "Backoff", lambda *_: Backoff(0.01, 30.0))
    run, died = deaths_of(code, 2)
    assert how in died[0].how
    assert run.num_restarts == 2


def test_a_usage_error_before_any_worker_was_ready_ends_the_supervisor() -> None:
    run = supervisor("raise SystemExit(2)")
    run.run()
    assert (run.exit_code, run.num_restarts) == (2, 0)


def test_a_usage_error_later_is_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_module, "Backoff", lambda *_: Backoff(0.01, 30.0))
    run, died = deaths_of(REPORTING + "raise SystemExit(2)", 2)
    assert run.num_restarts == 2
    assert died[0].restart


@pytest.mark.parametrize(("code", "exit_code"), [("", 0), ("raise SystemExit(3)", 3)])
def test_a_burst_does_not_replace_a_worker_that_exits(code: str, exit_code: int) -> None:
    run = supervisor(code, burst=True)
    run.run()
    assert (run.exit_code, run.num_restarts) == (exit_code, 0)


def test_a_worker_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SUPERVISOR_SHUTDOWN", 0.1)
    ignores_signals = (
        "import signal; signal.signal(15, signal.SIG_IGN); signal.signal(2, signal.SIG_IGN)\n"
        + REPORTING
        + "signal.pause()"
    )
    run = supervisor(
        ignores_signals, grace=timedelta(0), interval=0.01, outlets=[stop_when_ready := Stop()]
    )
    stop_when_ready.run = run
    run.run()
    assert run.exit_code == 1


class Stop:
    """An outlet that stops the supervisor once all workers are ready."""

    run: Supervisor
    closed = False

    def __init__(self, times: int = 1) -> None:
        self._times = times
        self.reports: list[HealthReport] = []

    def show(self, report: HealthReport) -> None:
        self.reports.append(report)
        if report.ready:
            for _ in range(self._times):
                self.run.stop()
            self._times = 0

    def close(self) -> None:
        self.closed = True


def test_the_reports_and_summaries_of_the_workers_are_added_up() -> None:
    code = REPORTING + f"import signal; signal.sigwait([15]); send(summary={list(SUMMARY)})"
    code = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15])\n" + code
    run = Supervisor(
        [sys.executable, "-S", "-c", code, "{}"],
        2,
        Events(),
        grace=timedelta(seconds=5),
        interval=0.01,
        outlets=[stop := Stop()],
    )
    stop.run = run
    done = run.run()
    first, *_, last = stop.reports
    assert not first.ready
    assert first.why == ("worker 1 is starting", "worker 2 is starting")
    ready = next(report for report in stop.reports if report.ready)
    assert ready == HealthReport(True, True, (), False, slots=4, busy=2, finished=10)
    assert last.draining
    assert stop.closed
    assert (done.claimed, done.finished, done.slots, run.exit_code) == (6, 4, 4, 0)


@pytest.mark.parametrize("times", [1, 2])
def test_the_second_stop_reaches_a_worker_as_another_signal(times: int) -> None:
    """Two pending signals of one kind are delivered as one."""
    code = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2, 15])\n"
        + REPORTING
        + f"raise SystemExit(10 + sum(signal.sigwait([2, 15]) for _ in range({times})))"
    )
    run = supervisor(code, interval=0.01, outlets=[stop := Stop(times)])
    stop.run = run
    run.run()
    assert run.exit_code == 10 + sum([signal.SIGTERM, signal.SIGINT][:times])


def test_a_program_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_module, "Backoff", lambda *_: Backoff(0.01, 30.0))
    events, died = Events(), list[Event]()
    events.subscribe(died.append, WorkerDied)
    events.subscribe(lambda event: run.stop(), WorkerDied)
    events.subscribe(lambda event: pytest.fail("it was started"), WorkerSpawned)
    run = Supervisor(["/nowhere/python"], 1, events, grace=timedelta(0))
    run.run()
    assert "could not be started" in str(died[0])


def test_a_silent_worker_is_not_live() -> None:
    worker = SupervisedWorker(7)
    worker.process = object()  # type: ignore[assignment]
    worker.channel = SupervisorEnd()
    worker.channel.report = HealthReport(True, True, (), slots=2)
    assert worker.report(REPORT_SILENT).ready
    silent = worker.report(REPORT_SILENT + 1)
    assert not silent.live
    assert not silent.ready
    assert silent.why == ("worker 7 has sent no report for 11 s",)
    assert silent.slots == 2
    worker.channel.close()


def test_a_worker_that_has_started_remains_started_while_it_is_replaced() -> None:
    worker = SupervisedWorker(7)
    worker.process = object()  # type: ignore[assignment]
    worker.channel = SupervisorEnd()
    assert not worker.report(0.0).started
    worker.channel.report = HealthReport(True, True, (), started=True)
    assert worker.report(0.0).started
    worker.channel.close()
    worker.process, worker.channel = None, None
    assert worker.report(0.0).started


def test_a_stalled_supervisor_is_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    run = supervisor("")
    assert run.report().live
    later = now() + 2 * STALLED
    monkeypatch.setattr(module, "now", lambda: later)
    assert not run.report().live
    assert "the supervisor has been stalled for 20 s" in run.report().why


def test_the_channel_carries_reports_and_shows_its_end() -> None:
    ends = SupervisorEnd()
    gone = threading.Event()
    worker = WorkerEnd(ends.worker_socket.detach(), gone=gone.set)
    sent = HealthReport(False, False, ("a", "b"), True, 1, 2, 3)
    worker.show(sent)
    worker.summary(SUMMARY)
    assert ends.read()
    assert (ends.report, ends.summary) == (sent, SUMMARY)
    assert ends.read()  # no message, but the channel is open
    ends.close()
    assert gone.wait(30)
    worker.show(sent)  # nothing is raised without a supervisor
    worker.close()
