"""The text of a filter, such as `queue:images status:failed error:"no answer" priority>=5 age>1h`.

The command line, `client.find` and the dashboard read the same language.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from rowlease.durations import parse_duration
from rowlease.errors import InvalidRequest, WrongFilter
from rowlease.filters.filter import MAX_BIGINT, STORABLE, Filter, statuses


def parse_time(text: str) -> datetime:
    """Parse a time such as `2026-11-22T18:00`. A time without a zone is UTC.

    Raises:
        ValueError: the text is not a time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write 2026-11-22T18:00 (UTC) or 2026-11-22T18:00+01:00"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def check_storable(text: str) -> str:
    """The text, after a check of its characters.

    Raises:
        ValueError: it has a character that no database stores.
    """
    if not STORABLE.fullmatch(text):
        raise ValueError("it has a character that no database stores")
    return text


def parse_integer(text: str) -> int:
    """Parse a whole number that fits into a bigint.

    Raises:
        ValueError: the text is not such a number.
    """
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > MAX_BIGINT:
        raise ValueError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


#: A key: its operators, each with the names of the filters that it sets, and the parser
#: of its value.
Meaning = tuple[dict[str, tuple[str, ...]], Callable[[str], Any]]


def parse_list(parse: Callable[[str], Any], text: str) -> tuple[Any, ...]:
    """Parse values that commas separate."""
    return tuple(parse(part) for part in text.split(","))


def parse_status(text: str) -> str:
    (found,) = statuses(text)
    return found


def comparison_operators(name: str) -> dict[str, tuple[str, ...]]:
    """The operators of a value that is compared."""
    low, high = (f"min_{name}",), (f"max_{name}",)
    return {">=": low, ">": low, "<=": high, "<": high}


#: All keys of the language.
FILTER_KEYS: dict[str, Meaning] = {
    "queue": ({":": ("queue",)}, check_storable),
    "status": ({":": ("status",)}, partial(parse_list, parse_status)),
    "kind": ({":": ("kind",)}, check_storable),
    "error": ({":": ("error",)}, check_storable),
    "pattern": ({":": ("error_pattern",)}, check_storable),
    "dedup": ({":": ("dedup_key",)}, check_storable),
    "group": ({":": ("group_key",)}, check_storable),
    "load": ({":": ("load_id",)}, check_storable),
    "worker": ({":": ("worker",)}, check_storable),
    "id": ({":": ("ids",)}, partial(parse_list, parse_integer)),
    "priority": (
        {":": ("min_priority", "max_priority"), **comparison_operators("priority")},
        parse_integer,
    ),
    "age": (comparison_operators("age"), parse_duration),
    "since": ({":": ("since",)}, parse_time),
    "until": ({":": ("until",)}, parse_time),
}
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
KEY_AND_SIGN = re.compile(r"(?P<key>\w+)(?P<sign>>=|<=|[:<>])")
#: A key, an operator, and a value: in quotes, or without blanks and quotes.
TERM = re.compile(rf'{KEY_AND_SIGN.pattern}(?P<value>{QUOTED.pattern}|[^\s"]*)(?=\s|$)', re.DOTALL)
WORD = re.compile(r"\S+")


def parse(text: str) -> Filter:
    """Read a filter from a text such as `queue:images status:failed,pending age>1h`.

    All terms must match. A value with a blank or a quote is written in double quotes, in which
    `\\"` is a quote and `\\\\` a backslash.

    Raises:
        WrongFilter: the text is not a filter. The message points at the part that is wrong.
    """
    found: dict[str, Any] = {}
    place = 0
    while word := WORD.search(text, place):
        term = TERM.match(text, word.start())
        if term is None:
            raise WrongFilter(text, *word.span(), describe_malformed(text[word.start() :]))
        place = term.end()
        key, sign, value = term["key"].lower(), term["sign"], unquote(term["value"])
        if key not in FILTER_KEYS:
            raise WrongFilter(text, *term.span("key"), describe_unknown_key(key))
        signs, read = FILTER_KEYS[key]
        if sign not in signs:
            forms = " or ".join(f"{key}{one}VALUE" for one in signs)
            raise WrongFilter(text, term.start(), term.end("sign"), f"write {forms}")
        if not value:
            raise WrongFilter(text, *term.span(), f"{key} has no value")
        try:
            given = read(value)
        except (ValueError, InvalidRequest) as error:
            raise WrongFilter(text, *term.span("value"), str(error)) from error
        if key == "priority" and sign in "<>":
            given += 1 if sign == ">" else -1
        if found.keys() & signs[sign]:
            raise WrongFilter(text, *term.span(), f"{key} is already limited by an earlier term")
        found |= dict.fromkeys(signs[sign], given)
    return cast("Filter", found)


def combine_filters(text: str | None, given: Filter) -> Filter:
    """The filters of the text and the given ones.

    Raises:
        WrongFilter: the text is not a filter.
        InvalidRequest: the text and an argument limit the same field.
    """
    parsed = parse(text or "")
    if both := sorted(parsed.keys() & given.keys()):
        raise InvalidRequest(f"the text and the argument {both[0]} limit the same field; give one")
    return {**parsed, **given}


def quote(value: str) -> str:
    """The value as it is written in a filter, in quotes if it needs them."""
    if re.fullmatch(r'[^\s"]+', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def unquote(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)


def describe_unknown_key(key: str) -> str:
    return f"there is no key {key!r}; the keys are {', '.join(sorted(FILTER_KEYS))}"


def describe_malformed(rest: str) -> str:
    """Why this text does not begin with a term."""
    if not (begun := KEY_AND_SIGN.match(rest)):
        return (
            "this is not KEY:VALUE, such as error:Timeout or age>1h; write a value with blanks in "
            "double quotes"
        )
    if begun[1].lower() not in FILTER_KEYS:
        return describe_unknown_key(begun[1])
    value = rest[begun.end() :]
    if QUOTED.match(value):
        return "a blank must follow the closing quote of the value"
    if value.startswith('"'):
        return "the quote is not closed"
    return 'write a value with a quote in double quotes, and in it \\" for the quote'
