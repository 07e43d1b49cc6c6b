"""Serves the dashboard over HTTP, and disconnects clients that send or read too slowly.

uvicorn has no time limit for a request to arrive, or for an answer to be read.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from rowlease.silent_clients import ListeningSocket


def serve(
    app: ASGIApp,
    listener: ListeningSocket,
    tls_certificate: Path | None,
    tls_key: Path | None,
    proxy: str | None,
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    clients = listener.clients

    class BrowserConnection(H11Protocol):
        number = -1

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.number = transport.get_extra_info("socket").fileno()

        def handle_events(self) -> None:
            super().handle_events()
            cycle, must_read = self.cycle, self.flow.write_paused
            if cycle and not (cycle.more_body or cycle.response_complete or must_read):
                clients.worked_for(self.number)

        def pause_writing(self) -> None:
            super().pause_writing()
            clients.waited_for(self.number)

        def resume_writing(self) -> None:
            super().resume_writing()
            clients.worked_for(self.number)

        def on_response_complete(self) -> None:
            clients.waited_for(self.number)
            super().on_response_complete()

    class DashboardServer(uvicorn.Server):
        async def on_tick(self, counter: int) -> bool:
            clients.disconnect_late()
            return await super().on_tick(counter)

    config = uvicorn.Config(
        app,
        http=BrowserConnection,
        loop="asyncio",  # another loop does not accept clients through the listener
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy,
        ssl_certfile=tls_certificate,
        ssl_keyfile=tls_key,
        timeout_graceful_shutdown=5,
    )
    # uvicorn raises the signal again when it has ended, but the embedded server must be stopped.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with listener, suppress(KeyboardInterrupt):
        DashboardServer(config).run(sockets=[listener])
