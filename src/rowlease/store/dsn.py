"""DSNs without their passwords."""

from __future__ import annotations

import re

#: A host with an optional port.
HOST = r"(\[[^]/]*\]|[^]:/[,]*)(:\d*)?"
#: Hosts and an optional database. A string that matches cannot contain a password.
ADDRESS = rf"{HOST}(,{HOST})*(/.*)?"


def place_of(dsn: str) -> str:
    """The host, the port and the database of a DSN, such as `db.example:5432/jobs`."""
    return redact(dsn).partition("://")[2].rpartition("@")[2]


def redact(dsn: str) -> str:
    """The DSN without its password, for messages and logs. Parts that may contain it are masked."""
    scheme, _, rest = dsn.partition("://")
    if not re.fullmatch(r"[a-z][a-z+]*", scheme) or not rest:
        return "***"
    address, _, query = rest.partition("?")
    credentials, at, place = address.rpartition("@")
    # A colon that was escaped by mistake makes the password a part of the user's name.
    user, *password = re.split(":|%3A", credentials, maxsplit=1, flags=re.IGNORECASE)
    if "@" in query or "/" in user or not (at or re.fullmatch(ADDRESS, place)):
        return f"{scheme}://***"
    place = re.sub("%2F", "/", place, flags=re.IGNORECASE)  # the folder of a socket
    return f"{scheme}://{user}{':***' if password else ''}{at}{place}"


def mask_passwords(text: str) -> str:
    """A message without the passwords of the DSNs in it."""
    masked = re.sub(r"(?i)(\b[a-z][a-z+]*://[^:@/\s]*?(?::|%3A)).*@", r"\1***@", text)
    return re.sub(r"(?i)(password=)[^&\s'\"]*", r"\1***", masked)
