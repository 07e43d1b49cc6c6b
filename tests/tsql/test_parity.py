"""sql/postgresql and sql/sqlserver: the same routines, as their headers say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rowlease.store.routines import Routine, all_files, load_routines, packaged_folder

POSTGRESQL, SQLSERVER = load_routines("postgresql"), load_routines("sqlserver")
#: Routines of PostgreSQL only: notifications (can_notify is False on SQL Server).
ONLY_HERE = {"listen", "listen_finished", "announce_idle"}

#: The clock is a function on both, of a type that no caller sees; all others are called by name.
CLOCK = {"now"}
PUBLIC = sorted(
    name
    for name, routine in SQLSERVER.items()
    if routine.schema == "rowlease" and name not in CLOCK
)
#: A type of PostgreSQL's, and its counterpart; arrays and json are JSON text.
TYPES = {
    r"text|json|jsonb|.*\[\]": r"n?varchar\((\d+|max)\)",
    "integer": "int",
    "bigint": "bigint",
    "smallint": "smallint",
    "boolean": "bit",
    "timestamptz": r"datetime2\(6\)",
}
#: Spellings of one and the same thing in a header's `returns`.
SAME = {
    r"\b(n?varchar\((\d+|max)\)|json)": "text",
    r"\bdatetime2\(6\)": "timestamptz",
    r"\bint\b": "integer",
    r"\bbit\b": "boolean",
    r"\bdouble precision\b": "float",
    r"^(nothing|no rows)$": "void",
}
#: Errors of SQL Server only: a named lock was not granted in time; a name or key ends in a blank,
#: which a constraint of the table refuses on PostgreSQL.
ONLY_THERE = {"51012", "51019"}
#: An error of PostgreSQL's own (22P02), which a header may leave unsaid; 51011 on SQL Server.
NOT_JSON = "not JSON"
MAX_LINES = 80
#: Longer routines, and why.
LONG = {
    "add_requests": "an array is a join with openjson, for each of the nine",
    "begin_load": "each answer and each refusal is a statement of its own",
    "break_expired": "before the row forgets its worker, the attempt is kept",
    "candidates_by_policy": "the queue and its lane are read together; a locked part is no error",
    "claim_carefully": "what a lock would let through is checked again where the rows are changed",
    "find_ids": "what to read, where it ends, and what matches: each in a statement",
    "lease": "the plain claim is read in one place",
    "configure_queue": "a setting is taken out of the JSON text in a line each",
}


def one_way(text: str) -> str:
    for pattern, word in SAME.items():
        text = re.sub(pattern, word, text)
    return text


def codes(routine: Routine, engine: dict[str, Routine], seen: frozenset[str] = frozenset()) -> Any:
    """The errors of a header, `as <routine>` followed."""
    field = routine.header["errors"]
    found = {
        f"RL{code[2:]}" if code.startswith("510") else code
        for code in re.findall(r"\bRL\d{3}\b|\b51\d{3}\b|\b22P02\b", field)
        if code not in ONLY_THERE
    }
    found = {NOT_JSON if code in ("22P02", "RL011") else code for code in found}
    if field.startswith("as "):
        for name in set(re.findall(r"\w+", field.partition(";")[0])) & engine.keys():
            if name not in seen | {routine.name}:
                found |= codes(engine[name], engine, seen | {name})
    return found


def test_both_engines_have_the_same_public_routines() -> None:
    theirs = {name for name, routine in POSTGRESQL.items() if routine.schema == "rowlease"}
    assert theirs == {*PUBLIC, *CLOCK, *ONLY_HERE}


def test_one_role_owns_both_schemas() -> None:
    """With two owners, a routine could call an internal one only if its caller had the right."""
    grants = packaged_folder("sql") / "postgresql" / "grants.sql"
    baseline = packaged_folder("migrations") / "versions" / "0001_tables_sqlserver.sql"
    statements = {
        grants: "alter schema {} owner to rowlease_owner;",
        baseline: "alter authorization on schema::{} to rowlease_owner;",
    }  # fmt: skip
    for file, statement in statements.items():
        for schema in ("rowlease", "rowlease_internal"):
            assert statement.format(schema) in file.read_text(encoding="utf-8"), file


@pytest.mark.parametrize("engine", ["postgresql", "sqlserver"])
def test_every_public_routine_is_granted_to_a_role_and_no_internal_one_is(engine: str) -> None:
    text = (packaged_folder("sql") / engine / "grants.sql").read_text(encoding="utf-8")
    grants = re.findall(r"grant execute on (.*?)\bto\b", text, re.DOTALL)
    granted = set(re.findall(r"rowlease\.(\w+)", " ".join(grants)))
    assert granted == {*PUBLIC, *CLOCK, *(ONLY_HERE if engine == "postgresql" else ())}
    assert "grant execute on rowlease_internal" not in text


@pytest.mark.parametrize("engine", ["postgresql", "sqlserver"])
def test_every_internal_routine_has_a_caller(engine: str) -> None:
    """A trigger calls the function of its own file. SQL Server's has the schema of its table."""
    routines = load_routines(engine)
    triggers = re.compile(r"create (constraint )?trigger")
    for name, routine in routines.items():
        if routine.schema == "rowlease_internal" and not triggers.search(routine.body):
            call = re.compile(rf"\browlease_internal\.{name}\b")
            assert any(
                call.search(other.body) for other in all_files(engine) if other != routine
            ), name


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_routine_takes_the_same_parameters_in_the_same_order(name: str) -> None:
    theirs, ours = POSTGRESQL[name].params, SQLSERVER[name].params
    assert list(ours) == list(theirs)
    for param, kind in theirs.items():
        (there,) = (there for here, there in TYPES.items() if re.fullmatch(here, kind))
        assert re.fullmatch(there, ours[param]), (param, kind, ours[param])


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_routine_returns_the_same(name: str) -> None:
    assert one_way(SQLSERVER[name].header["returns"]) == one_way(POSTGRESQL[name].header["returns"])


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_routine_raises_the_same_errors(name: str) -> None:
    here, there = codes(POSTGRESQL[name], POSTGRESQL), codes(SQLSERVER[name], SQLSERVER)
    assert there - {NOT_JSON} == here - {NOT_JSON}
    assert NOT_JSON in there or NOT_JSON not in here


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_routine_says_the_same_of_itself(name: str) -> None:
    assert SQLSERVER[name].summary == POSTGRESQL[name].summary


def test_maintain_has_the_same_steps_and_reaches_the_last() -> None:
    here = set(re.findall(r"when '([\w ]+)' then", POSTGRESQL["maintain_step"].body))
    steps = dict(re.findall(r"\((\d+), N'([\w ]+)'\)", SQLSERVER["next_step"].body))
    alone = {"history partitions", "counts of batches folded"}  # elsewhere they go with others
    assert {*steps.values()} - {"history dropped"} == here - alone
    listed = POSTGRESQL["maintain"].body.partition("c_steps constant")[2].partition("];")[0]
    assert set(re.findall(r"'([\w ]+)'", listed)) == here
    due = re.findall(
        r"(?:select|then|else) (\d+)(?=,| as| where| else| end)", SQLSERVER["due_steps"].body
    )
    assert {*due, "9"} == {*steps}
    done = re.findall(r"@p_step = (\d+)", SQLSERVER["maintain_step"].body)
    assert {*done} == {*steps}


@pytest.mark.parametrize("name", sorted(SQLSERVER))
def test_the_header_lists_the_parameters_of_the_code(name: str) -> None:
    code = "\n".join(line for line in SQLSERVER[name].body.splitlines() if line[:2] != "--")
    head = re.split(r"\n(?:as|returns)\b", code, maxsplit=1)[0]
    found = re.findall(r"@(p_\w+)\s+([\w.]+(?:\([^)]*\))?)", head)
    assert dict(found) == {
        param: kind.removesuffix(" output") for param, kind in SQLSERVER[name].params.items()
    }


@pytest.mark.parametrize("name", sorted(SQLSERVER))
def test_a_routine_fits_on_a_page(name: str) -> None:
    lines = [line for line in SQLSERVER[name].body.splitlines() if line[:2] != "--"]
    assert len(lines) <= (100 if name in LONG else MAX_LINES)
