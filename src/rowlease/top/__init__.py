"""`rowlease top`: shows the queues and workers of a database live in a terminal.

It reads counters and small tables once a second, but never the queue itself.
"""

from __future__ import annotations

from rowlease.top.frame import Frame
from rowlease.top.sample import Sampler
from rowlease.top.screen import watch

__all__ = ["Frame", "Sampler", "watch"]
