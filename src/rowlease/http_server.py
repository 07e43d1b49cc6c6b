"""Answers GET requests over HTTP: health probes and scrapes.

One thread reads what all clients send, so a client that sends nothing costs no thread.
"""

from __future__ import annotations

import asyncio
import gzip
import http.client
import io
import logging
import queue
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from typing import NamedTuple

from rowlease.errors import ConfigError
from rowlease.silent_clients import ListeningSocket

#: The maximum number of bytes of a request.
MAX_REQUEST = 16_384
#: The number of threads that make answers.
ANSWER_THREADS = 4
#: Seconds between two looks for clients that are silent for too long.
LOOK_SECONDS = 0.1
END = re.compile(rb"\r?\n\r?\n")


class HttpAnswer(NamedTuple):
    """The answer to a request."""

    code: int
    content_type: str
    body: bytes


class HttpServer:
    """A server of one connection for each request, in threads of its own during a `with` block.

    Args:
        host: the address to listen on.
        port: the port to listen on; 0 means any free port.
        answer: a function of the path, without slashes at its ends and query, and of the headers
            of a request. It is called in several threads.

    Raises:
        ConfigError: the server cannot listen on this address.

    Attributes:
        port: the port that the server listens on.
    """

    def __init__(self, host: str, port: int, answer: Callable[[str, Message], HttpAnswer]) -> None:
        try:
            self._listener = ListeningSocket.at(host, port)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"cannot listen at {host}:{port}: {error}") from error
        self.port = int(self._listener.getsockname()[1])
        self._answer = answer
        self._requests = queue.SimpleQueue[Connection | None]()
        self._open = set[asyncio.BaseTransport]()
        self._loop = asyncio.new_event_loop()
        self._serving = self._loop.create_task(self._serve())
        self._thread = threading.Thread(target=self._run, name="rowlease-http", daemon=True)

    def __enter__(self) -> HttpServer:
        self._thread.start()
        for _ in range(ANSWER_THREADS):
            threading.Thread(target=self._work, name="rowlease-answer", daemon=True).start()
        return self

    def __exit__(self, *given: object) -> None:
        self._loop.call_soon_threadsafe(self._serving.cancel)
        self._thread.join()
        for _ in range(ANSWER_THREADS):
            self._requests.put(None)

    def _run(self) -> None:
        with self._listener, suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._serving)
        self._loop.close()

    async def _serve(self) -> None:
        clients = self._listener.clients
        server = await self._loop.create_server(
            lambda: Connection(self._listener, self._open, self._requests.put),
            sock=self._listener,
            backlog=1024,
        )
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                clients.disconnect_late()
        finally:
            server.close()
            for transport in self._open:
                transport.close()
            await asyncio.sleep(0)  # they close now

    def _work(self) -> None:
        while connection := self._requests.get():
            try:
                data = response(connection.received, self._answer)
            except Exception:
                logging.getLogger("rowlease").exception("a request over HTTP has no answer")
                data = written(HttpAnswer(500, "text/plain", b""))
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(connection.send, data)


class Connection(asyncio.Protocol):
    """A client's connection, in the thread that reads from all of them."""

    def __init__(
        self,
        listener: ListeningSocket,
        connections: set[asyncio.BaseTransport],
        request: Callable[[Connection], None],
    ) -> None:
        self.received = b""
        self._clients = listener.clients
        self._open = connections
        self._request = request
        self._is_whole = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._number = transport.get_extra_info("socket").fileno()
        self._open.add(transport)

    def data_received(self, data: bytes) -> None:
        if self._is_whole:
            return
        self.received += data
        if END.search(self.received) or len(self.received) > MAX_REQUEST:
            self._is_whole = True
            self._clients.worked_for(self._number)
            self._request(self)

    def eof_received(self) -> bool:
        return self._is_whole  # then the client still reads

    def send(self, data: bytes) -> None:
        """Send the answer, and close the connection."""
        if not self._transport.is_closing():
            self._clients.waited_for(self._number)
            self._transport.write(data)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._open.discard(self._transport)


def response(request: bytes, answer: Callable[[str, Message], HttpAnswer]) -> bytes:
    """The bytes to answer a request with."""
    line, _, rest = request.partition(b"\n")
    method, _, target = line.decode("latin-1").strip().rpartition(" ")[0].partition(" ")
    try:
        headers = http.client.parse_headers(io.BytesIO(rest))
    except http.client.HTTPException:
        headers = None
    if headers is None or not target or len(request) > MAX_REQUEST:
        return written(HttpAnswer(400, "text/plain", b"this is no request over HTTP\n"))
    if method not in ("GET", "HEAD"):
        return written(HttpAnswer(501, "text/plain", b"use GET\n"))
    code, content_type, body = answer(target.partition("?")[0].strip("/"), headers)
    more = ""
    if "gzip" in headers.get("Accept-Encoding", ""):
        body, more = gzip.compress(body), "Content-Encoding: gzip\r\n"
    return written(HttpAnswer(code, content_type, body), more, with_body=method == "GET")


def written(answer: HttpAnswer, more: str = "", *, with_body: bool = True) -> bytes:
    """An answer with more headers as bytes, after which the connection is closed."""
    code, content_type, body = answer
    head = (
        f"HTTP/1.0 {code} {HTTPStatus(code).phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n{more}\r\n"
    )
    return head.encode() + (body if with_body else b"")


def read_address(text: str) -> tuple[str, int]:
    """Read an address: `8080` (on the loopback), `0.0.0.0:8080` or `[::]:8080`.

    Raises:
        ConfigError: the text is not an address.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"{text!r} is not an address; write a port (then only this host can connect) or "
            "0.0.0.0:8080"
        )
    return host, int(port)
