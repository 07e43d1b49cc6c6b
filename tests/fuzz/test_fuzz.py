"""Hostile input of every kind gets an answer that explains it.

`python -m tests.fuzz` is the long form; `ROWLEASE_FUZZ_SEED` is the seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from rowlease.errors import StoreError
from tests.fuzz import commands, pages, routines, texts
from tests.fuzz.routines import Call
from tests.fuzz.surfaces import Meet, Surface, Unexplained, attack, refused

SEED = os.environ.get("ROWLEASE_FUZZ_SEED", "1")
#: How many inputs all surfaces get.
INPUTS = 2000
SURFACES = (routines.SURFACE, texts.FILTERS, texts.PAYLOADS, pages.SURFACE, commands.SURFACE)
ONE = {"p_queue_name": "default", "p_kinds": ["a"], "p_payloads": ["{}"], "p_priorities": [0]}
#: Calls that had an error of the server's own, about its own statements.
FOUND = [
    Call("configure_queue", "rowlease_operator", {"p_queue_name": "mail", "p_settings": "[1]"}),
    Call("enqueue_many", "rowlease_producer", {**ONE, "p_dedup_keys": "{{a,b}}"}),
    Call("enqueue_many", "rowlease_producer", {**ONE, "p_group_keys": "{{a,b},{c,d}}"}),
    Call(
        "enqueue_many",
        "rowlease_producer",
        {**ONE, "p_after": "batch 1", "p_delays_ms": "{{1,2},{3,4}}"},
    ),
    Call("find_requests", "rowlease_reader", {"p_look": 0}),
    Call("list_loads", "rowlease_reader", {"p_limit": -1}),
    Call(
        "set_dead_letter_tasks",
        "rowlease_worker",
        {
            "p_queue_names": ["default"],
            "p_kinds": ["a", "a"],
            "p_task_queues": ["default", "mail"],
            "p_task_kinds": ["b", "c"],
        },
    ),
    Call("announce_idle", "rowlease_worker", {"p_queue_names": None, "p_idle": True}),
]


def test_what_was_found_once_is_explained(dsn: str) -> None:
    with routines.SURFACE.open(dsn) as meet:
        for call in FOUND:
            meet(call)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda one: one.name)
def test_hostile_input_gets_an_answer_that_explains_it(surface: Surface, dsn: str) -> None:
    times = INPUTS * surface.share // 100
    found = attack(surface, dsn, times, f"seed {SEED}, {surface.name}")
    assert found.faults == {}
    assert found.inputs == times
    assert 0 < found.refused < times


def test_every_routine_that_a_role_may_call_is_called() -> None:
    assert len(routines.ROUTINES) > 60
    kinds = {kind for one in routines.ROUTINES.values() for kind in one.params.values()}
    assert {kind.removesuffix("[]") for kind in kinds} <= routines.TYPES.keys()


@pytest.mark.parametrize("code", ["XX000", "0A000", "42703", "57014", "53100", "08006"])
def test_an_error_that_explains_nothing_is_a_fault(code: str) -> None:
    error = psycopg.errors.lookup(code)("its own words")
    with pytest.raises(Unexplained):
        refused(error)
    with pytest.raises(Unexplained):
        refused(StoreError(f"its own words ({code})"))


def test_each_fault_is_in_the_figures_and_the_rest_is_met(dsn: str) -> None:
    @contextmanager
    def opened(_: str) -> Iterator[Meet]:
        def meet(number: int) -> bool:
            return bool(1 // (number % 3))  # every third fails

        yield meet

    surface = Surface("a test", lambda draw: draw.one([0, 1, 2]), opened, share=1)
    found = attack(surface, dsn, 50, "a name")
    assert found.inputs == 50
    assert 0 < found.refused < 50
    (fault,) = found.faults.items()
    assert "ZeroDivisionError" in fault[0]
    assert "0" in fault[1]
