"""Answers the scrapes of Prometheus over HTTP."""

from __future__ import annotations

from socket import AF_INET, AF_INET6
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from rowlease.silent_clients import LimitedHandler, LimitedServer


class Handler(LimitedHandler, WSGIRequestHandler):
    pass


def metrics_server(host: str, port: int, registry: CollectorRegistry) -> WSGIServer:
    """A server of these metrics; `prometheus_client` has none that disconnects silent clients.

    Raises:
        OSError: the server cannot listen on this address.
    """

    class Server(LimitedServer, ThreadingMixIn, WSGIServer):
        daemon_threads = True
        address_family = AF_INET6 if ":" in host else AF_INET

    return make_server(host, port, make_wsgi_app(registry), Server, Handler)
