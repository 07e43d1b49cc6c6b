"""The house's rules for T-SQL, checked on the syntax tree of Microsoft's own grammar.

    python -m tests.tsql.lint sql/sqlserver

prints findings as JSON, one per line. What a rule cannot derive from the text, guards.toml lists.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rowlease.store.routines import common_fields, read_header
from tests.tsql.rules import app_locks, form, housekeeping, row_locks, seeks
from tests.tsql.script import File, Finding, Rule
from tests.tsql.scriptdom import Parse, load

RULES: tuple[Rule, ...] = (
    form.one_batch,
    form.named_as_its_file,
    form.begins_with_its_settings,
    form.temporary_tables_are_its_own,
    form.json_in_xml_is_escaped,
    form.no_dynamic_sql,
    form.throw_our_errors,
    form.results_after_commit,
    form.calls_fit,
    form.inserts_fit,
    form.every_t_sql_engine_has_it,
    form.names_have_schemas,
    seeks.seeks_are_pinned,
    seeks.literals_for_filtered_indexes,
    seeks.columns_stand_alone,
    seeks.the_longest_seek_is_named,
    seeks.literals_have_the_column_s_type,
    row_locks.changes_lock_rows,
    row_locks.locked_rows_are_treated_as_listed,
    row_locks.what_was_true_is_asked_again,
    row_locks.changes_ask_as_listed,
    row_locks.readpast_is_said,
    app_locks.locks_are_taken_as_listed,
    app_locks.many_locks_go_by_name,
    app_locks.app_locks_are_ours,
    app_locks.answers_are_heard,
    app_locks.locks_are_taken_in_order,
    housekeeping.housekeeping_waits_for_nobody,
    housekeeping.listed_texts_are_there,
    housekeeping.steps_are_bounded,
    housekeeping.the_first_rows_are_the_index_s,
)


def findings(path: Path, parse: Parse, text: str | None = None) -> Iterator[Finding]:
    """All that is wrong with one file, or with another text in its place."""
    text = path.read_text(encoding="utf-8") if text is None else text
    tree, errors = parse(text)
    for line, says in errors:
        yield Finding(str(path), line, "grammar", says)
    if tree is None:
        return
    _, summary, own = read_header(text)
    fields = {**common_fields(path), **own}
    header = " ".join([summary, *(f"{name}: {field}" for name, field in fields.items())])
    internal = path.parent.name == "internal"
    folder = path.parent.parent.name if internal else path.parent.name
    schema = "rowlease_internal" if internal else "rowlease"
    file = File(path.stem, folder, schema, text, header, tree)
    for rule in RULES:
        for node, says in rule(file):
            yield Finding(str(path), node.line, rule.__name__, says)


def main(arguments: list[str]) -> int:
    parse = load()
    found: list[Any] = []
    for argument in map(Path, arguments):
        for path in sorted(argument.rglob("*.sql")) if argument.is_dir() else [argument]:
            found += findings(path, parse)
    for finding in found:
        print(json.dumps(finding._asdict()))  # noqa: T201 - a command's output
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
