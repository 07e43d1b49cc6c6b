"""Values that no caller should give, among some that are right; and a database that knows these."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import closing
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from rowlease.model import Failure, NewRequest
from rowlease.store import open_store

#: Never shown: a password, and what must not come out of any output.
SECRET = "hunter2-of-the-fuzzer"
#: How many values of a strategy some hundred inputs share.
POOL = 50
#: The lock token of every lease in the database.
TOKEN = 7
QUEUES = ("default", "mail", "full")
NAMES = (*QUEUES, "w", "a", "group 1", "key 1", "batch 1", "load 1", "schedule 1", "stream 1")
CRONS = (
    "* * * * *", "0 3 * * *", "*/7 * * * * *", "0 0 30 2 *", "@daily", "99 * * * *", "1-0 * * * *",
    "*/0 * * * *", "0 0 L * 1#9", "0 0 * * 8", "\u0661 * * * *", "* * * *",
)  # fmt: skip
ZONES = ("UTC", "Europe/Berlin", "../../etc/passwd", "/etc/localtime", "Europe", "US\\Eastern", ".")
DURATIONS = (
    "0", "1s", "250ms", "7d", "1e9s", "-1s", "1.5.5s", ".s", "9" * 400 + "d", "999999999d",
    "\u0663s", "1 s", "infinitys", "nans", "106751991167d",
)  # fmt: skip
TIMES = (
    "2026-11-22T18:00", "2026-11-22T18:00+01:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59",
    "9999-12-31T23:59-10:00", "2026-02-30", "24:00", "20261122", "2026-W48-7", "infinity", "now",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "-1", "9", "32767", "32768", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "1e3", "1.0", "0x10", "²", "1_000", " 1",
    "\u0661\u0662", "9" * 5000, "NaN", "inf", "-0",
)  # fmt: skip
ODD = (
    "", " ", "a ", " a", "\t", "\n", "a\nb", "'", '"', "'; drop table rowlease.queue; --", "%",
    "%s", "{}", "{0}", "$1", "\\", "\\x00", "--", "-1", "null", "*", "_", "a*", "<script>",
    "&amp;", "\x1b[2J", "\u202e", "\u200b", "\ufeff", "\x7f", "é", "e\u0301", "ﬁ", "İ", "😀",
    "\U0010ffff", "../../etc/passwd", "rowlease", "(", "[", "(a+)+$", "Pending", "$version",
    "k" * 100, "k" * 101, "k" * 200, "k" * 201, "é" * 400, "😀" * 401, "x" * 20_000,
)  # fmt: skip
#: What neither a database nor an argument of a process can hold.
UNSTORABLE = ("a\0b", "\ud800", "a\udc80", "\udfff\ud800")
#: JSON, and what is nearly JSON.
WRITTEN = (
    "{}", '{"a":1}', "[]", "null", "1", '"x"', "", " ", "{", '{"a":1,"a":2}', '{"a":1,}', "{'a':1}",
    '{"a":NaN}', '{"a":1e999}', '{"a":-0.0}', '{"a":' + "9" * 500 + "}", r'{"a":"\ud800"}',
    r'{"a":"\u0000"}', r'{"\u0000":1}', '{"":1}', "\ufeff{}", '{"a":"' + "x" * 70_000 + '"}',
    "[" * 400 + "]" * 400, '{"a":' * 480 + "1" + "}" * 480, '{"a":' * 9000 + "1" + "}" * 9000,
    "[" * 40_000, '{"$next":null}', '{"$next":{}}', '{"$next":{"kind":"a","payload":{}}}',
    '{"$next":{"kind":"","payload":{"$next":1},"delay_ms":-1}}',
    '{"$after":{"batch_id":"b","result_as":"a"}}', '{"$after":{"result_as":"a"}}',
    '{"$next":{"kind":"a","payload":{},"delay_ms":9223372036854775807,"headers":{"h":"\\ud800"}}}',
    '{"$version":1}', '{"$version":99}', '{"$version":"x"}', '{"$version":-1}', '{"$after":[]}',
    '{"h":"x"}', '{"h":1}', '{"h":null}', '{"h":{}}', '{"h":"' + "x" * 9000 + '"}',
    '{"expires_seconds":"1"}', '{"expires_seconds":"soon"}', '{"expires_seconds":"1e400"}',
    '{"traceparent":"00-x"}',
)  # fmt: skip


class Draw:
    """Draws what follows from a name. The values of a strategy come from a pool of some."""

    def __init__(self, name: str) -> None:
        self.random = Random(name)
        self._pools: dict[int, list[Any]] = {}

    def of(self, strategy: st.SearchStrategy[Any]) -> Any:
        """A value of a strategy. Hypothesis takes milliseconds for each, so a pool has few."""
        pool = self._pools.get(id(strategy))
        if pool is None:
            pool = self._pools[id(strategy)] = drawn(strategy, self.random.getrandbits(64))
        return self.random.choice(pool)

    def any(self, *strategies: st.SearchStrategy[Any]) -> Any:
        return self.of(self.random.choice(strategies))

    def one(self, values: Sequence[Any]) -> Any:
        return self.random.choice(values)

    def some(self, values: Collection[Any], most: int = 9) -> list[Any]:
        """Some of the values, in their order."""
        number = self.random.randint(0, min(most, len(values)))
        places = sorted(self.random.sample(range(len(values)), number))
        return [[*values][place] for place in places]

    def is_rare(self, of: int = 4) -> bool:
        return self.random.randrange(of) == 0


def drawn(strategy: st.SearchStrategy[Any], number: int) -> list[Any]:
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=POOL, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def one(value: Any) -> None:
        found.append(value)

    one()
    return found


storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
texts = st.one_of(st.sampled_from(NAMES), st.sampled_from(ODD), storable)
anything = st.one_of(texts, st.sampled_from(UNSTORABLE), st.text(max_size=30))
json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(), texts,
        st.sampled_from([*TIMES, *DURATIONS, 2**31, 2**63, 10**400]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


def json_text(given: object) -> str:
    """As JSON that PostgreSQL reads: it has no NaN."""
    return json.dumps(given, ensure_ascii=False).replace("NaN", "0").replace("Infinity", "1e9999")


json_texts = st.one_of(
    st.sampled_from(WRITTEN),
    json_values.map(json_text),
    st.dictionaries(texts, json_values, max_size=4).map(json_text),
    texts,
)


def number(bits: int) -> st.SearchStrategy[int]:
    most = 2 ** (bits - 1) - 1
    edges = [0, 1, 2, 3, -1, 9, 10, 100, 1000, 10_000, 10_001, most, most - 1, -most - 1]
    return st.one_of(st.sampled_from(edges), st.integers(-most - 1, most), st.integers(0, 20))


def fill(dsn: str) -> None:
    """Requests in every state, with every kind of name and in every kind of queue."""
    with closing(open_store(dsn)) as store:
        store.configure_queue(
            "mail", capacity=50, max_in_flight=3, policy="weighted", policy_weights=[1, 2],
            rate="3/1m", group_rate="1/1m",
        )  # fmt: skip
        store.configure_queue("full", capacity=1, policy="aging", max_crashes=1)
        grouped = NewRequest(kind="a", group_key="group 1", headers='{"h":"x"}')
        for queue in QUEUES:
            store.enqueue_many(queue, [NewRequest(kind="a", dedup_key="key 1")])
        store.enqueue_many("mail", [grouped, grouped, NewRequest(kind="b", priority=3)])
        store.enqueue_many("default", [NewRequest(kind="a", delay=timedelta(hours=1))])
        store.enqueue_many("default", [grouped] * 2, batch_id="batch 1")
        store.enqueue_many("default", [NewRequest(kind="a")], after="batch 1")
        store.worker_heartbeat(
            "w", host="h", pid=1, version="1", queues=[*QUEUES], slots=9, busy=1, kinds={"a": "a()"}
        )
        store.enqueue_many("default", [NewRequest(kind="a")] * 9)
        (done, failed, *_) = store.dequeue("w", ["default"], 6).requests
        store.complete([done], ['{"a":1}'])
        store.fail([failed], [Failure("no answer", None, True, "OSError", "File x")])
        store.put_schedule("schedule 1", "* * * * *", "a", queue="default", payload="{}")
        store.begin_load("load 1", "default", "w")
    with psycopg.connect(dsn, autocommit=True) as own:
        own.execute("set session_replication_role = replica")  # a token must not become smaller
        own.execute(f"update rowlease.queue set lock_token = {TOKEN} where status = 'Processing'")
