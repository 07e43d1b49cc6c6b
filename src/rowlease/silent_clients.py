"""Keeps clients that send or read too slowly from using up a server.

A server waits for a client while the client has not sent its whole request, or has not read the
answer. It waits for a few clients only, and not for long.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from socket import SHUT_RDWR, socket
from socketserver import TCPServer
from typing import Any

from rowlease.clock import now

#: The maximum number of clients that a server waits for.
MAX_SILENT = 100
#: Seconds within which a client must send its request, or read the answer.
SILENT_SECONDS = 10.0


@dataclass(slots=True)
class Client:
    """An open connection; `since` is None while the server works on its request."""

    connection: socket
    address: str
    since: float | None


class SilentClients:
    """The clients of one server. Every method is safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[int, Client] = {}

    def accepted(self, connection: socket, address: str) -> None:
        """Wait for the request of a new client.

        If the server waits for too many clients, the longest silent one of the address that has
        most of them is disconnected. So clients of other addresses always find a place.
        """
        with self._lock:
            number = connection.fileno()
            self._clients.pop(number, None)  # it was closed, and its number is used again
            self._clients[number] = Client(connection, address, now())
            waiting = self._waiting()
            if len(waiting) > MAX_SILENT:
                crowd = Counter(client.address for _, client in waiting).most_common(1)[0][0]
                self._disconnect(next(one for _, one in waiting if one.address == crowd))

    def worked_for(self, number: int) -> None:
        """The whole request of this client, a file descriptor, has arrived."""
        with self._lock:
            if client := self._clients.get(number):
                client.since = None

    def waited_for(self, number: int) -> None:
        """This client, a file descriptor, has to read an answer, or to send another request."""
        with self._lock:
            if client := self._clients.pop(number, None):
                client.since = now()
                self._clients[number] = client  # the last of those that are waited for

    def disconnect_late(self) -> None:
        """Disconnect the clients that were waited for too long. Call this often."""
        with self._lock:
            for since, client in self._waiting():
                if now() - since > SILENT_SECONDS:
                    self._disconnect(client)

    def _waiting(self) -> list[tuple[float, Client]]:
        """The clients that the server waits for, and since when; the longest silent first."""
        for number, client in list(self._clients.items()):
            if client.connection.fileno() != number:  # the server has closed it
                del self._clients[number]
        return [
            (client.since, client) for client in self._clients.values() if client.since is not None
        ]

    def _disconnect(self, client: Client) -> None:
        del self._clients[client.connection.fileno()]
        with suppress(OSError):  # it has gone by itself
            client.connection.shutdown(SHUT_RDWR)  # whoever reads or writes ends, and closes it


class LimitedServer(TCPServer):
    """A server of threads that waits for a limited number of clients."""

    request_queue_size = 1024

    def __init__(self, *given: Any, **named: Any) -> None:
        self.clients = SilentClients()
        super().__init__(*given, **named)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        self.clients.accepted(connection, address[0])
        return connection, address

    def service_actions(self) -> None:
        super().service_actions()
        self.clients.disconnect_late()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # the client has gone
            super().handle_error(request, client_address)


class LimitedHandler(BaseHTTPRequestHandler):
    """Answers a client of a `LimitedServer`, and logs nothing, because probes are frequent."""

    #: Seconds within which a client must read an answer.
    timeout = SILENT_SECONDS

    def parse_request(self) -> bool:
        has_arrived = super().parse_request()
        if has_arrived:
            assert isinstance(self.server, LimitedServer)
            self.server.clients.worked_for(self.connection.fileno())
        return has_arrived

    def log_message(self, *_: object) -> None:
        pass
