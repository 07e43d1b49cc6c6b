"""Runs pgbench on rowlease's routines, to measure the server without Python."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.servers import programs


def claiming(batch: int) -> str:
    """A script that claims a number of requests and completes them, in one statement."""
    return f"""
with claimed as materialized (
  select * from rowlease.dequeue('pgbench', '{{default}}', {batch},
                                 p_floor => nullif(:floor, 'none'))),
held as materialized (
  select array_agg(request_id) filter (where request_id is not null) as ids,
         array_agg(lock_token) filter (where request_id is not null) as tokens,
         coalesce(max(claimed.floor), 'none') as next
    from claimed)
select held.next as floor,
       (select count(*) from rowlease.complete(held.ids, held.tokens)) as done
  from held where held.ids is not null
\\gset
"""


def pgbench(dsn: str, script: str, options: Sequence[object]) -> str:
    """Run a script; return the output of pgbench."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "script.sql")
        file.write_text(script)
        always = ["--no-vacuum", "--protocol=prepared", "-D", "floor=none", "-f", file, *options]
        command = [str(programs() / "pgbench"), *map(str, always), dsn]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout + done.stderr


def rates(reported: str) -> list[float]:
    """The transactions per second that pgbench reports while it runs (-P)."""
    return [float(each) for each in re.findall(r"^progress: .*?, ([0-9.]+) tps", reported, re.M)]
