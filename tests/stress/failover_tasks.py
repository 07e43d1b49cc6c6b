"""The task of the failover test; a module of its own that workers import."""

from __future__ import annotations

import asyncio

from rowlease import task


@task
async def answer(n: int, seconds: float) -> dict[str, int]:
    """Say which payload this was, after so many seconds."""
    await asyncio.sleep(seconds)
    return {"n": n}
