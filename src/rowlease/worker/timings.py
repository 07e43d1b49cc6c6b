"""The periods and deadlines of a worker that depend on each other, in seconds.

A limit that depends on another one is computed from it, or its comment says how it depends.
tests/unit/test_worker_timings.py checks their order. A limit that only one module uses is in
that module.
"""

from __future__ import annotations

from rowlease.model import HEARTBEAT

# -- Claims of an idle worker --------------------------------------------------------------------

#: The default of `poll` if the worker gets notifications. It must claim now and then, because a
#: notification may get lost.
POLL = 5.0
#: The default of `poll` if the worker gets no notifications, as on SQL Server or behind a proxy.
POLL_WITHOUT_NOTIFICATIONS = 1.0

# -- Liveness of a worker ------------------------------------------------------------------------

#: The share by which the time between two heartbeats varies at random, so that workers that
#: started together do not call together.
HEARTBEAT_SPREAD = 0.1
#: The deadline of a heartbeat. The next heartbeat is due by then.
HEARTBEAT_ANSWER = HEARTBEAT
#: A worker with free slots gets requests before workers of lower consumer priority if its last
#: claim is younger than this, which is longer than POLL_WITHOUT_NOTIFICATIONS. A longer time would
#: delay requests after the death of a worker.
CLAIMED_LATELY = 2.0

# -- Liveness of a process -----------------------------------------------------------------------

#: The time between two reports of a worker to its supervisor and the probes.
REPORT = 1.0
#: The age of the last report at which a supervised worker counts as stuck.
REPORT_SILENT = 10 * REPORT
#: The longest time between two steps of the dispatcher.
STEP = 1.0
#: A dispatcher or a supervisor counts as stalled if it has made no step for this time.
STALLED = 10 * STEP

# -- Calls to the database -----------------------------------------------------------------------

#: The time after which an unanswered call is logged and its worker counts as not ready. This time
#: is longer than the deadline of a heartbeat, so that another heartbeat is under way by then.
CALL_SILENT = 2 * HEARTBEAT
#: The time after which a worker with an unanswered call counts as not live. The longest deadline of
#: a worker's call is two minutes. A call that takes longer has escaped its deadline, and a restart
#: helps.
CALL_STUCK = 180.0
#: The time for which a worker repeats a call that is refused, from the first refusal on. It repeats
#: only calls that have succeeded before. An operator has this time to grant a revoked right again
#: or to create a dropped routine again.
REFUSAL_TOLERATED = 60.0

# -- Shutdown ------------------------------------------------------------------------------------

#: The time that slots have to end before they are killed.
SLOTS_SHUTDOWN = 2.0
#: The time that the last outcomes have to reach the database, even if the grace time is over. Then
#: the other threads of the worker have as much time again, all together.
WORKER_SHUTDOWN = 5.0
#: The time that a supervised worker has after the grace time to deliver its outcomes and to end its
#: threads, its slots and the interpreter.
SUPERVISOR_SHUTDOWN = 2 * WORKER_SHUTDOWN + SLOTS_SHUTDOWN + 3.0
#: The time that the executors of a Spark pool have to end after the grace time. This time is longer
#: than SUPERVISOR_SHUTDOWN, because executors notice with a delay that the pool is closed.
POOL_SHUTDOWN = SUPERVISOR_SHUTDOWN + 5.0

# -- Leases --------------------------------------------------------------------------------------

#: The share of a lease after which it is renewed.
RENEW_AFTER = 1 / 3
#: The number of checks of the leases during the shortest lease.
CHECKS_PER_LEASE = 12
#: The longest time between two checks of the leases.
LONGEST_CHECK_PAUSE = 1.0
#: Seconds after which a lease is asked for again whose row was locked, for example by a cancel.
BUSY_PAUSE = 0.2
#: The deadline of a renewal, as a share of the shortest lease. A renewal that is not answered is
#: repeated on a new connection. At least two renewals can go unanswered before a task is killed;
#: with the default lease of 30 s, three can.
RENEW_TIMEOUT_SHARE = 1 / 6
#: The shortest deadline of a renewal.
RENEW_TIMEOUT_LEAST = 0.25
#: The deadline of an exchange, as a share of the shortest lease. If the answer came later, less
#: than half of its leases' time would be left.
EXCHANGE_TIMEOUT_SHARE = 1 / 2
#: The shortest deadline of an exchange.
EXCHANGE_TIMEOUT_LEAST = 1.0
#: The seconds before the end of a lease at which its task is killed if the lease was not renewed.
LEASE_MARGIN = 1.0
#: The margin is this share of a lease that is shorter than 20 s.
LEASE_MARGIN_SHARE = 0.05
