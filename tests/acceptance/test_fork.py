"""A process forks while its client, store or worker is in use."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowlease import AsyncClient, Client, Worker, task
from rowlease.client.call_threads import MAX_CALL_THREADS
from rowlease.client.handle import Handle
from rowlease.errors import NoResult
from rowlease.store.pool import MAX_OPEN
from rowlease.store.postgresql.store import PostgresStore

#: Python warns of what these tests do on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def in_child(check: Callable[[], object]) -> None:
    """Fork, and fail as the check does in the child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            check()
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        failed = file.read()
    os.waitpid(pid, 0)
    assert not failed, failed


def test_a_child_lets_go_of_its_parents_connections(dsn: str) -> None:
    with closing(PostgresStore(dsn, "test")) as store:
        taken = [store._pool.take(60.0) for _ in range(3)]
        listening = store.listen(["default"])
        sockets = {os.fstat(each.pgconn.socket).st_ino for each in taken}
        sockets.add(os.fstat(listening._connection.pgconn.socket).st_ino)
        store._pool.give_back(taken.pop(), is_sound=True)

        def check() -> None:
            del store._pool._idle
            mine = set()
            for name in os.listdir("/proc/self/fd" if Path("/proc").exists() else "/dev/fd"):
                with suppress(OSError):  # the descriptor of this listing
                    mine.add(os.fstat(int(name)).st_ino)
            assert not sockets & mine

        in_child(check)
        assert taken[0].execute("select 1").fetchall() == [(1,)]
        for each in taken:
            store._pool.give_back(each, is_sound=True)
        listening.close()
        assert store.depth() == []


def test_a_child_may_use_as_many_connections_as_its_parent(dsn: str) -> None:
    with closing(PostgresStore(dsn, "test")) as store:
        taken = [store._pool.take(60.0)]
        store._pool.give_back(store._pool.take(60.0), is_sound=True)
        theirs = {each.info.backend_pid for each in taken}
        theirs |= {each.info.backend_pid for _, each in store._pool._idle}

        def check() -> None:
            own = [store._pool.take(60.0) for _ in range(MAX_OPEN)]
            assert not theirs & {each.info.backend_pid for each in own}

        in_child(check)
        store._pool.give_back(taken.pop(), is_sound=True)


def test_a_call_that_is_under_way_at_the_fork_goes_on_in_the_parent_alone(dsn: str) -> None:
    with closing(PostgresStore(dsn, "test")) as store, store.connection() as own:

        def check() -> None:
            with pytest.raises(psycopg.OperationalError):
                own.execute("select 1")
            assert store.depth() == []

        in_child(check)
        assert own.execute("select 1").fetchall() == [(1,)]


def test_a_child_hears_of_results_although_its_parent_listens(dsn: str) -> None:
    with Client(dsn) as client:
        handle = client.enqueue_untyped("x")
        never = client.enqueue_untyped("x")
        thread = threading.Thread(target=lambda: wait_for(never))
        thread.start()
        while not client.store.finished.is_listening:
            handle.status()

        def check() -> None:
            finished = client.store.finished
            assert finished.num_waiting == 0
            with finished.expecting(str(handle.request_id)) as notice:
                while not finished.is_listening or not notice.is_set:
                    handle.status()
            with finished.expecting(str(handle.request_id)) as notice:
                handle.cancel()
                notice.wait(60)
                assert notice.is_set

        in_child(check)
        never.cancel()
        thread.join()


def wait_for(handle: Handle[Any]) -> None:
    with suppress(NoResult):
        handle.result(timedelta(seconds=60))


def test_an_async_client_has_threads_in_a_child(dsn: str) -> None:
    async def parent() -> None:
        async with AsyncClient(dsn) as client:
            together = threading.Barrier(MAX_CALL_THREADS)
            calls = [client.run_sync(lambda _: together.wait()) for _ in range(MAX_CALL_THREADS)]
            await asyncio.gather(*calls)  # all threads have been started

            async def child() -> None:
                handles = await asyncio.gather(*(client.enqueue_untyped("y") for _ in range(20)))
                assert len({each.request_id for each in handles}) == 20

            await asyncio.to_thread(in_child, lambda: asyncio.run(child()))
            assert await (await client.enqueue_untyped("x")).status() == "Pending"

    asyncio.run(parent())


@task
def noop() -> None: ...


def test_a_worker_that_was_made_before_a_fork_has_a_name_of_its_own(dsn: str) -> None:
    worker = Worker(dsn, [noop], executor="thread", burst=True)
    parents = worker.worker_id

    def check() -> None:
        assert worker.worker_id != parents
        assert worker.worker_id.split(":")[1] == str(os.getpid())
        with Client(dsn) as client:
            client.enqueue(noop)
            assert worker.run().finished == 1

    in_child(check)
    assert worker.worker_id == parents
