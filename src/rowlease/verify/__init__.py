"""Runs the core of the contract on a server, and looks at its locks and plans."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import NamedTuple, TypeVar

from rowlease.errors import RowleaseError
from rowlease.store import LockObserver, engine_of, open_store, redact
from rowlease.verify.checks import CHECKS, Broken, Trial, cleaned_up
from rowlease.verify.lock_checks import LOCK_CHECKS, LockTrial
from rowlease.verify.rights import rights_of

__all__ = ["Report", "Result", "verify"]


AnyTrial = TypeVar("AnyTrial", bound=Trial)


class Result(NamedTuple):
    """The result of a check: `passed`, `failed`, or `error` if the check could not be made."""

    check: str
    outcome: str
    detail: str
    seconds: float


class VerifyReport(NamedTuple):
    """The results of all checks, as a report that the user can send to the developers."""

    database: str
    release: str
    began: datetime
    server: dict[str, str]
    results: list[Result]

    @property
    def is_sound(self) -> bool:
        return all(each.outcome == "passed" for each in self.results)

    def text(self) -> str:
        """The report as lines of text."""
        facts = "".join(f"  {name}: {value}\n" for name, value in self.server.items())
        results = "".join(f"{r.outcome}: {r.check}: {r.detail}\n" for r in self.results)
        count = Counter(each.outcome for each in self.results)
        total = ", ".join(f"{number} {outcome}" for outcome, number in count.items())
        head = f"rowlease {self.release} on {self.database}, {self.began:%Y-%m-%d %H:%M} UTC"
        return f"{head}\n{facts}{results}{total}\n"


def verify(
    dsn: str,
    num_requests: int = 5_000,
    heard: Callable[[Result], object] = lambda result: None,
    *,
    blocking_dsn: str | None = None,
    role_dsns: Mapping[str, str] | None = None,
) -> VerifyReport:
    """Make every check, on a queue that this function creates and deletes.

    Args:
        num_requests: how many requests the first check enqueues, claims and finishes.
        heard: a function that is called with each result.
        blocking_dsn: another database, of SQL Server, in which READ_COMMITTED_SNAPSHOT is off. All
            checks are made there, too.
        role_dsns: DSNs of users that are members of one role each, by the role's name.

    Raises:
        StoreError: the database cannot be reached, or the queue cannot be created.
    """
    report = _verified(dsn, num_requests, heard, dict(role_dsns or {}))
    if blocking_dsn is None:
        return report

    def heard_there(result: Result) -> None:
        heard(result._replace(check=f"{BLOCKING}: {result.check}"))

    other = _verified(blocking_dsn, num_requests, heard_there, {})
    there = [each._replace(check=f"{BLOCKING}: {each.check}") for each in other.results]
    pair = _pair(report.server, other.server)
    heard(pair)
    return report._replace(results=[*report.results, *there, pair])


#: What reports call the database in which READ_COMMITTED_SNAPSHOT is off.
BLOCKING = "with blocking reads"


def _pair(here: dict[str, str], there: dict[str, str]) -> Result:
    """Whether the two databases are what they are called."""
    found = [each.get("read committed snapshot", "not known") for each in (here, there)]
    outcome = "passed" if found == ["1", "0"] else "failed"
    detail = f"READ_COMMITTED_SNAPSHOT is {found[0]} in the first database, {found[1]} in the other"
    return Result("the pair of databases", outcome, detail, 0.0)


def _verified(
    dsn: str, num_requests: int, heard: Callable[[Result], object], role_dsns: dict[str, str]
) -> VerifyReport:
    observer, began = engine_of(dsn).observe(), datetime.now(UTC)
    results: list[Result] = []
    with closing(open_store(dsn, application_name="rowlease engines verify")) as store:
        store.check_schema()
        trial = (
            LockTrial(store, observer, num_requests)
            if isinstance(observer, LockObserver)
            else Trial(store, observer, num_requests)
        )
        store.configure_queue(trial.queue)
        for result in _results(trial, role_dsns):
            results.append(result)
            heard(result)
    return VerifyReport(redact(dsn), version("rowlease"), began, observer.server(), results)


def _results(trial: Trial, role_dsns: dict[str, str]) -> Iterator[Result]:
    for check in CHECKS:
        yield _made(check, trial)
    for role, dsn in role_dsns.items():
        yield _made(rights_of(role, dsn), trial)
    if isinstance(trial, LockTrial):
        for lock_check in LOCK_CHECKS:
            yield _made(lock_check, trial)
    yield _made(cleaned_up, trial)


def _made(check: Callable[[AnyTrial], str], trial: AnyTrial) -> Result:
    began = time.perf_counter()
    try:
        outcome, detail = "passed", check(trial)
    except Broken as broken:
        outcome, detail = "failed", str(broken)
    except Exception as error:  # the report shows the error
        outcome, detail = "error", " ".join(f"{type(error).__name__}: {error}".split())
    with suppress(RowleaseError):
        trial.empty()
    name = check.__name__.replace("_", " ").replace("callers", "caller's")
    return Result(name, outcome, detail, time.perf_counter() - began)
