"""Mutants of sql/sqlserver that the lint is to notice: a sample of them, or all."""

from __future__ import annotations

import os
import random

import pytest

from tests.mutation.linted import can_be_linted, lint
from tests.mutation.mutants import mutants
from tests.tsql import scriptdom

#: How many are read; `python -m tests.mutation --lint` reads all.
SAMPLE = int(os.environ.get("ROWLEASE_MUTANTS", "24"))


@pytest.mark.skipif(scriptdom.missing() is not None, reason=scriptdom.missing() or "it is there")
def test_the_lint_notices_that_a_guard_is_missing() -> None:
    all_of_them = [one for one in mutants() if can_be_linted(one)]
    chosen = random.sample(all_of_them, min(SAMPLE, len(all_of_them)))
    rules = lint(chosen)
    survivors = [one for one, rule in zip(chosen, rules, strict=True) if rule is None]
    assert not survivors, [f"{one.path}: {one.name}" for one in survivors]
