"""`rowlease dashboard`."""

from __future__ import annotations

import ipaddress
import os
from contextlib import closing
from pathlib import Path

import click

from rowlease.cli.options import dsn_option, needs_extra
from rowlease.cli.say import say
from rowlease.errors import ConfigError

#: The environment variables with the tokens of the two roles.
READER_TOKEN, OPERATOR_TOKEN = (
    "ROWLEASE_DASHBOARD_READER_TOKEN",
    "ROWLEASE_DASHBOARD_OPERATOR_TOKEN",
)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    show_default=True,
    help="The port to listen on; 0 is any free one.",
)
@click.option(
    "--actions",
    is_flag=True,
    help="Without tokens, let visitors on this machine change queues and requests.",
)
@click.option(
    "--tls-certificate", type=click.Path(exists=True, path_type=Path), help="A PEM file for HTTPS."
)
@click.option(
    "--tls-key", type=click.Path(exists=True, path_type=Path), help="Its private key, a PEM file."
)
@click.option(
    "--proxy",
    metavar="ADDRESSES",
    help="The addresses of the proxy that serves the dashboard by HTTPS, with commas between them. "
    "It must send X-Forwarded-Proto and X-Forwarded-For.",
)
@dsn_option
def dashboard(
    dsn: str | None,
    host: str,
    port: int,
    actions: bool,
    tls_certificate: Path | None,
    tls_key: Path | None,
    proxy: str | None,
) -> None:
    """Serve pages for a browser: queues, requests and workers.

    By default, only this machine is served, and pages change nothing. To serve other machines, or
    to require a login, set ROWLEASE_DASHBOARD_READER_TOKEN or ROWLEASE_DASHBOARD_OPERATOR_TOKEN (or
    both) to a secret of 16 characters or more: `openssl rand -base64 32`. Other machines are served
    by HTTPS only. The database user needs the role rowlease_reader. If visitors may make changes,
    it needs rowlease_operator instead.
    """
    needs_extra("dashboard", "starlette", "jinja2", "uvicorn")
    from rowlease.client.database import database
    from rowlease.dashboard import Dashboard
    from rowlease.dashboard.serving import serve
    from rowlease.silent_clients import ListeningSocket
    from rowlease.store import open_store

    reader, operator = os.environ.get(READER_TOKEN), os.environ.get(OPERATOR_TOKEN)
    has_tokens = bool(reader or operator)
    if (tls_certificate is None) != (tls_key is None):
        raise ConfigError("HTTPS needs both --tls-certificate and --tls-key")
    if not (is_loopback(host) or has_tokens):
        raise ConfigError(
            f"{host} can be reached by other machines, so visitors must log in; set {READER_TOKEN} "
            f"or {OPERATOR_TOKEN}: `openssl rand -base64 32`"
        )
    if not (is_loopback(host) or tls_certificate or proxy):
        raise ConfigError(
            f"{host} can be reached by other machines, which must use HTTPS, because tokens and "
            "payloads are secret; give --tls-certificate and --tls-key, or --proxy if a proxy does"
        )
    if actions and has_tokens:
        raise ConfigError(f"with tokens, the role decides; set {OPERATOR_TOKEN} for actions")
    with database(dsn) as found:
        with closing(open_store(found)) as store:
            store.check_schema()
        made = Dashboard(
            found,
            reader_token=reader or None,
            operator_token=operator or None,
            local_role="operator" if actions else "reader",
        )
        try:
            listener = ListeningSocket.at(host, port)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}, port {port}: {error.strerror}; give another --host or "
                "--port"
            ) from error
        address = f"[{host}]" if ":" in host else host
        scheme = "https" if tls_certificate else "http"
        say(f"dashboard: {scheme}://{address}:{listener.getsockname()[1]}/")
        serve(made, listener, tls_certificate, tls_key, proxy)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
