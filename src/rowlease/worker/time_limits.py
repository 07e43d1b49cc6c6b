"""The time limits that depend on each other, in seconds.

Each follows from another one, or has its reason beside it. Their order is checked by
tests/unit/test_worker_time_limits.py. A time limit of one module alone is in that module.
"""

from __future__ import annotations

# -- Liveness of a worker ------------------------------------------------------------------------

#: The time between two heartbeats, and the share by which it varies at random, so that workers
#: that started together do not call together.
HEARTBEAT, HEARTBEAT_SPREAD = 5.0, 0.1
#: The deadline of a heartbeat: the next one is due by then.
HEARTBEAT_ANSWER = HEARTBEAT
#: The age of the last heartbeat at which a worker is shown as silent: two are missing by then.
WORKER_SILENT = 3 * HEARTBEAT
#: The age at which it counts as dead: kinds that only it knew are unknown, and the executors of its
#: Spark pool end. Most failovers of the database, during which no heartbeat arrives, are shorter.
WORKER_GONE = 2 * WORKER_SILENT
#: How recently a worker with free slots must have called to get requests before workers of lower
#: consumer priority. An idle worker without notifications claims every second. A longer time would
#: delay requests after the death of a worker.
CLAIMED_LATELY = 2.0

# -- Liveness of a process -----------------------------------------------------------------------

#: The time between two reports of a worker to its supervisor and the probes.
REPORT = 1.0
#: The age of the last report at which a supervised worker counts as stuck.
REPORT_SILENT = 10 * REPORT
#: The longest time between two steps of the dispatcher.
STEP = 1.0
#: The time without a step after which a dispatcher or a supervisor is stalled.
STALLED = 10 * STEP

# -- Calls to the database -----------------------------------------------------------------------

#: The time after which an unanswered call is logged and its worker is not ready. It is longer than
#: the deadline of a heartbeat, so that another heartbeat is under way by then.
CALL_SILENT = 2 * HEARTBEAT
#: The time after which the worker is not live. The longest deadline of a call is two minutes, so a
#: call without an answer for longer has escaped its deadline, and a restart helps.
CALL_STUCK = 180.0
#: How long a worker tolerates refusals after its first success: time to grant a revoked right again
#: or to create a dropped routine again.
REFUSAL_TOLERATED = 60.0

# -- Shutdown ------------------------------------------------------------------------------------

#: The time that slots have to end by themselves.
SLOTS_SHUTDOWN = 2.0
#: The time that the last outcomes have to reach the database, even if the grace time is over, and
#: the time that each thread has to end after that.
WORKER_SHUTDOWN = 5.0
#: The time that a supervised worker has after the grace time: for its outcomes, its threads, its
#: slots and the interpreter.
SUPERVISOR_SHUTDOWN = 2 * WORKER_SHUTDOWN + SLOTS_SHUTDOWN + 3.0
#: The time that the executors of a Spark pool have after the grace time. It is longer, because an
#: executor notices with a delay that the pool is closed.
POOL_SHUTDOWN = SUPERVISOR_SHUTDOWN + 5.0

# -- Leases --------------------------------------------------------------------------------------

#: The share of a lease after which it is renewed, and how many checks fall into one lease.
RENEW_AFTER, CHECKS_PER_LEASE = 1 / 3, 12
#: The longest time between two checks of the leases.
LONGEST_CHECK_PAUSE = 1.0
#: The time limits of a renewal and of an exchange: a share of the shortest lease, and the least. A
#: renewal that is not answered is repeated on a new connection; a lease has time for three. After
#: half of a lease, the answer to a claim would bring leases that are about to end.
RENEW_TIMEOUT_SHARE, RENEW_TIMEOUT_LEAST = 1 / 6, 0.25
EXCHANGE_TIMEOUT_SHARE, EXCHANGE_TIMEOUT_LEAST = 1 / 2, 1.0
#: The time before the end of a lease at which its task is killed if it was not renewed: in seconds,
#: and as the largest share of a lease.
LEASE_MARGIN, LEASE_MARGIN_SHARE = 1.0, 0.05
