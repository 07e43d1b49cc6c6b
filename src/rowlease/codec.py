"""Values as JSON text, and back into what an annotation names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

from rowlease.errors import ConfigError
from rowlease.model import MAX_PAYLOAD_BYTES

T = TypeVar("T")

#: How values of a class become JSON, and JSON a value of the class.
_ways: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {}


def register_type(kind: type[T], *, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
    """Let tasks take and return values of a class that JSON does not know.

    Call it in the module that defines the class or the tasks, so that producers and workers both
    do. What the annotations of tasks may name without it: JSON's own types, dataclasses, attrs,
    TypedDict, NamedTuple, `msgspec.Struct`, pydantic models, Enum, Literal, datetime, date, time,
    timedelta, UUID, Decimal, bytes, sets, paths, and unions and containers of them.

    Args:
        kind: the class; values of subclasses are encoded alike.
        encode: what is written for a value: JSON, or another type that needs no registration.
        decode: the value of what was written. It raises ValueError or TypeError if it cannot be.
    """
    _ways[kind] = encode, lambda _, written: decode(written)


# A path comes back as the class that the annotation names.
_ways[PurePath] = str, lambda kind, written: kind(written)


def encode(value: Any) -> str:
    """A value as compact JSON text.

    Raises:
        ValueError: it is not JSON (NaN is not), or larger than a payload may be; the message
            begins with a verb.
    """
    try:
        written = _encoder.encode(value)
        if b"null" in written:
            # msgspec writes null for NaN and the infinities; this raises for them.
            json.dumps(msgspec.to_builtins(value, enc_hook=_to_json), allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if len(written) > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"is {len(written)} bytes of JSON; the limit is {MAX_PAYLOAD_BYTES}. Store it "
            "elsewhere and use a reference"
        )
    return written.decode()


def decoder_of(annotation: Any) -> Callable[[str | msgspec.Raw], Any]:
    """What reads JSON text into a value of this annotation.

    It raises msgspec.ValidationError if the text does not fit, DecodeError if it is not JSON.

    Raises:
        ConfigError: no JSON can be read into such a value.
    """
    try:
        return msgspec.json.Decoder(annotation, dec_hook=_from_json).decode
    except TypeError as error:
        raise ConfigError(str(error)) from error


def _to_json(value: Any) -> Any:
    kind = type(value)
    for each in kind.__mro__:
        if each in _ways:
            return _ways[each][0](value)
    if hasattr(kind, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"there is no JSON for {_name(kind)}; rowlease.register_type tells how")


def _from_json(kind: Any, written: Any) -> Any:
    if isinstance(kind, type) and isinstance(written, kind):
        return written
    for each in getattr(kind, "__mro__", ()):
        if each in _ways:
            return _ways[each][1](kind, written)
    if hasattr(kind, "model_validate_json"):  # a pydantic model
        return kind.model_validate_json(msgspec.json.encode(written))
    raise TypeError(f"no {_name(kind)} can be made of JSON; rowlease.register_type tells how")


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", str(kind))


_encoder = msgspec.json.Encoder(enc_hook=_to_json)
