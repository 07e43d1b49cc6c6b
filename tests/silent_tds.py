"""As much of SQL Server's protocol as a client needs to log in; then it is silent on request.

Source: [MS-TDS], 2.2.6 (PRELOGIN, LOGIN7) and 2.2.7 (LOGINACK, DONE).
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

#: Kinds of packets.
ANSWER, BATCH, RPC, ATTENTION, LOGIN, PRELOGIN = 0x04, 0x01, 0x03, 0x06, 0x10, 0x12
#: In a packet's second byte: it is the last of its message.
LAST = 1
HEADER = struct.Struct(">BBHHBB")


class SilentServer:
    """Answers every statement with "done", except the kinds in `deaf_to`.

    Attributes:
        port: of the loopback.
        deaf_to: kinds of packets that it reads and does not answer.
        heard: the kinds of packets that came, in order.
    """

    def __init__(self) -> None:
        self.deaf_to: set[int] = set()
        self.heard: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._clients: list[socket.socket] = []

    @property
    def dsn(self) -> str:
        return f"mssql://sa:secret@127.0.0.1:{self.port}/db?Encrypt=no"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._listener, *self._clients]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._clients.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while True:
                kind = _read_message(client)
                self.heard.append(kind)
                if kind not in self.deaf_to:
                    body = {PRELOGIN: _prelogin, LOGIN: _login, ATTENTION: _attention}
                    client.sendall(_packet(body.get(kind, _done)()))


def _read_message(client: socket.socket) -> int:
    while True:
        kind, status, length, *_ = HEADER.unpack(_exactly(client, HEADER.size))
        _exactly(client, length - HEADER.size)
        if status & LAST:
            return int(kind)


def _exactly(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := client.recv(size - len(found))):
            raise EOFError
        found += more
    return found


def _packet(body: bytes) -> bytes:
    return HEADER.pack(ANSWER, LAST, len(body) + HEADER.size, 0, 1, 0) + body


def _prelogin() -> bytes:
    # Version, encryption (not supported), instance, thread, several result sets at once.
    options = [bytes((16, 0, 0, 0, 0, 0)), b"\x02", b"\0", b"", b"\0"]
    place = 5 * len(options) + 1
    head = b""
    for token, data in enumerate(options):
        head += struct.pack(">BHH", token, place, len(data))
        place += len(data)
    return head + b"\xff" + b"".join(options)


def _login() -> bytes:
    name = "Silent"
    body = (
        b"\x01\x74\x00\x00\x04"  # T-SQL, TDS 7.4
        + bytes([len(name)])
        + name.encode("utf-16-le")
        + bytes((16, 0, 0, 0))
    )
    return b"\xad" + struct.pack("<H", len(body)) + body + _done()


def _done(status: int = 0) -> bytes:
    return b"\xfd" + struct.pack("<HHQ", status, 0, 0)


def _attention() -> bytes:
    return _done(0x20)
