"""Sessions that end behind a proxy that pools transactions, and a proxy that ends.

`make faults` is the long form.
"""

from __future__ import annotations

import pytest

from tests import machine
from tests.stress.conftest import Judge
from tests.stress.rounds import KINDS

pytestmark = machine.needs("pgbouncer")
#: How often each fault happens.
TIMES = 6


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.is_pooled])
def test_faults_behind_a_proxy_break_no_promise(name: str, judge: Judge) -> None:
    judge(name, TIMES)
