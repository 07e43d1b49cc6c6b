"""Every routine that a role may call, by SQL, with arguments of the right types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from hypothesis import strategies as st

from rowlease.declared_queues import QueueSettings
from rowlease.filters.filter import Filter
from rowlease.model import VERBS
from rowlease.store.routines import PUBLIC, load_routines, roles_of
from tests.fuzz.surfaces import Meet, Surface, Unexplained, refused
from tests.fuzz.values import (
    CRONS,
    DURATIONS,
    NUMBERS,
    TIMES,
    TOKEN,
    ZONES,
    Draw,
    fill,
    json_text,
    json_texts,
    json_values,
    number,
    texts,
)

ROUTINES = {
    name: one
    for name, one in load_routines("postgresql").items()
    if one.schema == PUBLIC and roles_of(name)
}
NAMES = sorted(ROUTINES)
#: How long a call may take before it counts as one that never ends.
PATIENCE = "60s"
FILTERS = [*Filter.__annotations__, "min_age_ms", "max_age_ms", "statuses", "x"]
ARGUMENTS = ["priority", "delay_ms", "due_time", "kill", "queue", "x"]
FLOORS = ("", "{}", "[]", "null", "x", '{"default":{}}', '{"default":[1]}', '{"default":null}')

scalars = st.one_of(json_values, st.sampled_from([*NUMBERS, *TIMES, *DURATIONS, 0, 1, 9, 10**30]))


def objects(names: list[str]) -> st.SearchStrategy[str]:
    known = st.dictionaries(st.sampled_from(names), scalars, max_size=3)
    return st.one_of(known, json_values).map(json_text)


settings_of_queues = objects([*QueueSettings.__annotations__, "x"])
times = st.one_of(
    st.none(),
    st.sampled_from(
        ["infinity", "-infinity", "epoch", "2026-11-22 18:00+00", "294276-01-01", "4714-11-24 BC",
         "0001-01-01", "9999-12-31 23:59:59+00"]
    ),
    st.datetimes().map(str),
)  # fmt: skip
ids = st.one_of(st.integers(1, 25), st.just(TOKEN), number(64))
NAMED: dict[str, st.SearchStrategy[Any]] = {
    "p_cron": st.one_of(st.sampled_from(CRONS), texts),
    "p_time_zone": st.one_of(st.sampled_from(ZONES), texts),
    "p_verb": st.one_of(st.sampled_from([*VERBS]), texts),
    "p_filter": objects(FILTERS),
    "p_arguments": objects(ARGUMENTS),
    "p_settings": settings_of_queues,
    "p_payload": json_texts,
    "p_result": json_texts,
    "p_headers": json_texts,
    "p_floor": st.one_of(st.sampled_from(FLOORS), json_texts),
    "p_request_id": ids,
    "p_lock_token": st.one_of(st.just(TOKEN), ids),
}
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "text": texts,
    "integer": number(32),
    "bigint": ids,
    "boolean": st.booleans(),
    "timestamptz": times,
    "double precision": st.floats(),
    "json": json_values.map(json_text),
    "jsonb": json_values.map(json_text),
}
#: As SQL can write them: of two dimensions, and with other bounds.
ARRAYS = {
    "bigint": ["{{1,2},{3,4}}", "[5:6]={1,7}", "[0:0]={1}", "{NULL}", "{}"],
    "text": ["{{a,b}}", "[5:6]={default,mail}", "{NULL}", "{}"],
}
LONG = [[1] * 10_001, list(range(1, 3000))]
SINGULAR = {
    "p_payloads": "p_payload", "p_results": "p_result", "p_headers": "p_headers",
    "p_lock_tokens": "p_lock_token", "p_complete_tokens": "p_lock_token",
    "p_fail_tokens": "p_lock_token",
}  # fmt: skip


def value_of(draw: Draw, name: str, kind: str) -> Any:
    """A value for a parameter, null among them."""
    if draw.is_rare():
        return None
    if not kind.endswith("[]"):
        return draw.of(NAMED.get(name, TYPES[kind]))
    inner = kind[:-2]
    if draw.is_rare(8):
        return draw.one(ARRAYS.get(inner, ["{}", "{NULL}"]))
    if name.endswith("_ids") and draw.is_rare(50):
        return draw.one(LONG)
    one = NAMED.get(SINGULAR.get(name, ""), TYPES[inner])
    length = draw.one([0, 1, 1, 1, 2, 2, 3])
    return [None if draw.is_rare(20) else draw.of(one) for _ in range(length)]


class Call(NamedTuple):
    """A call of a routine, as a role that may call it."""

    routine: str
    role: str
    arguments: dict[str, Any]

    def statement(self) -> tuple[bytes, dict[str, Any]]:
        kinds = ROUTINES[self.routine].params
        places = ", ".join(f"{name} => %({name})s::{kinds[name]}" for name in self.arguments)
        return f"select * from rowlease.{self.routine}({places})".encode(), self.arguments


def call(draw: Draw) -> Call:
    name = draw.one(NAMES)
    arguments = {
        param: value_of(draw, param, kind)
        for param, kind in ROUTINES[name].params.items()
        if param in REQUIRED[name] or draw.is_rare(2)
    }
    return Call(name, draw.one(roles_of(name)), arguments)


def required_params() -> dict[str, set[str]]:
    """The parameters of each routine that have no default."""
    found = {}
    for name, one in ROUTINES.items():
        made = re.search(rf"function rowlease\.{name}\((.*?)\)\s*returns ", one.body, re.DOTALL)
        given = made[1].split(",") if made else []
        found[name] = {part.split()[0] for part in given if part.strip() and "default" not in part}
    return found


REQUIRED = required_params()


@contextmanager
def opened(dsn: str) -> Iterator[Meet]:
    """Each call is in a transaction that is rolled back, so all meet the same rows."""
    fill(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute(f"set statement_timeout = '{PATIENCE}'")
        connection.commit()

        def meet(call: Call) -> bool:
            try:
                connection.execute(f"set local role {call.role}".encode())
                connection.execute(*call.statement())
                connection.execute("set constraints all immediate")
                connection.execute("reset role")
                wrong = connection.execute("select * from rowlease.recount()").fetchall()
            except psycopg.Error as error:
                return refused(error)
            finally:
                connection.rollback()
            if wrong and call.routine != "recount":
                raise Unexplained(f"{call.routine} leaves wrong counts: {wrong[:3]}")
            return False

        yield meet


SURFACE = Surface("the routines", call, opened, share=35)
