"""The routines by which operators change something: each leaves a row in the view `operations`."""

from __future__ import annotations

import re

from rowlease.store.routines import load_routines, roles_of

#: Those that only read, although PostgreSQL must not take them for stable.
READS = {"diagnose_server", "diagnose_sessions", "listen_finished", "metrics_server", "now"}
#: Housekeeping, which every worker does all the time.
HOUSEKEEPING = {"advance_ids", "finish_batches", "maintain"}
#: All others that operators may call. A new routine is one of them until it is named above.
CHANGES = sorted(
    name
    for name, routine in load_routines("postgresql").items()
    if "rowlease_operator" in roles_of(name)
    and not re.search(r"^language \w+ stable\b", routine.body, re.MULTILINE)
    and name not in READS | HOUSEKEEPING
)
#: The verbs of `operate`, which have an audit of their own.
VERBS = ("break", "cancel", "purge", "reprioritise", "requeue", "reschedule")
