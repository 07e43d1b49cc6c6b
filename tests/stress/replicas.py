"""A primary and its standby, of a test's own: started, cut off, killed, promoted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import sqlalchemy as sa

from rowlease.embedded import embedded
from rowlease.embedded import root as embedded_root
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
}


class Seed:
    """A stopped server's folder with a migrated database, to be copied for each server.

    Attributes:
        data: the folder.
        binaries: where `postgres` is.
        dsn: of the server while it ran.
    """

    def __init__(self, home: Path) -> None:
        with embedded(home, settings=UNSAFE_BUT_FAST) as self.dsn:
            migrate(self.dsn)
            with psycopg.connect(self.dsn) as connection:
                ((data, config),) = connection.execute(
                    "select current_setting('data_directory'), setting"
                    "  from pg_config where name = 'BINDIR'"
                ).fetchall()
        self.data, self.binaries = Path(data), Path(config)
        until("the seed's server ends", lambda: not (self.data / "postmaster.pid").exists())


class Server:
    """A PostgreSQL server on a copy of the seed's folder.

    Args:
        follows: the primary, of which it is a standby.
        more: settings that differ from SETTINGS.
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
        command: list[str | Path] = [seed.binaries / "postgres", "-D", data]
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            become_nobody = [sys.executable, "-I", "-S", embedded_root.__file__]
            command = [*become_nobody, home, data, seed.binaries, *command]
        self._home, self._command = home, command
        self.start()

    def start(self) -> None:
        with (self._home / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd="/")
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
        with psycopg.connect(self.dsn, autocommit=True, connect_timeout=5) as connection:
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


def until(what: str, is_so: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until another process has done something."""
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, f"waited {patience:.0f} s in vain: {what}"
        time.sleep(LOOK_EVERY)
