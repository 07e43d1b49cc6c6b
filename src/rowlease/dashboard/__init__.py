"""The dashboard: pages of queues, requests and workers, as an ASGI application.

`rowlease dashboard` serves it. `Dashboard` can also be mounted in another application.
"""

from __future__ import annotations

from rowlease.dashboard.application import Dashboard

__all__ = ["Dashboard"]
