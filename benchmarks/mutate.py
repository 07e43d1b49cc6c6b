"""Does the contract suite notice when a guard is missing?

    python benchmarks/mutate.py [--jobs 2] [--only claim] [--list] [--skip-baseline]

Each mutant below breaks one guard of one routine: a comparison, a lock, an order, a count. For
each of them the checkout is copied, the routine changed in the copy, and the tests that are to
notice are run until one fails. It prints which test caught which mutant, and exits with 1 if any
survived, or if the tests do not pass unchanged. A mutant whose text is not found any more is an
error: the table below follows the routines.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ROUTINES = Path("sql") / "postgresql"
COPIED = ("src", "sql", "migrations", "tests", "benchmarks", "pyproject.toml", "alembic.ini")
#: Seconds that a mutant may take; one that hangs was noticed too, but should fail earlier.
PATIENCE = 300


class Mutant(NamedTuple):
    """One guard, broken.

    Attributes:
        name: what is missing.
        file: the routine's file, without its suffix.
        edits: texts and what they become; each is found exactly once.
        tests: names of test files of the contract suite that are to notice, in the order to try.
    """

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


def mutant(name: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, file, ((old, new),), tests)


TOKEN_G = "q.lock_token = g.token and q.locked_by is not null"
ID_J = "q.request_id = any(array[j.id])"
TOKEN_J = f"{ID_J} and q.lock_token = j.token and q.locked_by is not null"
LEASED_G = "q.locked_by is not null"
CANDIDATES = (
    "               order by q.due_time, q.request_id\n"
    "                 for no key update skip locked) f"
)

MUTANTS = [
    # One owner
    mutant("complete compares no token", "complete", TOKEN_G, LEASED_G, "1_one_owner"),
    Mutant(
        "fail compares no token",
        "fail",
        ((TOKEN_G, LEASED_G), (TOKEN_J, f"{ID_J} and {LEASED_G}")),
        ("1_one_owner",),
    ),
    Mutant(
        "abandon compares no token",
        "abandon",
        ((TOKEN_G, LEASED_G), (TOKEN_J, f"{ID_J} and {LEASED_G}")),
        ("1_one_owner",),
    ),
    Mutant(
        "renew compares no token",
        "renew",
        (
            (TOKEN_G, LEASED_G),
            ("and q.lock_token = h.token and q.locked_by is not null", f"and {LEASED_G}"),
        ),
        ("1_one_owner",),
    ),
    mutant(
        "complete does not ask whether the lease still holds",
        "complete",
        "q.lock_token = g.token and q.locked_by is not null",
        "q.lock_token = g.token",
        "1_one_owner",
        "status_life",
    ),
    mutant(
        "the token is not raised", "claim", "q.lock_token + 1", "q.lock_token", "1_one_owner"
    ),
    mutant(
        "leases are broken before they run out",
        "break_expired",
        "q.lock_expires_time <= p_now and ",
        "",
        "1_one_owner",
        "5_database_clock",
    ),
    # Never lost
    mutant(
        "a receipt is not looked at",
        "enqueue_many",
        "    if not found then\n      return query\n        select i.id, 'repeat'",
        "    if false then\n      return query\n        select i.id, 'repeat'",
        "2_never_lost",
    ),
    mutant(
        "a receipt does not say what was enqueued",
        "enqueue_many",
        "values (p_receipt_key, coalesce(v_ids, '{}'), v_now)",
        "values (p_receipt_key, '{}', v_now)",
        "2_never_lost",
    ),
    mutant(
        "a receipt does not say what was enqueued with keys",
        "enqueue_many",
        "    update rowlease.enqueue_receipt set request_ids = v_ids"
        " where receipt_key = p_receipt_key;\n",
        "",
        "2_never_lost",
    ),
    mutant(
        "a bounded queue admits whatever comes",
        "enqueue_many",
        "if v_settings.capacity is not null then",
        "if false then",
        "6_capacity",
    ),
    mutant(
        "cancel takes running requests away",
        "cancel",
        "where q.request_id = any(p_request_ids) and q.locked_by is null",
        "where q.request_id = any(p_request_ids)",
        "operators",
    ),
    # Order
    mutant(
        "claims wait for each other",
        "claim",
        CANDIDATES,
        CANDIDATES.replace(" skip locked", ""),
        "3_order",
    ),
    mutant(
        "claims do not lock what they look at",
        "claim",
        CANDIDATES,
        CANDIDATES.replace("\n                 for no key update skip locked", ""),
        "3_order",
    ),
    mutant(
        "a claim locks more than it takes",
        "claim",
        "          limit o.quota) c\n",
        "          order by u.due_time, u.request_id limit o.quota) c\n",
        "3_order",
    ),
    mutant(
        "due requests are moved one after the other's transaction",
        "wake_due",
        "for no key update skip locked",
        "for no key update",
        "3_order",
    ),
    mutant(
        "due time does not count",
        "claim",
        CANDIDATES,
        CANDIDATES.replace("q.due_time, ", ""),
        "3_order",
    ),
    mutant("answers come in any order", "dequeue", "order by c.place", "order by q.payload desc",
           "3_order"),
    mutant(
        "enqueue does not clamp",
        "add_plain",
        "least(coalesce(g.priority, 0), p_settings.max_priority)",
        "least(coalesce(g.priority, 0), 255)",
        "3_order",
    ),
    mutant(
        "enqueue without keys checks nothing",
        "add_plain",
        "g.*, rowlease.check_request(g.kind, g.priority, g.payload, g.max_attempts),",
        "g.*,",
        "bad_input",
    ),
    mutant(
        "enqueue does not clamp, with a key",
        "add_requests",
        "least(coalesce(f.priority, 0), p_settings.max_priority)",
        "least(coalesce(f.priority, 0), 255)",
        "dedup",
    ),
    mutant(
        "the inbox does not clamp",
        "fill_request",
        "least(coalesce(new.priority, 0), v_settings.max_priority)",
        "least(coalesce(new.priority, 0), 255)",
        "3_order",
    ),
    mutant(
        "promote does not clamp",
        "add_staged",
        "least(coalesce(s.priority, 0), p_settings.max_priority)",
        "least(coalesce(s.priority, 0), 255)",
        "3_order",
    ),
    mutant(
        "promote does not clamp what it only copies",
        "add_distinct",
        "         least(coalesce(s.priority, 0), p_settings.max_priority), p_now,",
        "         least(coalesce(s.priority, 0), 255), p_now,",
        "3_order",
    ),
    mutant(
        "lowered requests stay below the floor",
        "configure_queue",
        "returned = q.status = 'Pending'",
        "returned = false",
        "3_order",
    ),
    mutant(
        "a late priority above the maximum is not lowered",
        "dequeue_one",
        "perform rowlease.lower_priorities(p_queue_name,",
        "perform rowlease.lower_priorities('',",
        "3_order",
    ),
    # Floors
    mutant(
        "a floor never grows old",
        "floor_in_force",
        "between interval '0' and interval '1 second'",
        "between interval '0' and interval '1 hour'",
        "3_order",
    ),
    mutant(
        "a floor outlives a clock that is set back",
        "floor_in_force",
        "v_age < interval '0' then",
        "false then",
        "3_order",
    ),
    mutant(
        "a floor is kept while somebody may commit below it",
        "floor_in_force",
        "case when v_oldest >= v_xid then to_jsonb(p_now)",
        "case when true then to_jsonb(p_now)",
        "3_order",
    ),
    mutant(
        "a kept floor passes requests that wait",
        "keep_floor",
        "'times', array_agg(least(h.due_time, v_proven) order",
        "'times', array_agg(v_proven order",
        "3_order",
    ),
    mutant(
        "a kept floor passes what is still to be moved",
        "keep_floor",
        "v_proven := least(v_due, p_proven)",
        "v_proven := p_proven",
        "3_order",
    ),
    mutant(
        "nothing is kept of a floor",
        "keep_floor",
        "(q.due_time, q.request_id) >= (f.due_time, f.request_id)",
        "true",
        "10_horizon",
    ),
    mutant(
        "looking everywhere is not put off",
        "keep_floor",
        "case when v_cost > interval '50 ms'",
        "case when false",
        "10_horizon",
    ),
    mutant(
        "claims ignore their floor",
        "claim",
        "greatest(lag(k.due_time) over w, p_floor_times[o.priority + 1])",
        "greatest(lag(k.due_time) over w, '-infinity')",
        "10_horizon",
    ),
    mutant(
        "a floor passes what may be on its way",
        "raise_floor",
        "    if p_times[v_at] > p_moved then",
        "    if false then",
        "3_order",
        "8_wake_up",
    ),
    mutant(
        "a floor passes what a claim did not reach",
        "raise_floor",
        " and coalesce(cardinality(v_met), 0) < p_quotas[v_place]",
        "",
        "policies",
    ),
    mutant(
        "a returned request pulls the floor down",
        "raise_floor",
        "elsif (p_due_times[v_last], p_request_ids[v_last]) > (p_times[v_at], p_ids[v_at]) then",
        "elsif v_last is not null then",
        "10_horizon",
    ),
    mutant(
        "an abandoned request stays below the floor",
        "abandon",
        "returned = not j.is_dead",
        "returned = false",
        "3_order",
    ),
    mutant(
        "a broken lease stays below the floor",
        "break_expired",
        "returned = j.verdict is null",
        "returned = false",
        "3_order",
    ),
    mutant(
        "a successor stays below the floor",
        "unblock_groups",
        "set group_blocked = false, returned = true",
        "set group_blocked = false",
        "3_order",
    ),
    mutant(
        "leases ahead are stepped over each time",
        "next_event_ms",
        "if v_expires is not null then",
        "if false then",
        "10_horizon",
    ),
    # Plans
    mutant(
        "a completion looks through all that is in flight",
        "complete",
        TOKEN_G,
        "q.lock_token = g.token and q.status = 'Processing'",
        "10_speed",
    ),
    mutant(
        "returned requests cut a scan into pieces without an end",
        "claim",
        "                 and q.status = 'Pending' and not q.group_blocked and not q.returned\n"
        "                 and (q.due_time, q.request_id) >=",
        "                 and q.status = 'Pending' and not q.group_blocked and not q.returned\n"
        "                 and q.due_time <= p_until\n"
        "                 and (q.due_time, q.request_id) >=",
        "10_speed",
    ),
    # Attempts
    mutant("attempts are not counted", "claim", "q.num_attempts + 1", "greatest(1, q.num_attempts)",
           "4_attempts"),
    mutant(
        "max_attempts is not looked at",
        "fail",
        "(g.dead or q.num_attempts >= q.max_attempts)",
        "(g.dead)",
        "4_attempts",
    ),
    mutant(
        "nothing is quarantined",
        "break_expired",
        "when e.crashes >= s.max_crashes then",
        "when false then",
        "4_attempts",
    ),
    mutant(
        "what was fetched ahead has started",
        "claim",
        "case when l.place <= p_slots then p_now end",
        "p_now",
        "4_attempts",
    ),
    mutant(
        "abandons never count",
        "abandon",
        "q.num_abandons >= 9 as counts",
        "false as counts",
        "4_attempts",
    ),
    mutant(
        "retries do not wait",
        "fail",
        "when j.delay > interval '0' then 'Scheduled'",
        "when false then 'Scheduled'",
        "4_attempts",
        "scheduling",
    ),
    # Capacity
    mutant(
        "producers of a bounded queue do not take turns",
        "admit",
        "where s.queue_name = p_queue_name for update",
        "where s.queue_name = p_queue_name",
        "6_capacity",
    ),
    mutant(
        "producers of an unbounded queue take turns",
        "admit",
        "if v_settings.capacity is null then",
        "if v_settings.capacity < 0 then",
        "6_capacity",
    ),
    mutant(
        "waiters do not go by priority",
        "admit",
        "w.priority > v_priority\n          or ",
        "",
        "6_capacity",
    ),
    mutant(
        "waiters do not go first come, first served",
        "admit",
        "w.waiter_id < coalesce(p_waiter_id, w.waiter_id + 1)",
        "false",
        "6_capacity",
    ),
    mutant(
        "a newcomer jumps ahead of its equals",
        "admit",
        "coalesce(p_waiter_id, w.waiter_id + 1)",
        "p_waiter_id",
        "6_capacity",
    ),
    mutant(
        "places in the line never expire",
        "admit",
        "and w.expires_time > p_now",
        "",
        "6_capacity",
    ),
    mutant(
        "a place is not given up with its owner's patience",
        "wait_for_room",
        "least(p_wait_ms, 2000)",
        "2000",
        "6_capacity",
    ),
    mutant(
        "scheduled requests take no place",
        "admit",
        "sum(d.scheduled + d.pending)",
        "sum(d.pending)",
        "6_capacity",
    ),
    mutant(
        "a claim does not ring for those who wait for room",
        "tell_others",
        "perform pg_notify('rowlease_room', p_settings.queue_name)",
        "null",
        "6_capacity",
    ),
    # Consumer priority
    mutant(
        "lower workers take what higher ones could",
        "dequeue_one",
        "and rowlease.is_held_back(v_settings, p_worker_id, p_now)",
        "and false",
        "7_consumer_priority",
    ),
    mutant(
        "full workers hold others back",
        "is_held_back",
        "and w.busy < w.slots",
        "",
        "7_consumer_priority",
    ),
    mutant(
        "dead workers hold others back",
        "is_held_back",
        "     and w.heartbeat_time > p_now - interval '2 seconds'\n",
        "",
        "7_consumer_priority",
    ),
    mutant(
        "workers of other queues hold others back",
        "is_held_back",
        "     and w.queue_names::jsonb ? p_settings.queue_name\n",
        "",
        "7_consumer_priority",
    ),
    mutant(
        "a worker that fills up does not say so",
        "tell_others",
        "if p_num_leased >= p_slots then",
        "if false then",
        "7_consumer_priority",
    ),
    mutant(
        "where all are equal workers are asked for all the same",
        "dequeue_one",
        "v_settings.consumer_priorities\n               and ",
        "",
        "7_consumer_priority",
    ),
    # Wake-up
    mutant(
        "it rings while nobody is idle",
        "wake_workers",
        "if not p_always and pg_try_advisory_lock",
        "if false and pg_try_advisory_lock",
        "8_wake_up",
    ),
    mutant(
        "inside a transaction it may not ring",
        "wake_workers",
        "if not p_always and ",
        "if ",
        "8_wake_up",
    ),
    mutant(
        "idleness is not announced",
        "announce_idle",
        "perform pg_advisory_lock_shared(1919907436, hashtext(v_name))",
        "null",
        "8_wake_up",
    ),
    mutant(
        "an unblocked request does not ring",
        "unblock_groups",
        "perform rowlease.wake_workers(v_name, false)",
        "null",
        "8_wake_up",
    ),
    mutant(
        "who finds nothing is not told when there will be something",
        "next_event_ms",
        "v_next := least(v_next, v_due, v_expires)",
        "v_next := least(v_next, v_expires)",
        "8_sleep",
    ),
    # Loads
    mutant(
        "promote does not count",
        "promote",
        "if v_staged is distinct from p_expected_rows then",
        "if false then",
        "9_loads",
    ),
    mutant(
        "promote does not know what it has done",
        "promote",
        "if v_load.status = 'Promoted' then",
        "if false then",
        "9_loads",
    ),
    # Groups
    mutant(
        "a later request of a group goes first",
        "group_is_free",
        "       and g.request_id < p_request_id)",
        "       and false)",
        "groups",
    ),
    mutant(
        "two of a group are in flight",
        "group_is_free",
        "g.group_key = p_group_key and g.status = 'Processing')",
        "g.group_key = p_group_key and false)",
        "groups",
    ),
    Mutant(
        "a request is blocked behind one that is being finished",
        "block_groups",
        (
            ("limit 1 for no key update skip locked),\n", "limit 1),\n"),
            ("limit 1 for no key update skip locked)) as", "limit 1)) as"),
        ),
        ("groups",),
    ),
    mutant(
        "a request that is being blocked is not waited for",
        "unblock_groups",
        "       order by h.request_id\n         for no key update of q)",
        "       order by h.request_id)",
        "groups",
    ),
    mutant(
        "a successor that is cancelled meanwhile is the last",
        "unblock_groups",
        "select (select count(*) from head) > (select count(*) from held)",
        "select false",
        "groups",
    ),
    mutant(
        "an old snapshot may finish a request of a group",
        "block_groups",
        "where q.request_id = any(array[b.first_id]) and",
        "where false and",
        "groups",
    ),
    mutant(
        "the end of a request unblocks nobody",
        "complete",
        "perform rowlease.unblock_groups(v_queues, v_groups)",
        "null",
        "groups",
    ),
    # Dedup
    mutant(
        "a key that is taken is an error",
        "add_requests",
        "    on conflict (queue_name, dedup_key) where dedup_key is not null"
        " and status <> 'Failed'\n    do nothing\n",
        "",
        "dedup",
    ),
    mutant(
        "a duplicate does not say whose it is",
        "add_requests",
        "select coalesce(i.id, q.request_id), case",
        "select i.id, case",
        "dedup",
    ),
    mutant(
        "a dead letter comes back beside its successor",
        "requeue",
        "l.dedup_key = h.dedup_key and l.status <> 'Failed')",
        "l.dedup_key = h.dedup_key and false)",
        "dedup",
        "operators",
    ),
    # Scheduling
    mutant(
        "requests are due before their time",
        "wake_due",
        "q.due_time <= p_now and ",
        "",
        "scheduling",
    ),
    mutant(
        "a past instant goes before those that wait",
        "add_plain",
        "                            p_now) as due",
        "                            '-infinity') as due",
        "scheduling",
    ),
    mutant(
        "a past instant goes before those that wait, with a key",
        "add_requests",
        "interval '1 ms', p_now), p_now) as due",
        "interval '1 ms', p_now), '-infinity') as due",
        "dedup",
    ),
    mutant(
        "floors pass what is due and not moved",
        "dequeue_one",
        "    if more then\n      v_moved",
        "    if false then\n      v_moved",
        "scheduling",
    ),
    # Limits
    mutant(
        "claims of a limited queue do not take turns",
        "take_gates",
        "perform pg_advisory_xact_lock(1919907437, v_key)",
        "null",
        "limits",
    ),
    mutant(
        "gates are taken in any order",
        "take_gates",
        "select distinct hashtext(s.queue_name) from rowlease.queue_settings s\n"
        "     where s.queue_name = any(p_queue_names) and s.max_in_flight is not null order by 1",
        "select hashtext(s.queue_name) from rowlease.queue_settings s\n"
        "     where s.queue_name = any(p_queue_names) and s.max_in_flight is not null\n"
        "     order by array_position(p_queue_names, s.queue_name::text)",
        "limits",
    ),
    mutant(
        "what is in flight is not counted",
        "room_in_flight",
        "p_settings.max_in_flight - coalesce(sum(d.processing), 0)",
        "p_settings.max_in_flight",
        "limits",
    ),
    mutant(
        "a lease runs while its claim waits for the gate",
        "dequeue",
        "  perform rowlease.take_gates(p_queue_names);\n  v_now := rowlease.now();",
        "  v_now := rowlease.now();\n  perform rowlease.take_gates(p_queue_names);\n",
        "limits",
    ),
    mutant(
        "who takes the last place is not told to ask again",
        "dequeue_one",
        "held_back or v_room < p_limit and cardinality(request_ids) = v_room",
        "held_back or v_room = 0",
        "limits",
    ),
    mutant("a pause has no effect", "dequeue_one", "if v_settings.paused then", "if false then",
           "limits"),
    # Policies
    mutant(
        "weights do not count",
        "order_by_weight",
        "coalesce((p_settings.policy_weights ->> p)::float8, p + 1)",
        "1.0::float8",
        "policies",
    ),
    mutant(
        "shares are not drawn",
        "order_by_weight",
        "v_offset   float8 := random()",
        "v_offset   float8 := 0",
        "policies",
    ),
    mutant(
        "waiting does not count",
        "order_by_age",
        "p_settings.policy_aging_seconds * interval '1 second'",
        "interval '100 years'",
        "policies",
    ),
    mutant(
        "what a policy leaves free stays free",
        "claim_order",
        "quotas := array_fill(p_limit,",
        "quotas := array_fill(case when p_round > 1 then 0 else p_limit end,",
        "policies",
    ),
    # Depth
    mutant(
        "a claim is not counted",
        "claim",
        "select p_queue_name, c.priority, -count(*), count(*) from claimed c",
        "select p_queue_name, c.priority, 0, 0 from claimed c",
        "depth",
    ),
    mutant(
        "a completion is not counted",
        "complete",
        "select k.queue_name, k.priority, -count(*), count(*)",
        "select k.queue_name, k.priority, 0, count(*)",
        "depth",
    ),
    mutant(
        "a due request is counted twice",
        "wake_due",
        "select p_queue_name, m.priority, -count(*), count(*) from moved m",
        "select p_queue_name, m.priority, 0, count(*) from moved m",
        "depth",
    ),
    mutant(
        "folding forgets dead letters",
        "fold_depth",
        "           sum(f.failed), sum(f.num_finished)",
        "           0, sum(f.num_finished)",
        "depth",
    ),
    # Operators
    mutant(
        "renewing waits for who finishes a request",
        "renew",
        "for no key update of q skip locked",
        "for no key update of q",
        "interleavings",
    ),
    mutant(
        "batches are locked in any order",
        "complete",
        "from unnest(p_request_ids, p_lock_tokens, p_results) as g(id, token, result)\n"
        "     order by g.id)",
        "from unnest(p_request_ids, p_lock_tokens, p_results) as g(id, token, result))",
        "interleavings",
    ),
]  # fmt: skip


class Verdict(NamedTuple):
    mutant: Mutant
    caught_by: str | None
    seconds: float
    trouble: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--only", default="", help="mutants whose name or file holds this text")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--skip-baseline", action="store_true", help="the tests are known to pass")
    given = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if given.only in m.name or given.only in m.file]
    for one in chosen:
        mutated(one)  # says what does not fit any more, before anything is run
    if given.list:
        for one in chosen:
            print(f"{one.file:16} {one.name}")
        return 0
    if not given.skip_baseline and not passes(sorted({t for m in chosen for t in m.tests})):
        print("the tests fail as they are; nothing can be said about mutants")
        return 1
    with ThreadPoolExecutor(given.jobs) as pool:
        survivors = 0
        for number, verdict in enumerate(pool.map(judge, chosen), 1):
            said = verdict.caught_by or verdict.trouble or "SURVIVED"
            survivors += verdict.caught_by is None
            print(
                f"{number:>3}/{len(chosen)} {verdict.seconds:>4.0f} s  {verdict.mutant.file:16}"
                f" {verdict.mutant.name:58} {said}",
                flush=True,
            )
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


def mutated(one: Mutant) -> str:
    """The routine's file with its guard broken.

    Raises:
        ValueError: the guard is not there, or more than once.
    """
    text = (ROOT / ROUTINES / f"{one.file}.sql").read_text(encoding="utf-8")
    for old, new in one.edits:
        if text.count(old) != 1:
            raise ValueError(f"{one.name!r}: found {text.count(old)} times in {one.file}: {old!r}")
        text = text.replace(old, new)
    return text


def judge(one: Mutant) -> Verdict:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rowlease-mutant-") as folder:
        home = copied(Path(folder))
        (home / ROUTINES / f"{one.file}.sql").write_text(mutated(one), encoding="utf-8")
        try:
            run = pytest(home, one.tests)
        except subprocess.TimeoutExpired:
            return Verdict(one, "(it hangs)", time.monotonic() - began)
    seconds = time.monotonic() - began
    failed = re.search(r"^FAILED tests/contract/test_(.+?)(?: - .*)?$", run.stdout, re.MULTILINE)
    if run.returncode == 1 and failed:
        return Verdict(one, failed[1].replace(".py::", ": "), seconds)
    if "+ Timeout +" in run.stdout + run.stderr:
        return Verdict(one, "(it hangs)", seconds)
    if run.returncode == 0:
        return Verdict(one, None, seconds)
    # Not a test that failed but one that could not be run: the mutant is no SQL, or the like.
    return Verdict(one, None, seconds, f"TROUBLE {run.stdout.strip()[-300:]}")


def passes(tests: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="rowlease-mutant-") as folder:
        run = pytest(copied(Path(folder)), tests, patience=1800)
    if run.returncode:
        print(run.stdout[-3000:])
    return run.returncode == 0


def copied(home: Path) -> Path:
    """A copy of what the tests need; its package finds its own routines."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, home / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, home / name)
    return home


def pytest(
    home: Path, tests: Sequence[str], patience: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    files = [f"tests/contract/test_{name}.py" for name in tests]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider",
         "--tb=no", "-rf", *files],
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(home / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
