"""The task of the soak, in a module without others, so that each executor can run it."""

from __future__ import annotations

from datetime import timedelta

from rowlease import task


@task(max_attempts=2, retry_pause=timedelta(milliseconds=1))
async def varied(n: int) -> dict[str, int]:
    """Returns a result, or fails twice."""
    if n % 10 == 0:
        raise ValueError(n)
    return {"n": n}
