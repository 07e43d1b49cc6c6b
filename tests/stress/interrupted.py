"""A program whose calls are interrupted by a signal; `test_signals` runs it.

    python -m tests.stress.interrupted DSN CALLS SEED

A signal handler raises at a random moment, as a soft time limit does. The program prints, as JSON,
which payloads were enqueued under which id, and how many calls were interrupted.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from datetime import timedelta
from typing import Any

from rowlease import Client
from rowlease.store.pool import MAX_OPEN

#: Seconds until the signal, at most. The shorter one ends most calls while they connect, or in the
#: first call of a session, which takes longer than others.
LONGEST = (0.006, 0.006, 0.1)
#: Every so many calls, one waits for a result that never comes, through the shared listener.
WAITS = 20


class Interrupted(Exception):
    pass


def main(dsn: str, calls: str, seed: str) -> None:
    rng = random.Random(int(seed))
    done: dict[str, int] = {}
    interrupted, errors = 0, []
    with Client(dsn) as client:
        handle = client.enqueue_untyped("never", None)
        signal.signal(signal.SIGALRM, interrupt)
        for number in range(int(calls)):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, rng.choice(LONGEST)))
                    if number % WAITS:
                        answer = client.enqueue_untyped("work", {"number": number})
                        done[str(number)] = answer.request_id
                    else:
                        handle.result(timedelta(seconds=60))
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
            except Exception as error:
                errors.append(repr(error))
        report = {"done": done, "interrupted": interrupted, "errors": errors}
        pool: Any = client.store._pool  # type: ignore[attr-defined]
        taken = [pool.take(30.0) for _ in range(MAX_OPEN)]
        report["places"] = len(taken)
        for each in taken:
            pool.give_back(each, is_sound=True)
        # The listener still works: nobody has left its lock locked.
        ended = client.enqueue_untyped("work", {"number": "last"})
        ended.cancel()
        report["last"] = ended.status()
    print(json.dumps(report))  # noqa: T201


def interrupt(*_: object) -> None:
    raise Interrupted


if __name__ == "__main__":
    main(*sys.argv[1:])
