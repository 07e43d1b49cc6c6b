"""Finds requests that match a filter."""

from __future__ import annotations

from rowlease.errors import InvalidRequest
from rowlease.filters.filter import Filter
from rowlease.filters.language import combine_filters
from rowlease.model import Found, check_type, short_repr
from rowlease.store import Store

#: The maximum number of requests that one call returns.
MAX_FOUND = 10_000
#: The number of requests of each table that one call reads.
MAX_READ_PER_CALL = 10_000


def find(
    store: Store,
    text: str | None,
    limit: int,
    after: int | None,
    given: Filter,
    look: int = MAX_READ_PER_CALL,
) -> Found:
    """See `Client.find`. A call reads so many requests of each table."""
    check_type("filter", text, ((str, type(None)), "it must be a text such as 'status:failed'"))
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_FOUND:
        raise InvalidRequest(f"limit is {short_repr(limit)}; it must be from 1 to {MAX_FOUND:,}")
    check_type("after", after, ((int, type(None)), "it must be `after` of an earlier answer"))
    return store.find_requests(limit=limit, after=after, look=look, **combine_filters(text, given))
