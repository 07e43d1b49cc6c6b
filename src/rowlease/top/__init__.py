"""`rowlease top`: shows the queues and workers of a database live in a terminal.

It reads counters and small tables once a second, but never the queue itself.
"""

from __future__ import annotations

from rowlease.top.overview import Overview
from rowlease.top.sample import Sampler
from rowlease.top.screen import watch

__all__ = ["Overview", "Sampler", "watch"]
