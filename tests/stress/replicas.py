"""A primary and its standby, of a test's own: started, cut off, killed, promoted."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import sqlalchemy as sa

from rowlease.embedded import embedded, over_tcp, root
from rowlease.embedded.binaries import server_binaries
from rowlease.embedded.keeper import Order, for_server
from rowlease.store import migrate
from rowlease.testing.plugin import UNSAFE_BUT_FAST
from tests.conftest import free_port

PATIENCE = 60.0  # seconds; only a failing test waits that long
#: Seconds between two looks at what another process does.
LOOK_EVERY = 0.02
SETTINGS = {
    **UNSAFE_BUT_FAST,
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "wal_keep_size": "1GB",
    "autovacuum_naptime": "1s",
    "dynamic_shared_memory_type": "mmap",  # a killed server leaves it in its folder
}
#: Starts processes in milliseconds: one that has imported what they need is forked.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["__main__", "tests.stress.fault_tasks", "tests.stress.load_driver"]
)


class Seed:
    """A stopped server's folder with a migrated database, to be copied for each server.

    Attributes:
        data: the folder.
        binaries: where `postgres` is.
        dsn: of the server while it ran.
    """

    def __init__(self, home: Path) -> None:
        with embedded(home, settings=UNSAFE_BUT_FAST) as dsn:
            self.dsn = over_tcp(dsn)
            migrate(self.dsn)
        (self.data,) = home.glob("postgresql-*")
        self.binaries, _ = server_binaries()
        until("the seed's server ends", lambda: not (self.data / "postmaster.pid").exists())


class Server:
    """A PostgreSQL server on a copy of the seed's folder.

    Args:
        follows: the primary, of which it is a standby.
        more: settings that differ from SETTINGS.

    Attributes:
        log: the file of what it says.
    """

    def __init__(
        self,
        seed: Seed,
        home: Path,
        follows: Server | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.dsn = sa.make_url(seed.dsn).set(port=self.port).render_as_string(hide_password=False)
        home.mkdir()
        data = home / "data"
        shutil.copytree(seed.data, data)
        settings = {**SETTINGS, **(more or {}), "port": str(self.port)}
        if follows:
            (data / "standby.signal").touch()
            settings["primary_conninfo"] = follows.dsn
        with (data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.log = home / "log"
        self._home, self._data, self._program = home, data, seed.binaries / "postgres"
        # PostgreSQL refuses to run as root.
        user = root.server_users()[0] if os.geteuid() == 0 else None
        if user:
            root.give(home, data, user.pw_uid, user.pw_gid)
        numbers = (user.pw_uid, user.pw_gid) if user else None
        self._order = Order(str(home), "", 0, self.port, {}, numbers)
        self.start()

    def start(self) -> None:
        with (
            self.log.open("ab") as log,
            for_server(self._order, self._data) as ((data,), as_user),
        ):
            self.process = subprocess.Popen(
                [self._program, "-D", data], stdout=log, stderr=log, cwd="/", **as_user
            )
        until(f"the server of {self._home} answers", self.answers)

    def crash(self) -> None:
        """Stop it as `pg_ctl stop --mode immediate` does, and start it again."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        self.start()

    def answers(self) -> bool:
        try:
            self.ask("select 1")
        except psycopg.OperationalError:
            return False
        return True

    def ask(self, text: str) -> list[tuple[object, ...]]:
        """The rows of a statement, as the superuser."""
        with connect(self.dsn) as connection:
            cursor = connection.execute(text)
            return [] if cursor.description is None else cursor.fetchall()

    def is_sent_everything_at_once(self) -> bool:
        """Does the standby receive what its primary writes?"""
        return self.ask("select status from pg_stat_wal_receiver") == [("streaming",)]

    def cut_off(self) -> None:
        """Have the standby receive nothing more, as when the network between the two is down."""
        self.ask("alter system set primary_conninfo = ''")
        self.ask("select pg_reload_conf()")
        until("the standby is cut off", lambda: not self.ask("select from pg_stat_wal_receiver"))

    def promote(self) -> None:
        """Make the standby a primary; return when it takes writes."""
        assert self.ask("select pg_promote(wait => true)") == [(True,)]

    def kill(self) -> None:
        """End it at once; its backends notice within milliseconds."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def connect(dsn: str) -> psycopg.Connection:
    """A connection of the drill itself, whatever isolation level the server has as its default."""
    level = "-c default_transaction_isolation=read\\ committed"
    return psycopg.connect(dsn, autocommit=True, connect_timeout=5, options=level)


def until(what: str, is_so: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until another process has done something."""
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, f"waited {patience:.0f} s in vain: {what}"
        time.sleep(LOOK_EVERY)
