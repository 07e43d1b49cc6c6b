"""The time limits that depend on each other: who waits how long for whom. In seconds.

Each follows from another one, or has its reason beside it; tests/unit/test_worker_times.py holds
their order. What concerns one module alone is in that module.
"""

from __future__ import annotations

# -- Is that worker alive? -----------------------------------------------------------------------

#: Between two heartbeats, and the share by which each comes sooner or later: many workers that
#: started together must not call together.
HEARTBEAT, HEARTBEAT_SPREAD = 5.0, 0.1
#: How long a heartbeat may take: the next is due by then.
HEARTBEAT_ANSWER = HEARTBEAT
#: A worker is shown as silent when its last heartbeat is older: two are missed then, surely.
WORKER_SILENT = 3 * HEARTBEAT
#: It counts as gone, and others act on that: what only it knew is unknown, what it drove ends. A
#: failover of the database, in which nobody can write a heartbeat, is often over before.
WORKER_GONE = 2 * WORKER_SILENT
#: A worker with free slots that claimed or beat so recently gets requests before those of lower
#: consumer priority: an idle one without notifications claims every second. Longer, and requests
#: wait for one that has died.
CLAIMED_LATELY = 2.0

# -- Is that process alive? ----------------------------------------------------------------------

#: Between two reports of a worker to its supervisor and the probes.
REPORT = 1.0
#: A supervised worker counts as stuck when its last report is older.
REPORT_SILENT = 10 * REPORT
#: Between two looks of the dispatcher at everything, at most.
STEP = 1.0
#: A dispatcher, and a supervisor, that has not taken a step for so long is stalled.
STALLED = 10 * STEP

# -- Does the database answer? -------------------------------------------------------------------

#: A call that waits so long is worth a line in the log, and its worker is not ready. A heartbeat
#: has been given up by then, and the next has begun.
CALL_SILENT = 2 * HEARTBEAT
#: After so long a worker is not live. Each of its calls has a deadline, two minutes at most:
#: whoever waits longer has lost it, and a restart would help.
CALL_STUCK = 180.0
#: A worker that has worked bears a refusal for so long: a grant that is revoked and granted again,
#: a routine that is dropped and made again.
REFUSAL_TOLERATED = 60.0

# -- The end -------------------------------------------------------------------------------------

#: Slots have to end by themselves when all is done.
SLOTS_SHUTDOWN = 2.0
#: The last outcomes have to reach the database, whatever is left of the grace time; and then each
#: thread has to end.
WORKER_SHUTDOWN = 5.0
#: A supervised worker may take to end, beyond the grace time: its outcomes, its threads, its slots
#: and the interpreter.
SUPERVISOR_SHUTDOWN = 2 * WORKER_SHUTDOWN + SLOTS_SHUTDOWN + 3.0
#: The executors of a Spark pool have beyond the grace time: they first notice that it is over.
POOL_SHUTDOWN = SUPERVISOR_SHUTDOWN + 5.0

# -- A lease -------------------------------------------------------------------------------------

#: Shares of a lease: renewed at the first look past the first; so many looks.
RENEW_AFTER, CHECKS_PER_LEASE = 1 / 3, 12
#: Between two looks at the leases at most.
LONGEST_CHECK_PAUSE = 1.0
#: Shares of the shortest lease that a renewal, and an exchange, may take, and seconds at least. A
#: renewal that has not answered goes out again, on a new connection: a lease has time for three.
#: A claim that took longer than half of a lease would bring leases that are about to end.
RENEW_TIMEOUT_SHARE, RENEW_TIMEOUT_LEAST = 1 / 6, 0.25
EXCHANGE_TIMEOUT_SHARE, EXCHANGE_TIMEOUT_LEAST = 1 / 2, 1.0
#: Before the end of a lease that was not renewed its task is killed: seconds, less where leases
#: are short.
LEASE_MARGIN, LEASE_MARGIN_SHARE = 1.0, 0.05
