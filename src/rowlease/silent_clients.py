"""Keeps clients that send or read too slowly from using up a server.

A server waits for a client while the client has not sent its whole request, or has not read the
answer. It waits for a few clients only, and not for long.
"""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from ipaddress import IPv4Address, ip_address, ip_network
from typing import NamedTuple

from rowlease.clock import now

#: The maximum number of clients that a server waits for.
MAX_SILENT = 100
#: Seconds within which a client must send its request, or read the answer.
SILENT_SECONDS = 10.0


def network_of(address: str) -> str:
    """The part of an address that tells visitors apart.

    A visitor with IPv6 has 2**64 addresses, whose first half is the same.
    """
    try:
        found = ip_address(address)
    except ValueError:  # a Unix socket has none
        return address
    if isinstance(found, IPv4Address):
        return address
    return str(found.ipv4_mapped or ip_network((int(found), 64), strict=False))


class OpenConnection(NamedTuple):
    """An open connection, its network, and since when the server waits for it."""

    connection: socket.socket
    network: str
    since: float


class SilentClients:
    """The clients of one server, in its one thread."""

    def __init__(self) -> None:
        # By file descriptor. The longest silent of those that are waited for is the first.
        self._waiting: dict[int, OpenConnection] = {}
        self._busy: dict[int, OpenConnection] = {}

    def accepted(self, connection: socket.socket, address: str) -> None:
        """Wait for the request of a new client.

        If the server waits for too many clients, the longest silent one of the network that has
        most of them is disconnected. So clients of other networks always find a place.
        """
        number = connection.fileno()
        self._waiting.pop(number, None)  # it was closed, and its number is used again
        self._busy.pop(number, None)
        self._waiting[number] = OpenConnection(connection, network_of(address), now())
        if len(self._waiting) > MAX_SILENT:  # the first look is fast, for a flood of clients
            self._forget_closed()
        if len(self._waiting) > MAX_SILENT:
            networks = Counter(client.network for client in self._waiting.values())
            crowd = networks.most_common(1)[0][0]
            self._disconnect(
                next(n for n, client in self._waiting.items() if client.network == crowd)
            )

    def worked_for(self, number: int) -> None:
        """The whole request of this client, a file descriptor, has arrived."""
        if client := self._waiting.pop(number, None):
            self._busy[number] = client

    def waited_for(self, number: int) -> None:
        """This client, a file descriptor, has to read an answer, or to send another request."""
        if client := self._busy.pop(number, None) or self._waiting.pop(number, None):
            self._waiting[number] = client._replace(since=now())

    def disconnect_late(self) -> None:
        """Disconnect the clients that were waited for too long. Call this often."""
        at = now()
        while (number := next(iter(self._waiting), None)) is not None:
            if at - self._waiting[number].since <= SILENT_SECONDS:
                return
            self._disconnect(number)

    def _forget_closed(self) -> None:
        for clients in (self._waiting, self._busy):
            for number, client in list(clients.items()):
                if client.connection.fileno() != number:  # the server has closed it
                    del clients[number]

    def _disconnect(self, number: int) -> None:
        client = self._waiting.pop(number)
        with suppress(OSError):  # it has gone by itself
            # Whoever reads from it, or writes to it, ends and closes it.
            client.connection.shutdown(socket.SHUT_RDWR)


class ListeningSocket(socket.socket):
    """A socket that knows the clients that it accepts."""

    clients: SilentClients

    @classmethod
    def at(cls, host: str, port: int) -> ListeningSocket:
        """Listen on this address.

        Raises:
            OSError: the address or the port cannot be used.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = cls(fileno=socket.create_server((host, port), family=family).detach())
        made.clients = SilentClients()
        return made

    def accept(self) -> tuple[socket.socket, object]:
        connection, address = super().accept()
        self.clients.accepted(connection, address[0])
        return connection, address
