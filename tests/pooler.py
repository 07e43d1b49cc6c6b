"""PgBouncer in front of a database: it pools transactions."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from tests import machine
from tests.conftest import free_port
from tests.waiting import until


class Pooler:
    """A PgBouncer that runs.

    Args:
        dsn: of a database of the server.
        folder: for its files.
        sessions: how many it has for all clients.
        ignored: the startup parameters that it ignores; it refuses others that it does not know.

    Attributes:
        dsn: of the same database by way of it.
    """

    def __init__(self, dsn: str, folder: Path, sessions: int, ignored: str) -> None:
        parts = conninfo_to_dict(dsn)
        port = free_port()
        self._address = ("127.0.0.1", port)
        through = sa.URL.create(
            "postgresql", str(parts["user"]), None, *self._address, str(parts["dbname"])
        )
        self.dsn = through.render_as_string()
        folder.chmod(0o755)
        users, self._settings = folder / "users.txt", folder / "pgbouncer.ini"
        users.write_text(f'"{parts["user"]}" "{parts.get("password", "")}"\n')
        self._settings.write_text(
            "[databases]\n"
            f"* = host={parts['host']} port={parts.get('port', 5432)}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = {sessions}\nserver_round_robin = 1\n"
            f"ignore_startup_parameters = {ignored}\n"
        )
        for path in (users, self._settings):
            path.chmod(0o644)
        self.start()

    def start(self) -> None:
        """Return when it takes connections."""
        self._process = subprocess.Popen(
            [machine.path_of("pgbouncer"), "--quiet", str(self._settings)],
            user="nobody" if os.geteuid() == 0 else None,  # it refuses to be root
        )
        until(self._listens)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(self._address):
            return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def pooled(dsn: str, sessions: int = 2, ignored: str = "") -> Iterator[Pooler]:
    """Run one."""
    with TemporaryDirectory() as folder:
        pooler = Pooler(dsn, Path(folder), sessions, ignored)
        try:
            yield pooler
        finally:
            pooler.kill()
