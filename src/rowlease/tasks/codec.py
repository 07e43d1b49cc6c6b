"""Converts values to JSON text, and JSON text to values of an annotated type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from itertools import accumulate
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec
import msgspec.inspect
from msgspec import NODEFAULT, UNSET, defstruct
from msgspec.structs import asdict

from rowlease.errors import ConfigError
from rowlease.model import MAX_PAYLOAD_BYTES

T = TypeVar("T")

#: The maximum number of levels in a payload or result. Python 3.11 to 3.13 cannot read many more
#: levels. Python 3.14 can, but then the others could not read its JSON.
MAX_LEVELS = 500

#: For each registered class: the function that encodes its values, and the function that decodes
#: them. The second one also gets the annotated class, which may be a subclass.
_ways: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {}


def register_type(kind: type[T], *, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
    """Let tasks take and return values of a class that JSON does not support.

    Call this function in the module that defines the class or the tasks, so that both producers and
    workers register the class. These types need no registration: JSON's own types, dataclasses,
    attrs classes, TypedDict, NamedTuple, `msgspec.Struct`, pydantic models, Enum, Literal,
    datetime, date, time, timedelta, UUID, Decimal, bytes, sets, paths, and unions and containers of
    these.

    Args:
        kind: the class. Values of its subclasses are encoded in the same way.
        encode: a function that converts a value to JSON, or to a type that needs no registration.
        decode: a function that converts the output of `encode` to a value, or raises ValueError or
            TypeError.
    """
    _ways[kind] = encode, lambda _, written: decode(written)


# A path is decoded to the class that the annotation names.
_ways[PurePath] = str, lambda kind, written: kind(written)


def encode(value: Any) -> str:
    """A value as compact JSON text.

    Raises:
        ValueError: the value cannot be written as JSON (NaN, for example), or is larger than a
            payload may be. The message has no subject, so that callers can add one.
    """
    try:
        written = _encoder.encode(value)
        if type(value) is dict and len(set(map(str, value))) < len(value):
            raise ValueError("two of its keys are the same text; JSON has only text as keys")
        if b"null" in written:
            # msgspec writes null for NaN and the infinities; json.dumps refuses them.
            json.dumps(msgspec.to_builtins(value, enc_hook=_to_json), allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if written.count(b"[") + written.count(b"{") > MAX_LEVELS and _levels(written) > MAX_LEVELS:
        raise ValueError(f"is not JSON: it is nested more than {MAX_LEVELS} levels deep")
    if len(written) > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"is {len(written)} bytes of JSON; the limit is {MAX_PAYLOAD_BYTES}. Store it "
            "elsewhere and use a reference"
        )
    return written.decode()


def _levels(written: bytes) -> int:
    """The depth of nested lists and objects in JSON text."""
    without_strings = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", written)
    steps = (each in b"[{" or -1 for each in re.findall(rb"[][{}]", without_strings))
    return max(accumulate(steps), default=0)


def decoder_of(annotation: Any) -> Callable[[str | msgspec.Raw], Any]:
    """A function that converts JSON text to a value of this annotation.

    The function raises msgspec.ValidationError if the text does not fit the annotation, and
    msgspec.DecodeError if the text is not JSON.

    Raises:
        ConfigError: JSON cannot be converted to this annotation.
    """
    try:
        decode = msgspec.json.Decoder(annotation, dec_hook=_from_json).decode
        if not _has_dataclass(msgspec.inspect.type_info(annotation), set()):
            return decode
    except TypeError as error:
        raise ConfigError(str(error)) from error
    return lambda text: _with_defaults(decode(text))


def _has_dataclass(part: Any, seen: set[int]) -> bool:
    """Whether a part of an annotation, as msgspec inspects it, has a dataclass."""
    if not isinstance(part, tuple | msgspec.inspect.Type | msgspec.inspect.Field):
        return False
    if isinstance(part, msgspec.inspect.DataclassType):
        return True
    if id(part) in seen:  # a class that refers to itself
        return False
    seen.add(id(part))
    parts = part if isinstance(part, tuple) else asdict(part).values()
    return any(_has_dataclass(each, seen) for each in parts)


def _with_defaults(value: T) -> T:
    """The value, in which each object of a dataclass has its defaults.

    msgspec leaves a default to the class, and writes only what the object itself has. So it would
    be missing in the JSON of a result.
    """
    parts: Iterable[Any] = ()
    if is_dataclass(value):
        if (own := getattr(value, "__dict__", None)) is not None:
            for each in fields(value):
                if each.default is not MISSING:
                    own.setdefault(each.name, each.default)
        parts = [getattr(value, each.name, None) for each in fields(value)]
    elif isinstance(value, msgspec.Struct):
        parts = asdict(value).values()
    elif isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    for part in parts:
        _with_defaults(part)
    return value


def object_decoder_of(
    annotations: Mapping[str, Any], required: Collection[str]
) -> Callable[[str], dict[str, Any]]:
    """A function that converts a JSON object, ten times as fast as value by value.

    The function raises msgspec.DecodeError if a value does not fit its annotation, a required name
    is missing, or the object has another name.

    Raises:
        ConfigError: JSON cannot be converted to an annotation, or a name cannot be decoded.
    """
    if private := [name for name in annotations if name.startswith("__")]:
        raise ConfigError(f"{private[0]} cannot be the name of a field")  # classes rename it
    fields = [
        (name, hint, NODEFAULT if name in required else UNSET) for name, hint in annotations.items()
    ]
    decode = decoder_of(defstruct("Object", fields, kw_only=True, forbid_unknown_fields=True))
    if len(required) == len(annotations):
        return lambda text: asdict(decode(text))
    return lambda text: {
        name: value for name, value in asdict(decode(text)).items() if value is not UNSET
    }


def _to_json(value: Any) -> Any:
    kind = type(value)
    for each in kind.__mro__:
        if each in _ways:
            return _ways[each][0](value)
    if hasattr(kind, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(
        f"{_name(kind)} cannot be written as JSON; register the type with rowlease.register_type"
    )


def check_class(kind: Any) -> None:
    """Check that JSON can be converted to a class. Other annotations are not checked.

    Raises:
        ConfigError: the class is not registered.
    """
    if (
        isinstance(kind, type)
        and isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType)
        and not getattr(kind, "_is_protocol", False)
        and not any(issubclass(each, kind) for each in (str, int, float, list, dict))
        and _decode_hook(kind) is None
    ):
        raise ConfigError(_unregistered(kind))


def _from_json(kind: Any, written: Any) -> Any:
    if isinstance(kind, type) and isinstance(written, kind):
        return written
    hook = _decode_hook(kind)
    if hook is None:
        raise TypeError(_unregistered(kind))
    return hook(kind, written)


def _decode_hook(kind: Any) -> Callable[[Any, Any], Any] | None:
    """The function that converts JSON to a class that msgspec does not support, or None."""
    for each in getattr(kind, "__mro__", ()):
        if each in _ways:
            return _ways[each][1]
    if hasattr(kind, "model_validate_json"):  # a pydantic model
        return lambda kind, written: kind.model_validate_json(msgspec.json.encode(written))
    return None


def _unregistered(kind: Any) -> str:
    return (
        f"JSON cannot be converted to {_name(kind)}; register the type with rowlease.register_type"
    )


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", str(kind))


_encoder = msgspec.json.Encoder(enc_hook=_to_json)
