"""sql/sqlserver, as Microsoft's DacFx sees it: each routine names what is there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tsql import model

pytestmark = pytest.mark.skipif(model.missing() is not None, reason=model.missing() or "")

ROOT = Path(__file__).resolve().parents[2]
#: What DacFx says of code that is right, and why.
EXPLAINED = {
    r"object \[sys\]\.|objects: \[sys\]\.": "no database master with the views in sys",
    r"one or more unnamed objects": "it does not know the columns that openjson is given names for",
    r"\[unblock_groups\]: .* column h\.\w+ could": "a query that has such a column in its filter",
}
#: Statements with a mistake, and what DacFx says of it.
WRONG = {
    "select q.Requestid2 from rowlease.Queue as q;": "Requestid2",
    "select Reqest from rowlease.Queue;": "Reqest",
    "select q.RequestId from rowlease.Queues as q;": "Queues",
    "update rowlease.Queue set Nonce = 1;": "Nonce",
    "insert into rowlease.Load (LoadId, Nme) values ('a', 'b');": "Nme",
    "select q.RequestId from rowlease.Queue as q with (index (queue_none));": "queue_none",
    "select 1 from rowlease.Queue with (forceseek (queue_due (RequestId)));": "queue_due",
    "exec rowlease.absent;": "absent",
    "exec rowlease.depth @p_absent = N'a';": "p_absent",
    "select rowlease_internal.absent(1);": "absent",
    "declare @t table (A int); select t.B from @t as t;": "[B]",
    "declare @t table (A int); insert into @t (B) values (1);": "[B]",
    "declare @t table (A int); delete from rowlease.Load output 1 into @t (C);": "[C]",
    "create table #t (A int); select t.B from #t as t;": "[B]",
    "with c as (select q.Kind from rowlease.Queue as q) select c.Kin from c;": "Kin",
}  # fmt: skip


def said(*folders: Path) -> list[str]:
    """What DacFx says; from a process of its own, as .NET stays loaded."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.tsql.model", *map(str, folders)],
        cwd=ROOT, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_every_routine_names_what_is_there_and_a_wrong_name_is_found(tmp_path: Path) -> None:
    for number, statement in enumerate(WRONG):
        code = f"create or alter procedure rowlease.wrong_{number} as\n{statement}\n"
        (tmp_path / f"wrong_{number}.sql").write_text(code)
    found = said(tmp_path)
    of_ours = [message for message in found if "[wrong_" not in message]
    unexplained = [one for one in of_ours if not any(re.search(why, one) for why in EXPLAINED)]
    assert not unexplained, "\n".join(unexplained)
    assert not [message for message in of_ours if message.startswith("Error")]
    for explanation in EXPLAINED:
        assert any(re.search(explanation, one) for one in of_ours), f"not needed: {explanation}"
    for number, (statement, name) in enumerate(WRONG.items()):
        about = [message for message in found if f"[wrong_{number}]" in message]
        assert any(name in message for message in about), (statement, about)
