"""Proxies before PostgreSQL; one loses an answer: committed, and the client never gets it."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Self

import sqlalchemy as sa

#: The tag of PostgreSQL's answer to a COMMIT.
COMMITTED = b"COMMIT\x00"

#: Ends the connection that stages a certain row.
GONE = """
    create function rowlease.gone() returns trigger language plpgsql as $$ begin
      if new.payload::text like '%777%' then perform pg_terminate_backend(pg_backend_pid()); end if;
      return new; end $$;
    create trigger gone before insert on rowlease.lane
      for each row execute function rowlease.gone()
"""


class Proxy(ABC):
    """Passes data on if `passes` allows it; else it cuts that connection.

    Attributes:
        dsn: the database by way of this proxy.
    """

    def __init__(self, dsn: str) -> None:
        url = sa.make_url(dsn)
        self._server = (url.host or "127.0.0.1", url.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        through = url.set(host="127.0.0.1", port=self._listener.getsockname()[1])
        self.dsn = through.render_as_string(hide_password=False)

    @abstractmethod
    def passes(self, client: int, data: bytes, is_answer: bool) -> bool:
        """Look at what is on its way on the connection of a client's port."""

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone does not wake a thread that waits in accept or recv.
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)

    def _start(self, run: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, (_, port) = self._listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:  # the server is down
                    client.close()
                    continue
                self._sockets += [client, server]
                self._start(self._pass_on, client, server, port, False)
                self._start(self._pass_on, server, client, port, True)

    def _pass_on(
        self, source: socket.socket, target: socket.socket, port: int, is_answer: bool
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.passes(port, data, is_answer):
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class LostAnswer(Proxy):
    """Passes everything on but the first such answer.

    Attributes:
        lost: how many answers it has lost.
    """

    def __init__(self, dsn: str, answer: bytes = COMMITTED) -> None:
        super().__init__(dsn)
        self._answer = answer
        self.lost = 0

    def passes(self, client: int, data: bytes, is_answer: bool) -> bool:
        if not is_answer or self._answer not in data:
            return True
        with self._lock:
            self.lost += 1
            if self.lost > 1:
                self.lost -= 1
                return True
            return False
