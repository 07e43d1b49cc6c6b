"""Headers: strings that travel beside a payload, for middleware and tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rowlease.errors import InvalidRequest
from rowlease.model import MAX_HEADERS_BYTES, short_repr

#: The header that says for how many seconds after its enqueue a request may still start.
EXPIRES_HEADER = "expires_seconds"
HEADERS_ADVICE = "it must be a mapping of strings to strings, for example {'tenant': 'acme'}"


def encode_headers(headers: Any) -> str | None:
    """The headers, a mapping of strings to strings, as compact JSON text; None if it is empty.

    Raises:
        InvalidRequest: a name or a value is not a string, or the text is too large.
    """
    if not isinstance(headers, Mapping):
        raise InvalidRequest(f"headers is {short_repr(headers)}; {HEADERS_ADVICE}")
    if not headers:
        return None
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            wrong = {name: value}
            raise InvalidRequest(f"headers is {short_repr(wrong)}; {HEADERS_ADVICE}")
    text = json.dumps(dict(headers), ensure_ascii=False, separators=(",", ":"))
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_HEADERS_BYTES:
        raise InvalidRequest(
            f"headers is {size} bytes of JSON; the limit is {MAX_HEADERS_BYTES}. Put large values "
            "into the payload"
        )
    return text


def decode_headers(text: str | None) -> dict[str, str]:
    """The headers in a JSON text. A value that is not a string is returned as JSON text."""
    if not text:
        return {}
    given = json.loads(text)
    return {name: v if isinstance(v, str) else json.dumps(v) for name, v in given.items()}
