"""The check that a user of one role may do what the role is for, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from rowlease.errors import AccessDenied, RowleaseError
from rowlease.model import NewRequest
from rowlease.store import Store, open_store
from rowlease.verify.checks import Broken, Trial

Call = Callable[[Store, str], Any]


def _enqueue(store: Store, queue: str) -> None:
    store.enqueue_many(queue, [NewRequest(kind="verify")])


def _claim(store: Store, queue: str) -> None:
    store.complete(store.dequeue("one", [queue], 10).requests)


def _pause(store: Store, queue: str) -> None:
    store.pause(queue)
    store.resume(queue)


def _read(store: Store, queue: str) -> None:
    store.depth(queue)


#: What a user of each role does, and is refused.
RIGHTS: dict[str, tuple[Call, tuple[Call, ...]]] = {
    "producer": (_enqueue, (_claim, _pause)),
    "worker": (_claim, (_enqueue, _pause)),
    "operator": (_pause, (_enqueue, _claim)),
    "reader": (_read, (_enqueue, _claim, _pause)),
}


def rights_of(role: str, dsn: str) -> Callable[[Trial], str]:
    """The check of one role. The user of `dsn` is a member of it, and of no other."""
    allowed, refused = RIGHTS[role]

    def check(trial: Trial) -> str:
        with closing(open_store(dsn, application_name="rowlease engines verify")) as store:
            try:
                allowed(store, trial.queue)
            except RowleaseError as error:
                raise Broken(f"it may not {allowed.__name__[1:]}: {error}") from error
            for each in refused:
                with suppress(AccessDenied):
                    each(store, trial.queue)
                    raise Broken(f"it may {each.__name__[1:]}")
        return f"it may {allowed.__name__[1:]}, and nothing of the other roles"

    check.__name__ = f"rights_of_a_{role}"
    return check
