"""Each rule about locks and plans guards a promise, and each promise says what it needs."""

from __future__ import annotations

import pytest

from tests.contract.engines import LOCKS, PAGE, section
from tests.tsql.evidence import Promise, needed, promises
from tests.tsql.lint import RULES

#: Modules of rules that guard no locks and no plans.
OTHERS = {"form"}


def test_each_rule_about_locks_and_plans_guards_a_promise() -> None:
    named = {rule for one in promises() for rule in one.rules}
    assert named <= {rule.__name__ for rule in RULES}
    about = {rule.__name__ for rule in RULES if rule.__module__.rpartition(".")[2] not in OTHERS}
    assert about <= named


@pytest.mark.parametrize("promise", promises(), ids=lambda one: str(one.says))
def test_each_promise_has_its_evidence_and_a_check_for_a_server(promise: Promise) -> None:
    assert promise.rules
    assert promise.needs
    assert needed(promise).count("protocol step ") == len(promise.needs)


def test_the_page_has_each_promise() -> None:
    lines = section(PAGE.read_text(encoding="utf-8"), LOCKS)
    for one in promises():
        (line,) = [line for line in lines if line.startswith(f"| {one.says} |")]
        assert line.endswith(f" {one.ran} | {needed(one)} |")
