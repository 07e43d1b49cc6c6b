"""Notices that a coroutine blocks the event loop of a worker, and names its request."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from types import FrameType
from typing import Any

from rowlease.clock import now
from rowlease.context import running
from rowlease.events import EventLoopBlocked, EventLoopFreed, Events
from rowlease.model import LeasedRequest
from rowlease.worker.claims.leases import Lease

#: Seconds for which one task must keep the event loop from running before this is reported.
BLOCKED_SECONDS = 1.0
#: Seconds between two looks at the event loop.
BLOCK_CHECK_SECONDS = 0.25


class BlockWatch:
    """Notices that a task blocks the event loop, and names its request.

    The dispatcher's thread asks the event loop for an answer now and then. If none comes, it looks
    which task runs. A loop that merely has much to do runs another task at the next look.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        serving: dict[int, tuple[Lease, float, asyncio.Task[None]]],
        events: Events,
    ) -> None:
        self._loop = loop
        self._serving = serving
        self._events = events
        self._look_at = 0.0
        self._waits = False
        self._suspect: asyncio.Task[Any] | None = None
        self._asked_at = self._since = 0.0
        self._reported: EventLoopBlocked | None = None

    def look(self, thread: threading.Thread) -> None:
        """Report a task that has blocked the event loop, which runs in this thread."""
        at = now()
        if at < self._look_at:
            return
        self._look_at = at + BLOCK_CHECK_SECONDS
        if not self._waits:
            if self._serving:
                self._waits = True
                self._asked_at = at
                self._loop.call_soon_threadsafe(self._answer)
            return
        task = asyncio.current_task(self._loop)
        if task is None or task is not self._suspect:
            self._since = at if self._suspect else self._asked_at
            self._suspect = task
        elif at - self._since >= BLOCKED_SECONDS and not self._reported:
            place = place_of(sys._current_frames().get(thread.ident or 0))
            self._reported = EventLoopBlocked(self._request_of(task), at - self._since, place)
            self._events.emit(self._reported)

    def _answer(self) -> None:
        """Answer in the event loop."""
        reported, self._reported, self._suspect = self._reported, None, None
        self._waits = False
        if reported:
            self._events.emit(EventLoopFreed(reported.request, now() - self._since))

    def _request_of(self, task: asyncio.Task[Any]) -> LeasedRequest | None:
        """The request of an asyncio task, which may be one that the request's task has created."""
        get_context: Any = getattr(task, "get_context", dict)  # Python 3.11 does not tell
        context = get_context().get(running)
        for lease, _, this in tuple(self._serving.values()):
            if this is task or (context and context.request_id == lease.request.request_id):
                return lease.request
        return None


def place_of(frame: FrameType | None) -> str:
    """Where the innermost coroutine of a stack is."""
    while frame and frame.f_back and not frame.f_code.co_flags & inspect.CO_COROUTINE:
        frame = frame.f_back
    if frame is None:
        return ""
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
