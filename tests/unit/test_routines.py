"""The files of sql/: their headers match the routines, and the README matches the headers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rowlease import store
from rowlease.model import Outcome
from rowlease.store import Store
from rowlease.store.routines import (
    HEADER_FIELDS,
    Routine,
    all_files,
    common_fields,
    load_routines,
    packaged_folder,
    read_header,
    read_routine,
    scripts_hash,
)
from tests.unit import call_trees

Sql = Callable[..., list[tuple[Any, ...]]]

FILES = {file.name: file for file in all_files("postgresql")}
ROUTINES = load_routines("postgresql")

#: Lines of code a routine may have; its header is not counted.
MAX_LINES = 80
#: Longer routines, and why.
LONG = {
    "dequeue_queue_carefully": "a claim in the careful way, from what goes before it to its floor",
    "dequeue": "the plain way to claim, and the lane; a call for either costs 5 to 10 % of a claim",
    "fail": "the statement that ends an attempt also keeps it: afterwards the row has no worker",
    "maintain": "one step of housekeeping after the other",
    "find_ids": "five sources and one filter; a helper for each would hide what is read",
}
#: What a routine can meet only if a caller of its own kind passes what this one never does.
NOT_REACHED = {
    ("delete_queue", "RL001"): "it names statuses that purge takes",
    **dict.fromkeys(
        [("delete_queue", f"RL0{number}") for number in ("03", "04", "05", "06", "07", "16", "17")],
        "it purges, and enqueues nothing",
    ),
    ("promote", "RL007"): "a load names no attempts",
    ("fill_request", "RL007"): "the inbox has no column for attempts",
    ("inbox", "RL007"): "the inbox has no column for attempts",
    ("put_schedule", "RL007"): "a schedule has no column for attempts",
    ("fire_schedule", "RL007"): "a schedule has no column for attempts",
}
#: Routines that run with the search path of their caller, and why.
UNPINNED = {
    "check_arrays": "touches no table",
    "check_headers": "touches no table",
    "check_request": "touches no table",
    "dequeue_before": "called by dequeue, which has pinned it; a SET costs more",
    "group_is_free": "called for every candidate of a claim, which has pinned it; a SET costs more",
    "lease_from_lane": "called by dequeue, which has pinned it; a SET costs more",
    "listen": "touches no table",
    "needs_floor": "PostgreSQL puts it in place of its call; with a SET it could not",
    "num_stepped_over": "called by dequeue, which has pinned it; a SET costs more",
    "num_stepped_over_in_lane": "PostgreSQL puts it in place of its call; with a SET it could not",
}
#: Public routines without a method of their own, and who calls them.
WITHOUT_METHOD = {
    "enqueue": "`enqueue_many` calls it for one request",
    "announce_idle": "a listening connection",
    "listen": "a listening connection",
    "listen_finished": "a listening connection",
}
#: Views, and the trigger on the table below.
TRIGGERS = {"inbox": "fill_request", "load_inbox": "end_part"}
#: What any routine that ends a request may say inside a caller's own transaction.
ANYWHERE = {"RL011"}

HEADER = """\
-- wave: say hello.
-- params:   p_names text[] (null: everybody, everywhere),
--           variadic p_times timestamp with time zone, p_kind text -- whatever
-- returns:  void
-- errors:   none
-- locks:    none
-- why:      a test, with a second line that holds a colon: and goes
--           on.
create or replace function rowlease.wave() returns void language sql begin atomic; end;
"""


def code(file: Routine) -> str:
    """The file without its header and comments."""
    return "\n".join(line for line in file.body.splitlines() if not line.lstrip().startswith("--"))


def called(file: Routine) -> set[str]:
    if file.name in TRIGGERS:
        return {TRIGGERS[file.name]}
    found = re.findall(r"rowlease(?:_internal)?\.(\w+)\s*\(", code(file))
    return {name for name in found if name in ROUTINES and name != file.name}


def raised(file: Routine) -> set[str]:
    return set(re.findall(r"RL\d{3}", code(file)))


def listed(file: Routine, seen: frozenset[str] = frozenset()) -> set[str]:
    """The codes of a header, `as <routine> and <routine>` resolved."""
    field = file.header["errors"]
    codes = set(re.findall(r"RL\d{3}", field))
    if field.startswith("as "):
        for name in re.findall(r"\w+", field.partition(";")[0]):
            if name in ROUTINES and name not in seen:
                codes |= listed(ROUTINES[name], seen | {name})
    return codes


def reached(file: Routine, seen: frozenset[str] = frozenset()) -> set[str]:
    """What a routine and all that it calls can raise."""
    codes = raised(file)
    for name in called(file) - seen:
        codes |= reached(ROUTINES[name], seen | {name})
    return codes


# -- reading -----------------------------------------------------------------------------------


def test_a_routine_is_called_from_the_file_with_the_name_of_its_folder() -> None:
    files = {base.__module__.rpartition(".")[2]: vars(base) for base in Store.__bases__}
    for engine in ("postgresql", "sqlserver"):
        for folder in files:
            routines = {
                file.stem for file in (packaged_folder("sql") / engine / folder).glob("*.sql")
            }
            methods = {name.removesuffix("_async") for name in files[folder] if name[0] != "_"}
            assert methods == routines - WITHOUT_METHOD.keys(), (engine, folder)


def test_a_header_is_read(tmp_path: Path) -> None:
    (tmp_path / "wave.sql").write_text(HEADER)
    wave = read_routine(tmp_path / "wave.sql")
    assert (wave.name, wave.summary) == ("wave", "say hello.")
    assert wave.params == {
        "p_names": "text[]",
        "p_times": "timestamp with time zone",
        "p_kind": "text",
    }
    assert wave.header["why"] == "a test, with a second line that holds a colon: and goes on."
    assert wave.body == HEADER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "select 1;\n",
        HEADER.replace("wave:", "other:"),
        HEADER.replace("-- locks:    none\n", ""),
        HEADER.replace("-- locks: ", "-- looks: "),
        "-- wave: say hello.\n--           a line of no field\nselect 1;\n",
        "\n".join(line for line in HEADER.splitlines() if line.startswith("--")).replace("why", ""),
    ],
)
def test_a_file_without_a_whole_header_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "wave.sql").write_text(text)
    with pytest.raises(ValueError, match=r"wave\.sql: the header must name the file"):
        read_routine(tmp_path / "wave.sql")


def test_the_fingerprint_changes_with_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    files = all_files("postgresql")
    seen = {scripts_hash("postgresql")}
    for place, file in enumerate(files):
        other = dataclasses.replace(file, body=file.body + " ")
        monkeypatch.setattr(
            "rowlease.store.routines.all_files",
            lambda engine, place=place, other=other: [*files[:place], other, *files[place + 1 :]],
        )
        seen.add(scripts_hash("postgresql"))
    assert len(seen) == len(files) + 1


def test_the_fingerprint_changes_with_a_header_that_is_another_file_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *rest = all_files("sqlserver")
    before = scripts_hash("sqlserver")
    other = dataclasses.replace(first, header={**first.header, "why": "another reason"})
    monkeypatch.setattr("rowlease.store.routines.all_files", lambda engine: [other, *rest])
    assert scripts_hash("sqlserver") != before


def test_every_file_is_among_the_scripts() -> None:
    assert {path.stem for path in (packaged_folder("sql") / "postgresql").rglob("*.sql")} == set(
        FILES
    )


def test_a_file_of_sql_server_does_not_repeat_postgresqls_header() -> None:
    repeated = [
        (file.stem, field)
        for file in (packaged_folder("sql") / "sqlserver").rglob("*.sql")
        for field, text in read_header(file.read_text(encoding="utf-8"))[2].items()
        if field != "params" and text == common_fields(file).get(field)
    ]
    assert not repeated


# -- the rules of the house --------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_it_is_in_five_fields(name: str) -> None:
    file = FILES[name]
    assert tuple(file.header) == HEADER_FIELDS
    assert all(file.header.values())
    assert file.summary.endswith((".", "?"))


@pytest.mark.parametrize("name", FILES)
def test_a_routine_fits_on_a_page(name: str) -> None:
    lines = [line for line in FILES[name].body.splitlines() if not line.startswith("--")]
    assert len(lines) <= (160 if name in LONG else MAX_LINES)


@pytest.mark.parametrize("name", FILES)
def test_dynamic_sql_has_a_written_reason(name: str) -> None:
    dynamic = re.search(r"(?<!grant )\bexecute\b(?! (on|function|procedure)\b)", code(FILES[name]))
    assert bool(dynamic) == ("dynamic sql" in FILES[name].header["why"].lower())


@pytest.mark.parametrize("name", FILES)
def test_the_header_lists_the_errors_that_can_come(name: str) -> None:
    file = FILES[name]
    spared = ANYWHERE | {code for (routine, code) in NOT_REACHED if routine == name}
    assert raised(file) <= listed(file), "raised here, and not in the header"
    assert listed(file) <= reached(file), "in the header, and raised nowhere"
    assert reached(file) - listed(file) - spared == set(), "raised by what it calls"


# -- sql/README.md -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def readme() -> str:
    return (packaged_folder("sql") / "README.md").read_text(encoding="utf-8")


def table(readme: str, heading: str) -> dict[str, str]:
    """The first column of the table under a heading, with the rest of each row."""
    section = readme.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", section, re.MULTILINE)
    return dict(rows)


def test_the_readme_lists_every_error_code_and_who_raises_it(readme: str) -> None:
    rows = table(readme, "Error codes")
    found = {
        code: {file.name for file in FILES.values() if code in raised(file)}
        for file in FILES.values()
        for code in raised(file)
    }
    assert {code: set(re.findall(r"`(\w+)`", row)) for code, row in rows.items()} == found


def test_the_readme_lists_every_outcome(readme: str) -> None:
    assert set(table(readme, "Outcomes")) == {outcome.value for outcome in Outcome}


def test_every_outcome_of_a_header_is_one_of_the_models() -> None:
    for file in FILES.values():
        field = file.header["returns"]
        if "outcome text" in field:
            assert set(re.findall(r"'(\w+)'", field)) <= {outcome.value for outcome in Outcome}


# -- against the database ----------------------------------------------------------------------


def test_the_parameters_of_a_header_are_the_routines_own(sql: Sql) -> None:
    found = sql(
        "select p.proname, a.name, format_type(a.type, null)"
        "  from pg_proc p"
        "  left join lateral unnest(p.proargnames, p.proargmodes,"
        "         coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality"
        "         as a(name, mode, type, place) on coalesce(a.mode, 'i') in ('i', 'b', 'v')"
        " where starts_with(p.pronamespace::regnamespace::text, 'rowlease')"
        " order by p.proname, a.place"
    )
    real: dict[str, list[tuple[str, str]]] = {}
    for routine, name, kind in found:
        real.setdefault(routine, []).extend([(name, kind)] if name else [])
    answered = {
        routine.name: [
            (name, sql("select %s::regtype::text", [kind])[0][0])
            for name, kind in routine.params.items()
        ]
        for routine in ROUTINES.values()
    }
    assert answered == real


def test_a_name_is_one_routine(sql: Sql) -> None:
    doubled = sql(
        "select proname from pg_proc"
        " where starts_with(pronamespace::regnamespace::text, 'rowlease')"
        " group by proname having count(*) > 1"
    )
    assert not doubled, "a new signature is a _v2 file, never an overload"


def test_every_name_in_a_body_is_qualified(sql: Sql) -> None:
    """The bodies are checked with nothing but pg_catalog to find names in.

    For plpgsql this checks the syntax; its statements are planned when they run, with the same
    path, which every routine that touches a table pins.
    """
    sql("set check_function_bodies = on")
    sql("set search_path = ''")
    for file in FILES.values():
        sql(file.body)


def test_a_routine_pins_its_search_path(sql: Sql) -> None:
    loose = sql(
        "select proname from pg_proc"
        " where starts_with(pronamespace::regnamespace::text, 'rowlease') and prosqlbody is null"
        "   and not 'search_path=pg_catalog, pg_temp' = any(coalesce(proconfig, '{}'))"
    )
    assert {name for (name,) in loose} == set(UNPINNED)


def test_a_routine_that_pins_its_plan_is_never_compiled(sql: Sql) -> None:
    """A disabled plan costs 10^10 before PostgreSQL 18, so its JIT compiles it.

    It did so for each claim, which took half a second where 4 ms are enough.
    """
    compiled = sql(
        "select proname from pg_proc"
        " where starts_with(pronamespace::regnamespace::text, 'rowlease')"
        "   and proconfig::text like any (array['%enable_seqscan%', '%plan_cache_mode%'])"
        "   and not 'jit=off' = any(proconfig)"
    )
    assert compiled == []


# -- the READMEs of the folders ----------------------------------------------------------------


@pytest.mark.parametrize(
    "folder",
    [folder for engine in call_trees.ENGINES for folder in call_trees.folders(engine)],
    ids=lambda folder: f"{folder.parent.name}/{folder.name}",
)
def test_the_readme_of_a_folder_draws_its_call_tree(folder: Path) -> None:
    drawn = call_trees.BLOCK.findall((folder / "README.md").read_text(encoding="utf-8"))
    assert drawn == [call_trees.tree(folder)], "run python -m tests.unit.call_trees"


def test_calls_read_columns_in_the_order_in_which_they_are_returned() -> None:
    """A procedure of SQL Server returns its own order, whatever names a call reads."""
    checked = set()
    for path in Path(store.__path__[0]).glob("*.py"):
        module = import_module(f"rowlease.store.{path.stem}")
        calls = re.findall(
            r'_(?:rows|values)\(\s*(\w+)(?:\._fields)?,\s*"(\w+)"', path.read_text(encoding="utf-8")
        )
        for columns, name in calls:
            given = getattr(module, columns)
            read = getattr(given, "_fields", given)
            returned = re.sub(
                r"the columns of (\w+), and",
                lambda found: ROUTINES[found[1]].header["returns"] + ",",
                ROUTINES[name].header["returns"],
            )
            places = [re.search(rf"\b{each} (?!is\b)[a-z]+", returned) for each in read]
            found = [place.start() for place in places if place]
            assert found == sorted(found), (name, read, returned)
            if len(found) == len(read):
                checked.add(name)
    assert {"get_request", "find_requests", "renew"} <= checked
