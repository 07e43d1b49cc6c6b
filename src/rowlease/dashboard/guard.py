"""Logins, roles, and the checks of each form."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection, Request

from rowlease.errors import ConfigError
from rowlease.silent_clients import network_of

Role = Literal["reader", "operator"]
V = TypeVar("V")
#: The minimum length of a token.
MIN_TOKEN_LENGTH = 16
#: Seconds after which a login ends.
LOGIN_SECONDS = 12 * 3600.0
#: The maximum number of logins, and of addresses whose failed logins are counted.
MAX_LOGINS = 1000
#: The maximum number of failed logins from one address, or IPv6 network, in a minute.
MAX_LOGIN_FAILURES = 10
#: The maximum size of a form, in bytes. A form holds names and the ids of selected requests.
MAX_FORM_BYTES = 65_536
COOKIE = "rowlease_dashboard"
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")

#: No script, style, picture or frame of another origin, and no inline script or style.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
STRICT_TRANSPORT = "max-age=31536000"


class Refused(Exception):
    """The request is refused. The answer is an error page that shows the message.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Visitor(NamedTuple):
    """The sender of a request.

    Attributes:
        role: None if the visitor must log in.
        cookie: the value of the visitor's cookie.
        csrf: the token that each form of this visitor has.
        has_login: whether the visitor has logged in with a token.
    """

    role: Role | None
    cookie: str
    csrf: str
    has_login: bool

    @property
    def may_act(self) -> bool:
        return self.role == "operator"


class Login(NamedTuple):
    role: Role
    ends: float


class Guard:
    """Decides whether a request is served, and which role its sender has.

    Args:
        tokens: the token of each role. If there is none, only visitors on this machine are let in.
        local_role: the role of visitors on this machine, if there are no tokens.
        authorize: a function of the program in which the dashboard is mounted. It gets the
            connection and returns the visitor's role, or None. It replaces tokens.

    Raises:
        ConfigError: a token is too short, or both roles have the same.
    """

    def __init__(
        self,
        tokens: Mapping[Role, str],
        local_role: Role = "reader",
        authorize: Callable[[HTTPConnection], Role | None] | None = None,
    ) -> None:
        for role, token in tokens.items():
            if len(token) < MIN_TOKEN_LENGTH:
                raise ConfigError(
                    f"the dashboard's token of the role {role} has {len(token)} characters; "
                    f"{MIN_TOKEN_LENGTH} or more are needed: run `openssl rand -base64 32`"
                )
        if len(set(tokens.values())) < len(tokens):
            raise ConfigError("both roles of the dashboard have the same token; give each its own")
        self.needs_login = bool(tokens)
        self._tokens = {role: _digest(token) for role, token in tokens.items()}
        self._local_role = local_role
        self._authorize = authorize
        self._key = secrets.token_bytes(32)
        self._logins: OrderedDict[str, Login] = OrderedDict()
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def visitor(self, request: HTTPConnection) -> Visitor:
        """The sender of the request.

        Raises:
            Refused: there are neither tokens nor an `authorize` function, and the request is not
                local (see `is_local`); or `authorize` returned no role.
        """
        cookie = request.cookies.get(COOKIE) or secrets.token_urlsafe(32)
        login = self._logins.get(cookie)
        if login is not None and login.ends < monotonic():
            del self._logins[cookie]
            login = None
        role: Role | None
        if self._authorize is not None:
            role = self._authorize(request)
            if role is None:
                raise Refused(403, "you have no access to this dashboard")
        elif self._tokens:
            role = None if login is None else login.role
        elif is_local(request):
            role = self._local_role
        else:
            raise Refused(
                403,
                "the dashboard has no tokens, so it answers only requests from its own machine to "
                "localhost; configure tokens to allow others",
            )
        csrf = hmac.digest(self._key, cookie.encode("utf-8", "surrogatepass"), "sha256").hex()
        return Visitor(role, cookie, csrf, login is not None)

    def check(self, visitor: Visitor, request: Request, form: QueryParams) -> None:
        """Refuse a form of another origin, or of another visitor.

        Raises:
            Refused: the form is not from a page of this dashboard that this visitor was shown.
        """
        if not is_same_origin(request):
            raise Refused(403, "the request comes from another site")
        if not _equal(form.get("csrf", ""), visitor.csrf):
            raise Refused(403, "the form is too old; reload its page, then send the form again")

    def log_in(self, address: str, token: str) -> str | None:
        """The cookie of a new login; None if no role has this token.

        Every token is compared, in constant time.

        Raises:
            Refused: the address had too many failed logins in the last minute.
        """
        now = monotonic()
        address = network_of(address)
        failed = [time for time in self._failures.get(address, []) if time > now - 60]
        if len(failed) >= MAX_LOGIN_FAILURES:
            raise Refused(429, f"too many failed logins from {address}; wait a minute")
        given = _digest(token)
        found = [
            role for role, wanted in self._tokens.items() if hmac.compare_digest(given, wanted)
        ]
        if not found:
            _put(self._failures, address, [*failed, now])
            return None
        cookie = secrets.token_urlsafe(32)
        _put(self._logins, cookie, Login(found[0], now + LOGIN_SECONDS))
        return cookie

    def log_out(self, visitor: Visitor) -> None:
        self._logins.pop(visitor.cookie, None)


def is_local(request: HTTPConnection) -> bool:
    """Whether the request comes from this machine, to a name of this machine.

    The name matters because of DNS rebinding: any site can give a name of its own the address
    127.0.0.1, and its pages then send requests from the visitor's machine to this server.
    """
    try:
        address = ipaddress.ip_address(request.client.host if request.client else "")
    except ValueError:
        return False
    return address.is_loopback and host_name(request) in LOCAL_NAMES


def host_name(request: HTTPConnection) -> str | None:
    """The host in the Host header; None if the header is missing or malformed."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return None


def is_same_origin(request: HTTPConnection) -> bool:
    """Whether a page of this site sent the request. Browsers send Origin with every form."""
    origin = request.headers.get("origin", "")
    return origin == f"{request.scope['scheme']}://{request.headers.get('host', '')}"


async def read_form(request: Request) -> QueryParams:
    """The fields of a form.

    Raises:
        Refused: it is too large, or not a form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "the request is not a form")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            raise Refused(
                413, f"a form may have at most {MAX_FORM_BYTES:,} bytes; use the command line"
            )
    return QueryParams(body.decode("ascii", "replace"))


def local_path(path: str) -> str:
    """`path` if it is a path of this site; otherwise the path of the overview."""
    is_path = path.startswith("/") and not path.startswith("//")
    return path if is_path and path.isprintable() and "\\" not in path else "/"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(_digest(given), _digest(wanted))


def _put(kept: OrderedDict[str, V], key: str, value: V) -> None:
    """Keep a value as the newest. If there are too many, the oldest is dropped."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > MAX_LOGINS:
        kept.popitem(last=False)
