"""A run of the contract suite: what became of each test; in parts, if one server is too slow."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from rowlease.store.routines import all_files, packaged_folder
from tests.contract.sessions import SERVERS

#: From the least to the most significant.
OUTCOMES = ("not run", "skipped", "passed", "failed")
FOLDERS = ("sqlserver", "postgresql")
#: How many examples the state machine tries.
EXAMPLES = "ROWLEASE_MODEL_EXAMPLES"


class Result(NamedTuple):
    """What became of one test on one engine.

    Attributes:
        promise: the file's name, without `test_`.
        outcome: `passed`, `skipped`, `failed`, or `not run` where the run was ended before it.
        reason: of a skip, or the error of a failure.
    """

    engine: str
    promise: str
    test: str
    outcome: str
    reason: str


class Run(NamedTuple):
    """Results, and what they are results of.

    Attributes:
        servers: what the servers say of themselves, by engine.
        scripts: the fingerprint of what ran, by folder of sql/.
        began, ended: UTC, as text.
        examples: of the state machine.
        num_parts: how many runs this one was put together from.
        older: what ran with other scripts than those of `scripts`: the engine and promise, by
            their fingerprint.
    """

    results: list[Result]
    servers: dict[str, str]
    scripts: dict[str, str]
    began: str
    ended: str
    examples: str
    num_parts: int
    older: dict[str, list[tuple[str, str]]]

    def keep(self, path: Path) -> None:
        path.write_text(json.dumps(self._asdict(), indent=1), encoding="utf-8")


def code_hash(engine: str) -> str:
    """A hash of the migrations and scripts of an engine, without their comments."""
    migrations = sorted((packaged_folder("migrations") / "versions").glob(f"*_{engine}.sql"))
    texts = [path.read_text(encoding="utf-8") for path in migrations]
    texts += [file.body for file in all_files(engine)]
    code = (line for text in texts for line in text.splitlines() if not line.startswith("--"))
    return hashlib.sha256("\n".join(code).encode()).hexdigest()


def begun() -> Run:
    """A run that has no results yet, of the scripts as they are now."""
    return Run(
        [],
        {},
        {folder: code_hash(folder) for folder in FOLDERS},
        _minute(),
        _minute(),
        os.environ.get(EXAMPLES, "its own number of"),
        num_parts=1,
        older={},
    )


def ended(run: Run, results: list[Result]) -> Run:
    """The run with what this process has seen of it."""
    return run._replace(results=results, servers=dict(SERVERS), ended=_minute())


def _minute() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M}"


def kept(path: Path) -> Run:
    """A part as `Run.keep` has written it."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Run(**{**found, "results": [Result(*result) for result in found["results"]]})


def joined(parts: Sequence[Run], every: Iterable[Result]) -> Run:
    """One run of several; `every` are the tests there are, as `not run`.

    A test that ran in two parts has failed if it failed in one; but what ran with the scripts that
    are here counts before what ran with others.
    """
    now = begun()
    found = {result[:3]: (False, result, "") for result in every}
    for part in parts:
        for result in part.results:
            ran = part.scripts[result.engine]
            new = (ran == now.scripts[result.engine], result, ran)
            if result[:3] in found and _weight(new) >= _weight(found[result[:3]]):
                found[result[:3]] = new
    older: dict[str, list[tuple[str, str]]] = {}
    for is_current, result, ran in found.values():
        what = (result.engine, result.promise)
        if not is_current and result.outcome != "not run" and what not in older.get(ran, []):
            older.setdefault(ran, []).append(what)
    return now._replace(
        results=[result for _, result, _ in found.values()],
        servers={engine: answered for part in parts for engine, answered in part.servers.items()},
        began=min(part.began for part in parts),
        ended=max(part.ended for part in parts),
        examples=" and ".join(sorted({part.examples for part in parts})),
        num_parts=len(parts),
        older=older,
    )


def _weight(found: tuple[bool, Result, str]) -> tuple[bool, bool, int]:
    is_current, result, _ = found
    return result.outcome != "not run", is_current, OUTCOMES.index(result.outcome)


class Recorder:
    """A plugin for pytest: keeps the results of every test that an engine is a parameter of."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self._engines: dict[str, str] = {}
        self._reported: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            found = getattr(item, "callspec", None)
            if found is not None and "engine" in found.params:
                self._engines[item.nodeid] = found.params["engine"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        engine = self._engines.get(report.nodeid)
        if engine is None or (report.when != "call" and report.passed):
            return
        reason = ""
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message.partition("\n")[0] if crash else ""
        self._note(report.nodeid, engine, report.outcome, reason)
        self._reported.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """What was collected and has no result did not run."""
        for nodeid in self._engines.keys() - self._reported:
            self._note(nodeid, self._engines[nodeid], "not run", "")

    def _note(self, nodeid: str, engine: str, outcome: str, reason: str) -> None:
        path, _, test = nodeid.partition("::")
        promise = Path(path).stem.removeprefix("test_")
        self.results.append(Result(engine, promise, test, outcome, reason))
