"""Tasks that do nothing, for benchmarks."""

from __future__ import annotations

from rowlease import task


@task
def noop(n: int) -> None: ...


@task
async def anoop(n: int) -> None: ...
