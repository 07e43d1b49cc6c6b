"""Which engines the contract suite runs on; and its results, side by side, for docs/engines.md.

    python -m tests.contract.engines [what pytest takes]

runs the suite and writes the page. Nothing is claimed there that did not run. Where that takes too
long, parts of it may run at once, each on a server of its own, and the page be made of them:

    python -m tests.contract.engines --part FILE [what pytest takes]
    python -m tests.contract.engines --join [--note TEXT ...] FILE ...

A note says what the results do not, as what was changed before something ran again. What no part
ran is kept from the page, with the scripts that it ran with.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from rowlease.store.routines import packaged_folder
from tests.contract import runs, sqlserver
from tests.contract.runs import Recorder, Result, Run

PAGE = packaged_folder("sql").parent / "docs" / "engines.md"
NAMES = {"postgresql": "PostgreSQL", "sqlserver": "SQL Server"}
FOLDER = "tests/contract"
ENDED_EARLY = "This run was ended early"
OLDER = "* older scripts"
OUTCOMES = ("passed", "failed", "skipped")
WIDTH = 118
#: So many characters of a reason or an error are shown.
MAX_REASON = 300
#: The tests of a reason are named if they are not more.
MAX_NAMED = 3
#: Sections that something else writes, and that are kept: benchmarks/sqlserver_claims.py,
#: tests/tsql/evidence.py and tests/versions.py.
CLAIMS = "## What keeps two claims apart"
LOCKS = "## SQL Server's locks and plans"
VERSIONS = "## PostgreSQL's versions"
#: For pytest. This command has imported xdist, in which pytest can then rewrite no assertion.
QUIETLY = ("-q", "-W", "ignore::pytest.PytestAssertRewriteWarning")


def available() -> list[str]:
    """The engines that there is a server for, or the one named; PostgreSQL's is always there."""
    there = ["postgresql"] if sqlserver.missing() else ["postgresql", "sqlserver"]
    named = os.environ.get(sqlserver.ENGINE)
    if named and named not in there:
        raise pytest.UsageError(f"{sqlserver.ENGINE} is {named}; there are {', '.join(there)}")
    return [named] if named else there


def stale() -> str | None:
    """A sentence, if docs/engines.md tells of another sql/sqlserver, or of half a run."""
    if ENDED_EARLY in written():
        return "docs/engines.md tells of a run that was ended early; run it to its end"
    if OLDER in written():
        return "docs/engines.md tells in part of older scripts; run those promises again"
    if _ran_with("sqlserver", runs.code_hash("sqlserver")) in written():
        return None
    return (
        "docs/engines.md tells of another sql/sqlserver than this one; "
        "`python -m tests.contract.engines` runs the suite again and writes it"
    )


def section(text: str, heading: str) -> list[str]:
    """A section of a page, from its heading to the next one; empty if there is none."""
    found = re.search(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[0].rstrip().splitlines() if found else []


def write_section(heading: str, lines: list[str]) -> None:
    """Put a section into docs/engines.md in the place of the one that was there, or at the end."""
    text = written()
    old = "\n".join(section(text, heading))
    new = "\n".join([heading, "", *lines])
    text = text.replace(old, new) if old else f"{text}\n{new}\n"
    PAGE.write_text(text, encoding="utf-8")


def _ran_with(folder: str, fingerprint: str) -> str:
    return f"* sql/{folder}: `{fingerprint}`"


def page(run: Run, kept: Sequence[str] = (), notes: Sequence[str] = ()) -> str:
    """docs/engines.md; `kept` are the lines of sections that something else has written."""
    results = run.results
    engines = [engine for engine in NAMES if any(r.engine == engine for r in results)]
    names = {engine: _name(engine, run) for engine in engines}
    lines = [
        "# Engines",
        "",
        f"Written by `python -m {FOLDER.replace('/', '.')}.engines`; not by hand. One contract",
        f"suite, [{FOLDER}](../{FOLDER}), runs on both engines: the same tests, on the same stores",
        "that workers use.",
        "",
        f"* run: {run.began} to {run.ended} UTC{_parts(run.num_parts)}",
        *(_item(f"{names[engine]}: {run.servers.get(engine, 'not known')}") for engine in engines),
        f"{_ran_with('sqlserver', run.scripts['sqlserver'])} (without comments)",
        _ran_with("postgresql", run.scripts["postgresql"]),
        *_current(run),
        *(_older(fingerprint, what, run) for fingerprint, what in run.older.items()),
        *map(_item, notes),
        f"* the state machine of test_model.py: {run.examples} examples",
        "",
        *_what_ran(run.servers.get("sqlserver", "")),
        *_what_did_not(run),
        "",
        "## Results",
        "",
        f"| promise | {' | '.join(f'{names[e]}: passed | failed | skipped' for e in engines)} |",
        f"|---|{'---:|' * 3 * len(engines)}",
    ]
    promises = sorted({r.promise for r in results}, key=_place)
    for promise in promises:
        cells = (_cell([r for r in results if (r.engine, r.promise) == (e, promise)])
                 for e in engines)  # fmt: skip
        lines.append(f"| {promise.replace('_', ' ')} | {' | '.join(cells)} |")
    totals = (_cell([r for r in results if r.engine == e]) for e in engines)
    lines.append(f"| **all** | {' | '.join(totals)} |")
    for engine in engines:
        lines += _details(names[engine], [r for r in results if r.engine == engine])
    if kept:
        lines += ["", *kept]
    return "\n".join(lines) + "\n"


def _current(run: Run) -> list[str]:
    """What ran with the scripts as they are, if something ran with others."""
    older = {one for what in run.older.values() for one in what}
    ran = {(r.engine, r.promise) for r in run.results if r.outcome != "not run"}
    what = sorted(ran - older)
    return [_item(f"these scripts: {_by_engine(what, run)}")] if older and what else []


def _older(fingerprint: str, what: list[tuple[str, str]], run: Run) -> str:
    return _item(f"{OLDER.removeprefix('* ')}, `{fingerprint}`: {_by_engine(what, run)}")


def _by_engine(what: Sequence[tuple[str, str]], run: Run) -> str:
    return "; ".join(
        f"{_name(one, run)} ({_told({promise for by, promise in what if by == one}, one, run)})"
        for one in NAMES
        if any(by == one for by, _ in what)
    )


def _told(promises: set[str], engine: str, run: Run) -> str:
    """The promises, or that these are all that ran on an engine."""
    ran = {r.promise for r in run.results if r.engine == engine and r.outcome != "not run"}
    if promises == ran and len(ran) > MAX_NAMED:
        return "all of it"
    return ", ".join(one.replace("_", " ") for one in sorted(promises, key=_place))


def _name(engine: str, run: Run) -> str:
    return "Babelfish" if "Babelfish" in run.servers.get(engine, "") else NAMES[engine]


def _item(text: str) -> str:
    """An item of a list, in lines that can be read."""
    return textwrap.fill(
        f"* {text}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _parts(count: int) -> str:
    return "" if count == 1 else f", in {count} parts (`--part`, `--join`)"


def _what_ran(server: str) -> list[str]:
    if "Babelfish" not in server:
        return []
    return [
        "**No SQL Server has run this yet.** Babelfish is a T-SQL engine over TDS; it is called",
        "through Microsoft's ODBC driver. It ignores UPDLOCK, READPAST and ROWLOCK, so claims meet",
        "at the same rows: what holds there holds because the status is checked again, not because",
        "of hints. It says nothing about SQL Server's own locks, plans and speed.",
        "",
        "Four things of it were changed locally. sp_getapplock answers as SQL Server does: a",
        "refusal is -1 without an error, a deadlock -3, and locks belong to a database; before,",
        "five refusals in one connection restarted the server. OPENJSON unescapes strings, puts",
        "missing columns in their places, and keeps long values whole. STRING_ESCAPE keeps",
        "characters beyond ASCII. Each connection parsed routines for seconds, longer than time",
        "limits of the tests: its parser's caches are now filled at start. Its escape hatches let",
        "it ignore a change of the isolation level in a transaction.",
        "",
        "Every lock time-out is its error 33557097, the number of errors that it does not map, and",
        "no CATCH gets it (tried with lock_timeout 100 and 0, on a row and a table), so one ends",
        "maintain, whose CATCH asks for 1222, SQL Server's documented number.",
        "",
        "The scripts are rewritten where it lacks a statement, see `SPOKEN` in",
        f"[{FOLDER}/sqlserver.py](../{FOLDER}/sqlserver.py). The suite finds a SQL Server by",
        f"`{sqlserver.VARIABLE}`, or starts one where a Docker engine answers.",
        "",
        "Which other evidence there is for SQL Server, promise by promise:",
        "[SQL Server](sqlserver.md#evidence).",
    ]


def _what_did_not(run: Run) -> list[str]:
    missing = [result for result in run.results if result.outcome == "not run"]
    if not missing:
        return []
    told = (
        f"{_name(one, run)} ({_told({r.promise for r in missing if r.engine == one}, one, run)})"
        for one in NAMES
        if any(result.engine == one for result in missing)
    )
    said = f"{ENDED_EARLY}: {len(missing)} of {len(run.results)} results are missing:"
    return ["", *_item(f"**{said}** {'; '.join(told)}.").removeprefix("* ").split("\n")]


def _place(promise: str) -> tuple[int, str]:
    """Numbered promises first, in their order."""
    number = promise.partition("_")[0]
    return (int(number) if number.isdigit() else 99, promise)


def _cell(results: list[Result]) -> str:
    counts = Counter(result.outcome for result in results)
    return " | ".join(f"{counts[word]:,}" for word in OUTCOMES)


def _details(name: str, results: list[Result]) -> list[str]:
    lines: list[str] = []
    skipped: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.outcome == "skipped":
            skipped[result.reason].append(result.test)
    if skipped:
        lines += ["", f"## Skipped on {name}", ""]
        most_first = sorted(skipped.items(), key=lambda one: (-len(one[1]), one[0]))
        lines += [_skips(reason, tests) for reason, tests in most_first]
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        lines += ["", f"## Failed on {name}", ""]
        lines += [_failure(result) for result in failed]
    return lines


def _failure(result: Result) -> str:
    error = f": {plain(result.reason[:MAX_REASON])}" if result.reason else ""
    return _item(f"{result.promise.replace('_', ' ')}: `{result.test}`{error}")


def _skips(reason: str, tests: list[str]) -> str:
    """A reason, how many tests were skipped for it, and which, if they are few."""
    names = sorted({test.partition("[")[0].removeprefix("test_") for test in tests} - {""})
    shown = f" ({', '.join(names).replace('_', ' ')})" if 0 < len(names) <= MAX_NAMED else ""
    return _item(f"{len(tests)}: {plain(reason[:MAX_REASON])}{shown}")


def plain(text: str) -> str:
    """A text without markup, as Markdown: an error may hold brackets, which would be a link."""
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", text)


def written() -> str:
    """The page as it is, or nothing."""
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


class Row(NamedTuple):
    """What a page says of a promise on an engine.

    Attributes:
        counts: how many passed, failed and were skipped.
        ran_with: the fingerprint of the scripts.
    """

    counts: tuple[int, ...]
    ran_with: str


def rows(text: str) -> dict[tuple[str, str], Row]:
    """What a page says, by engine and promise."""
    text = text.replace("\n  ", " ")
    names = re.search(r"^\| promise \| (.*: passed.*)$", text, re.MULTILINE)
    if names is None:
        return {}
    order = [
        "postgresql" if name == NAMES["postgresql"] else "sqlserver"
        for name in re.findall(r"([\w ]+): passed", names[1])
    ]
    ran_with: dict[str, str] = dict(re.findall(r"^\* sql/(\w+): `(\w+)`", text, re.MULTILINE))
    older: dict[tuple[str, str], str] = {
        (place, told): fingerprint
        for fingerprint, what in re.findall(
            rf"^{re.escape(OLDER)}, `(\w+)`: (.*)$", text, re.MULTILINE
        )
        for name, those in re.findall(r"([\w ]+) \(([^)]*)\)", what)
        for place in ["postgresql" if name.strip() == NAMES["postgresql"] else "sqlserver"]
        for told in those.split(", ")
    }
    found = {}
    for promise, *cells in re.findall(
        r"^\| ([^|*\n]+?) " + r"\| ([\d,]+) " * (3 * len(order)) + r"\|$", text, re.MULTILINE
    ):
        counts = [int(cell.replace(",", "")) for cell in cells]
        for place, engine in enumerate(order):
            fingerprint = older.get((engine, promise), ran_with[engine])
            three = tuple(counts[3 * place : 3 * place + 3])
            found[engine, promise.replace(" ", "_")] = Row(three, fingerprint)
    return found


def with_rows(run: Run, text: str) -> tuple[Run, list[str]]:
    """The run with what a page says of promises that it lacks, and a note that says so."""
    when = re.search(r"^\* run: (.*?) UTC", text, re.MULTILINE)
    ran = {(r.engine, r.promise) for r in run.results if r.outcome != "not run"}
    lacking = {(r.engine, r.promise) for r in run.results} - ran
    kept = {one: row for one, row in rows(text).items() if one in lacking and any(row.counts)}
    if not kept or when is None:
        return run, []
    results = [r for r in run.results if (r.engine, r.promise) not in kept]
    older = {fingerprint: list(what) for fingerprint, what in run.older.items()}
    for (engine, promise), (counts, fingerprint) in kept.items():
        every = [r for r in run.results if (r.engine, r.promise) == (engine, promise)]
        missing = len(every) - sum(counts)
        for outcome, count in zip((*OUTCOMES, "not run"), (*counts, missing), strict=True):
            reason = f"as the run from {when[1]} UTC said" if outcome != "passed" else ""
            results += [
                Result(engine, promise, f"[{number}]", outcome, reason) for number in range(count)
            ]
        if fingerprint != run.scripts[engine]:
            older.setdefault(fingerprint, []).append((engine, promise))
    note = f"kept from the run from {when[1]} UTC: {_by_engine(list(kept), run)}"
    return run._replace(results=results, older=older), [note]


def main(arguments: list[str]) -> int:
    if why := sqlserver.missing():
        sys.stderr.write(f"{why}; docs/engines.md stays as it is\n")
        return 1
    begun, recorder, notes = runs.begun(), Recorder(), []
    match arguments:
        case ["--join", *files]:
            while files[0] == "--note":
                _, note, *files = files
                notes.append(note)
            code = pytest.main([FOLDER, *QUIETLY, "--collect-only", "--no-summary"], [recorder])
            run = runs.joined([runs.kept(Path(file)) for file in files], recorder.results)
            run, kept_rows = with_rows(run, written())
            notes += kept_rows
        case ["--part", file, *rest]:
            code = pytest.main([*QUIETLY, *rest], [recorder])
            runs.ended(begun, recorder.results).keep(Path(file))
            return int(code)
        case _:
            code = pytest.main([FOLDER, *QUIETLY, *arguments], [recorder])
            run = runs.ended(begun, recorder.results)
    kept = "\n\n".join("\n".join(section(written(), name)) for name in (VERSIONS, LOCKS, CLAIMS))
    PAGE.write_text(page(run, kept.strip().splitlines(), notes), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
