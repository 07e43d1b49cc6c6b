"""The history of a run with faults, and a checker of the promises over the whole of it.

A history has two witnesses. Producers and workers record what they did, and what they were
answered. The database records each change of each request that it kept, with its time (see
`witness.py`). The checker compares the two, so a drill needs no asserts of its own. It does not
check the order of priorities, which test_3_order and test_model do without faults.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

E = TypeVar("E")
WAITING = ("Scheduled", "Pending")
LIVE = (*WAITING, "Processing")
OVER = ("Complete", "Cancelled", "Deleted")
#: Faults after which claims that were answered may be undone; see docs/recovery.md.
UNDOING = ("database crash", "failover")
#: How many seconds the clock of a drill is ahead of the first one, at most.
STEP = 3.0
#: The tenth abandon in a row counts as an attempt.
MAX_ABANDONS = 9


class Asked(NamedTuple):
    """A call of a producer; `numbers` are in the payloads of its requests.

    Attributes:
        answer: ok, repeat, duplicate, refused, or unknown if there was none.
        ids: the request ids of the answer.
        server: how many servers had been promoted before the one that answered.
    """

    numbers: tuple[int, ...]
    answer: str = "ok"
    ids: tuple[int, ...] = ()
    by: str = "producer"
    dedup: str | None = None
    server: int = 0

    @property
    def may_be_duplicate(self) -> bool:
        """Whether it enqueued nothing, because of its key."""
        return self.answer == "duplicate" or (self.answer == "repeat" and self.dedup is not None)


class Change(NamedTuple):
    """A change of a request's row that the database kept; times are in seconds of its clock.

    Attributes:
        status: that of the row, or Deleted.
        number: the number in its payload.
        result: the number in its result, if its task returns it.
    """

    request: int
    status: str
    at: float = 0.0
    token: int = 0
    by: str | None = None
    expires: float | None = None
    attempts: int = 0
    crashes: int = 0
    abandons: int = 0
    max_attempts: int = 5
    due: float = 0.0
    number: int | None = None
    group: str | None = None
    dedup: str | None = None
    batch: str | None = None
    result: int | None = None


class BatchEnd(NamedTuple):
    """The database has noted that a batch is finished."""

    batch: str


class Told(NamedTuple):
    """A worker was answered that it holds this lease."""

    request: int
    token: int
    by: str


class Report(NamedTuple):
    """A worker's report about a lease, and its answer.

    Attributes:
        verb: complete, fail, `give up` for a failure without a retry, abandon, snooze or renew.
        answer: an outcome; accepted, for ok or repeat; or unknown.
    """

    request: int
    token: int
    verb: str = "complete"
    answer: str = "ok"
    by: str = "a"
    server: int = 0


class Effect(NamedTuple):
    """A row of the user, written in the transaction of the outcome."""

    request: int
    token: int


class Ordered(NamedTuple):
    """An operator's order: cancel, requeue, break or purge."""

    request: int
    verb: str


class Fault(NamedTuple):
    """Something was killed, stopped, cut or lost."""

    what: str


Event = Asked | Change | BatchEnd | Told | Report | Effect | Ordered | Fault


@dataclass
class History:
    """What happened, in any order; changes and ends of batches in the database's.

    Attributes:
        pays: whether this request is completed in one transaction with an effect.
        is_drained: whether the run went on until nothing was left to do.
        final: the status of each request at the end; None if nobody looked.
        max_crashes: the queue's setting.
        keeps_commits: whether a failover may lose nothing, because commits wait for the standby.
    """

    events: list[Event] = field(default_factory=list)
    pays: Callable[[Change], bool] = lambda row: False
    is_drained: bool = True
    final: dict[int, str] | None = None
    max_crashes: int = 3
    keeps_commits: bool = False

    def add(self, *events: Event) -> None:
        """Record events; any thread may."""
        self.events.extend(events)


#: Each way to break a promise of the design: the promise, and the sentence about it.
RULES: dict[str, tuple[int, str]] = {
    "two owners": (1, "request {0} was leased to {1} while the lease of {2} was valid"),
    "token not larger": (1, "request {0} was leased with token {1}; it had token {2} before"),
    "token told twice": (1, "token {1} of request {0} was given to {2} and to {3}"),
    "lease never granted": (1, "{2} was told that it holds request {0}, token {1}; it never did"),
    "lease over at its claim": (1, "the lease of request {0}, token {1}, was over at its claim"),
    "lease of nobody": (1, "request {0} was leased to nobody"),
    "lease changed hands": (1, "request {0} went from {1} to {2} without a new token"),
    "lease shortened": (1, "the lease of request {0}, token {1}, was made shorter"),
    "broken early": (1, "the lease of request {0}, token {1}, was broken {2:.3f} s before its end"),
    "broken unasked": (1, "a valid lease of request {0} was ended, and nobody ordered it"),
    "late outcome": (1, "the outcome of request {0}, token {1}, was accepted after its lease"),
    "outcome of a stranger": (1, "an outcome of request {0} was accepted for token {1}: no lease"),
    "ended by another": (1, "request {0} was completed with token {1}; {2} held it"),
    "completed without a lease": (1, "request {0} was completed while it was {1}"),
    "lost": (2, "number {0} was acknowledged, and the database has no request of it"),
    "lost part is not the end": (2, "a failover lost number {0}, and kept {1} of a later call"),
    "doubled": (2, "number {0} has {1} requests"),
    "half of a call": (2, "of a call for {0} requests, {1} exist"),
    "refused and enqueued": (2, "number {0} was refused, and the database has a request of it"),
    "asked by nobody": (2, "nobody asked for number {0}, and the database has a request of it"),
    "answers crossed": (2, "number {0} was answered with request {1}, which has number {2}"),
    "id handed out twice": (2, "id {0} was handed out for number {1} and for number {2}"),
    "duplicate of nothing": (2, "number {0} was a duplicate of {1}, which never had its key"),
    "two of a key": (2, "requests {0} and {1} were live with one key, {2}"),
    "vanished": (2, "request {0} was deleted while it was {1}, and nobody ordered it"),
    "cancelled unasked": (2, "request {0} was cancelled, and nobody ordered it"),
    "changed after its end": (2, "request {0} was {1} and became {2}"),
    "never ended": (2, "request {0} is {1} at the end"),
    "outcome lost": (2, "the {2} of request {0}, token {1}, was acknowledged and not kept"),
    "outcome denied": (2, "the outcome of request {0}, token {1}, was kept; the answer was {2}"),
    "two outcomes": (2, "two outcomes of request {0}, token {1}, were accepted"),
    "repeat of nothing": (2, "an outcome of request {0}, token {1}, was a repeat of none"),
    "result of another": (2, "request {0} has the result of number {1}; its own is {2}"),
    "effect twice": (2, "request {0} has its effect {1} times"),
    "effect without an outcome": (2, "request {0} has an effect, and was not completed"),
    "effect of another lease": (2, "request {0} has the effect of token {1}; {2} completed it"),
    "outcome without an effect": (2, "{1} completed request {0}, and its effect is not there"),
    "differs at the end": (2, "request {0} is {1} at the end; its last change made it {2}"),
    "two of a group": (3, "requests {0} and {1} of group {2} ran at once"),
    "passed in its group": (3, "request {1} of group {2} was leased before {0}, which is earlier"),
    "claimed before it was due": (3, "request {0} was leased {1:.3f} s before it was due"),
    "claimed dead": (4, "request {0} was leased as a dead letter"),
    "attempt not counted": (4, "request {0} had {1} attempts, and {2} after a claim"),
    "attempts changed": (4, "request {0} had {1} attempts, and {2} without a claim"),
    "too many attempts": (4, "request {0} was leased for attempt {1} of {2}"),
    "tried on": (4, "request {0} waits again after attempt {1} of {2}"),
    "crashed on": (4, "request {0} waits again after crash {1}; {2} are the most"),
    "crashes uncounted": (4, "request {0} had {1} crashes, and then {2}"),
    "abandoned for ever": (4, "request {0} was abandoned {1} times in a row at no cost"),
    "dead too early": (4, "request {0} is dead at attempt {1} of {2}, crash {3}, unasked"),
    "dead while it waited": (4, "request {0} became a dead letter while it was {1}"),
    "revived unasked": (4, "request {0} was a dead letter and became {1}; nobody ordered it"),
    "batch ended twice": (2, "batch {0} ended twice"),
    "batch ended early": (2, "batch {0} ended while request {1} of it was {2}"),
    "batch never ended": (2, "batch {0} has not ended"),
}


class Broken(NamedTuple):
    """A broken promise."""

    rule: str
    promise: int
    sentence: str

    def __str__(self) -> str:
        return f"promise {self.promise}, {self.rule}: {self.sentence}"


def check(history: History) -> list[Broken]:
    """Every promise that the history breaks."""
    return _Checker(history).run()


def lost(history: History) -> list[int]:
    """The numbers that were acknowledged and are not there: what a failover has lost."""
    kept = {each.number for each in _of(Change, history.events)}
    return [n for call in _acknowledged(history) for n in call.numbers if n not in kept]


def _of(kind: type[E], events: Iterable[object]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def _acknowledged(history: History) -> list[Asked]:
    calls = _of(Asked, history.events)
    return [one for one in calls if one.answer in ("ok", "repeat") and not one.may_be_duplicate]


class _Checker:
    def __init__(self, history: History) -> None:
        self.history = history
        self.found: list[Broken] = []
        self.asked = _of(Asked, history.events)
        self.faults = Counter(fault.what for fault in _of(Fault, history.events))
        #: How many servers have been promoted.
        self.server = self.faults["failover"]
        #: How far the clock may have been ahead or behind when a routine read it.
        self.ahead = STEP if self.faults["database clock stepped"] else 0.0
        self.ordered = {(one.request, one.verb) for one in _of(Ordered, history.events)}
        self.gives_up = {
            (one.request, one.token) for one in _of(Report, history.events) if one.verb == "give up"
        }
        #: The last change of each request, and the first.
        self.rows: dict[int, Change] = {}
        self.first: dict[int, Change] = {}
        #: Live requests by key and by group, and the ends of leases: the status that followed.
        self.keys: dict[str, int] = {}
        self.groups: defaultdict[str, set[int]] = defaultdict(set)
        self.granted: dict[tuple[int, int], str | None] = {}
        self.ends: dict[tuple[int, int], str] = {}
        self.batches: defaultdict[str, set[int]] = defaultdict(set)
        self.ended: set[str] = set()

    def run(self) -> list[Broken]:
        for event in self.history.events:
            if isinstance(event, Change):
                self.change(self.rows.get(event.request), event)
            elif isinstance(event, BatchEnd):
                self.end_batch(event.batch)
        self.producers()
        self.leases()
        self.reports()
        self.effects()
        self.end()
        return self.found

    def broken(self, rule: str, *values: object) -> None:
        promise, sentence = RULES[rule]
        self.found.append(Broken(rule, promise, sentence.format(*values)))

    # -- what the database kept

    def change(self, old: Change | None, new: Change) -> None:
        id = new.request
        if old is None:
            self.first[id] = new
        elif old.status in OVER:
            self.broken("changed after its end", id, old.status, new.status)
        elif old.status == "Processing":
            self.leave(old, new) if new.status != "Processing" else self.stay(old, new)
        elif new.status != "Processing":
            self.wait(old, new)
        if new.status == "Processing" and (
            old is None or (old.status, old.token) != ("Processing", new.token)
        ):
            self.claim(old, new)
        self.note(old, new)

    def note(self, old: Change | None, new: Change) -> None:
        """Keep the keys, groups and batches of what is live."""
        self.rows[new.request] = new
        if new.batch is not None:
            self.batches[new.batch].add(new.request)
        if new.dedup is not None:
            other = self.keys.get(new.dedup, new.request)
            if new.status in LIVE and other != new.request:
                self.broken("two of a key", other, new.request, new.dedup)
            if new.status in LIVE:
                self.keys[new.dedup] = new.request
            elif other == new.request:
                self.keys.pop(new.dedup, None)
        if new.group is not None:
            live = self.groups[new.group]
            live.add(new.request) if new.status in LIVE else live.discard(new.request)

    def claim(self, old: Change | None, new: Change) -> None:
        id = new.request
        self.granted[id, new.token] = new.by
        if new.by is None:
            self.broken("lease of nobody", id)
        if new.expires is None or new.expires <= new.at - self.ahead:
            self.broken("lease over at its claim", id, new.token)
        if new.due > new.at + self.ahead:
            self.broken("claimed before it was due", id, new.due - new.at)
        if new.attempts > new.max_attempts:
            self.broken("too many attempts", id, new.attempts, new.max_attempts)
        before = 0 if old is None else old.attempts
        if new.attempts != before + 1:
            self.broken("attempt not counted", id, before, new.attempts)
        if old is not None:
            if new.token <= old.token:
                self.broken("token not larger", id, new.token, old.token)
            if old.status == "Failed":
                self.broken("claimed dead", id)
            if (
                old.status == "Processing"
                and old.expires is not None
                and (old.expires > new.at + self.ahead)
            ):
                self.broken("two owners", id, new.by, old.by)
        for other in sorted(self.groups[new.group]) if new.group is not None else ():
            if other != id and self.rows[other].status == "Processing":
                self.broken("two of a group", other, id, new.group)
            elif other < id:
                self.broken("passed in its group", other, id, new.group)

    def stay(self, old: Change, new: Change) -> None:
        """A renewal, or a note in the row of a lease."""
        if new.token != old.token:
            return
        if new.by != old.by:
            self.broken("lease changed hands", new.request, old.by, new.by)
        if old.expires is not None and (
            new.expires is None or new.expires + self.ahead < old.expires
        ):
            self.broken("lease shortened", new.request, new.token)
        self.same_attempts(old, new)

    def same_attempts(self, old: Change, new: Change) -> None:
        if new.attempts != old.attempts:
            self.broken("attempts changed", new.request, old.attempts, new.attempts)

    def leave(self, old: Change, new: Change) -> None:
        """A lease ends: by its holder, or because it ran out, or by an operator."""
        id, lease = new.request, (new.request, old.token)
        if new.status == "Deleted":
            self.broken("vanished", id, old.status)
            return
        # The end of a broken lease stays in the row, so that a late report is told of it.
        is_broken = new.status != "Complete" and new.expires is not None
        if not is_broken:
            self.ends[lease] = new.status
        if new.status == "Complete":
            if (new.token, new.by) != (old.token, old.by):
                self.broken("ended by another", id, new.token, old.by)
            self.result(new)
            return
        if new.status == "Cancelled":
            self.cancelled(id)
        if new.token != old.token:
            if (id, "break") not in self.ordered:
                self.broken("broken unasked", id)
        elif is_broken and old.expires is not None and new.at + self.ahead < old.expires:
            self.broken("broken early", id, new.token, old.expires - new.at)
        if new.attempts not in (old.attempts, old.attempts - 1):
            self.broken("attempts changed", id, old.attempts, new.attempts)
        if new.crashes not in (old.crashes, old.crashes + is_broken):
            self.broken("crashes uncounted", id, old.crashes, new.crashes)
        if new.abandons > MAX_ABANDONS:
            self.broken("abandoned for ever", id, new.abandons)
        if new.status in WAITING and new.attempts >= new.max_attempts:
            self.broken("tried on", id, new.attempts, new.max_attempts)
        if new.status in WAITING and new.crashes >= self.history.max_crashes:
            self.broken("crashed on", id, new.crashes, self.history.max_crashes)
        if (
            new.status == "Failed"
            and new.attempts < new.max_attempts
            and new.crashes < self.history.max_crashes
            and lease not in self.gives_up
        ):
            self.broken("dead too early", id, new.attempts, new.max_attempts, new.crashes)

    def wait(self, old: Change, new: Change) -> None:
        """From waiting or dead to anything but a lease."""
        id = new.request
        match new.status:
            case "Complete":
                self.broken("completed without a lease", id, old.status)
            case "Cancelled":
                self.cancelled(id)
            case "Deleted":
                if (id, "purge") not in self.ordered:
                    self.broken("vanished", id, old.status)
            case "Failed":
                if old.status != "Failed":
                    self.broken("dead while it waited", id, old.status)
            case _ if old.status == "Failed":
                if (id, "requeue") not in self.ordered:
                    self.broken("revived unasked", id, new.status)
            case _:
                self.same_attempts(old, new)

    def cancelled(self, id: int) -> None:
        if (id, "cancel") not in self.ordered:
            self.broken("cancelled unasked", id)

    def result(self, new: Change) -> None:
        if new.result is not None and new.result != new.number:
            self.broken("result of another", new.request, new.result, new.number)

    def end_batch(self, batch: str) -> None:
        if batch in self.ended:
            self.broken("batch ended twice", batch)
        self.ended.add(batch)
        for id in sorted(self.batches[batch]):
            if (status := self.rows[id].status) in LIVE:
                self.broken("batch ended early", batch, id, status)

    # -- what producers were told

    def producers(self) -> None:
        made = defaultdict(list)
        for id, row in self.first.items():
            if row.number is not None:
                made[row.number].append(id)
        for number, ids in made.items():
            if len(ids) > 1:
                self.broken("doubled", number, len(ids))
        wanted: dict[int, str] = {}
        named: dict[tuple[int, int], int] = {}
        for call in self.asked:
            wanted |= dict.fromkeys(call.numbers, call.answer)
            kept = sum(number in made for number in call.numbers)
            if call.may_be_duplicate:
                keys = {row.dedup for row in self.first.values()} - {None}
                for number, id in zip(call.numbers, call.ids, strict=True):
                    # The id is 0 if the earlier request had just been finished.
                    has_key = (
                        self.first[id].dedup == call.dedup
                        if id in self.first
                        else (id == 0 and call.dedup in keys)
                    )
                    if not has_key:
                        self.broken("duplicate of nothing", number, id)
                continue
            match call.answer:
                case "unknown":
                    if kept not in (0, len(call.numbers)):
                        self.broken("half of a call", len(call.numbers), kept)
                case "refused":
                    for number in call.numbers:
                        if number in made:
                            self.broken("refused and enqueued", number)
                case _:
                    self.acknowledged(call, made, named)
        for number in made.keys() - wanted.keys():
            self.broken("asked by nobody", number)
        self.lost_part(made)

    def acknowledged(
        self, call: Asked, made: dict[int, list[int]], named: dict[tuple[int, int], int]
    ) -> None:
        for number, id in zip(call.numbers, call.ids or [None] * len(call.numbers), strict=True):
            if id is not None:
                other = named.setdefault((call.server, id), number)
                if other != number:
                    self.broken("id handed out twice", id, other, number)
            if number not in made:
                if self.history.keeps_commits or call.server == self.server:
                    self.broken("lost", number)
            elif id is not None and id not in made[number]:
                row = self.first.get(id)
                self.broken("answers crossed", number, id, row.number if row else None)

    def lost_part(self, made: dict[int, list[int]]) -> None:
        """Of one producer, who calls one after the other, a failover loses the last calls."""
        gone: dict[tuple[str, int], int] = {}
        for call in _acknowledged(self.history):
            if call.server == self.server:
                continue
            for number in call.numbers:
                if number not in made:
                    gone.setdefault((call.by, call.server), number)
                elif (first := gone.get((call.by, call.server))) is not None:
                    self.broken("lost part is not the end", first, number)

    # -- what workers were told

    def leases(self) -> None:
        holders: dict[tuple[int, int], str] = {}
        for told in _of(Told, self.history.events):
            lease = told.request, told.token
            holder = holders.setdefault(lease, told.by)
            if holder != told.by:
                self.broken("token told twice", *lease, holder, told.by)
            if lease not in self.granted and not any(self.faults[what] for what in UNDOING):
                self.broken("lease never granted", *lease, told.by)

    def reports(self) -> None:
        accepted: set[tuple[int, int]] = set()
        for report in _of(Report, self.history.events):
            if report.server < self.server or report.answer == "unknown":
                continue
            lease = report.request, report.token
            end, is_end = self.ends.get(lease), report.verb != "renew"
            if report.answer in ("ok", "accepted"):
                is_first = report.answer == "ok"
                if lease not in self.granted:
                    self.broken("outcome of a stranger", *lease)
                elif is_end and end is None:
                    later = [t for id, t in self.granted if id == lease[0] and t > lease[1]]
                    kept = "late outcome" if later else "outcome lost"
                    self.broken(kept, *lease, report.verb)
                elif is_end and is_first and (report.verb == "complete") != (end == "Complete"):
                    # A request that was asked to stop is cancelled with any other outcome.
                    self.broken("outcome lost", *lease, report.verb)
                if is_end and is_first:
                    if lease in accepted:
                        self.broken("two outcomes", *lease)
                    accepted.add(lease)
            elif report.answer == "repeat" and end is None:
                self.broken("repeat of nothing", *lease)
            elif report.answer in ("lease_lost", "not_found") and end == "Complete":
                self.broken("outcome denied", *lease, report.answer)

    def effects(self) -> None:
        done: dict[int, list[int]] = {}
        for effect in _of(Effect, self.history.events):
            done.setdefault(effect.request, []).append(effect.token)
        for id, tokens in done.items():
            row = self.rows.get(id)
            if len(tokens) > 1:
                self.broken("effect twice", id, len(tokens))
            elif row is None or row.status != "Complete":
                self.broken("effect without an outcome", id)
            elif tokens != [row.token]:
                self.broken("effect of another lease", id, tokens[0], row.token)
        for id, row in self.rows.items():
            if row.status == "Complete" and self.history.pays(row) and id not in done:
                self.broken("outcome without an effect", id, row.by)

    # -- the end

    def end(self) -> None:
        final = self.history.final
        if final is not None:
            last = {id: row.status for id, row in self.rows.items() if row.status != "Deleted"}
            for id in sorted(final.keys() | last.keys()):
                if final.get(id) != last.get(id):
                    self.broken("differs at the end", id, final.get(id), last.get(id))
        if not self.history.is_drained:
            return
        for id, row in self.rows.items():
            if row.status in LIVE:
                self.broken("never ended", id, row.status)
        for batch in sorted(self.batches.keys() - self.ended):
            self.broken("batch never ended", batch)


def summary(history: History) -> dict[str, int]:
    """How many of each: calls, requests, leases, faults, what is lost, what is broken."""
    changes = _of(Change, history.events)
    leases = {(c.request, c.token) for c in changes if c.status == "Processing"}
    broken: Sequence[Broken] = check(history)
    return {
        "acknowledged": sum(len(call.numbers) for call in _acknowledged(history)),
        "requests": len({change.request for change in changes}),
        "leases": len(leases),
        "changes": len(changes),
        "faults": len(_of(Fault, history.events)),
        "lost": len(lost(history)),
        "broken": len(broken),
    }
