"""Converts the arguments of a task's function to a payload, and a payload to arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from inspect import Parameter
from typing import Any, Unpack, get_args, get_origin, get_type_hints

import msgspec

from rowlease.errors import ConfigError, Retry, WrongArguments
from rowlease.tasks import codec
from rowlease.tasks.cron import SCHEDULED_TIME, takes_time
from rowlease.tasks.settings import Migrate
from rowlease.tasks.signature import Signature

#: The positional arguments and the keyword arguments of a call.
Arguments = tuple[list[Any], dict[str, Any]]
#: The decoder of a payload that is an object. It leaves each argument as JSON text.
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
#: The decoder of a payload that is a list. It leaves each argument as JSON text.
_any = codec.decoder_of(Any)
_version = codec.decoder_of(int)
#: The key of a payload that holds the payload version.
VERSION_KEY = "$version"
#: The key of a payload that holds the successor of the request; see `rowlease.tasks.chains`.
NEXT_KEY = "$next"
#: The key of a payload that holds what a request needs of the batch that it has waited for.
AFTER_KEY = "$after"
#: The delay before a request is tried again if its payload is too new for this worker. A newer
#: worker may claim the request then.
NEWER_AFTER = timedelta(seconds=10)


class Parameters(Signature):
    """The parameters of a function. Annotations are read when they are first needed.

    Args:
        whose: the name of the task, for messages.
        version, migrate: the payload version, and the function that converts older payloads; see
            `TaskSettings`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        whose: str,
        version: int = 1,
        migrate: Migrate | None = None,
    ) -> None:
        super().__init__(function)
        self._whose = whose
        self._version = version
        self._migrate = migrate
        self._decoders: dict[str, Callable[[str | msgspec.Raw], Any]] = {}

    def check(self) -> None:
        """Read all annotations.

        Raises:
            ConfigError: an annotation cannot be read, or names a type that JSON cannot be converted
                to.
        """
        for name in ("return", *self._parameters):
            self._decoder(name)
        for name in self._required:
            with self._annotation(name):
                codec.check_class(self._hints.get(name))

    def takes(self, name: str) -> bool:
        """Whether an argument may have this name."""
        return self._takes_any_name or name in self._names

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The payload for these arguments: a JSON object with the arguments that the caller gave.

        Defaults of the function are left out.

        Raises:
            WrongArguments: the arguments do not fit the function's parameters or their annotations.
            ConfigError: an annotation cannot be read.
        """
        payload = self._encode(self._arguments_by_name(args, kwargs))
        self.arguments(payload)  # check that the worker will be able to decode the payload
        return payload

    def payload_without_first(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[str, str]:
        """The payload for these arguments and a first one that is not known yet.

        Returns:
            The payload without the first argument, and the name of that argument.

        Raises: the same as `payload`.
        """
        try:
            named = self._arguments_by_name((None, *args), kwargs)
        except WrongArguments as error:
            raise WrongArguments(
                f"{error} (the first argument is the result of what comes before; for a task that "
                "does not take it, use request(...) in place of s(...))"
            ) from error
        first = next(iter(named))
        del named[first]
        payload = self._encode(named)
        for name, raw in _object(payload).items():
            if name != VERSION_KEY:
                self._value(name, raw)
        return payload, first

    def schedule_payload(self, arguments: Mapping[str, Any]) -> str:
        """The payload for a schedule of this function with these arguments.

        If the function has the parameter `scheduled_time`, the payload has a placeholder for the
        time of the firing.

        Raises: the same as `payload`.
        """
        time = {"scheduled_time": SCHEDULED_TIME} if takes_time(self._function) else {}
        payload = self._encode({**time, **arguments})
        for name, raw in _object(payload).items():
            if name in arguments:
                self._value(name, raw)
        return payload

    def arguments(self, payload: str) -> Arguments:
        """The arguments for a call of the function, each converted to its annotated type.

        Raises:
            WrongArguments: the payload does not fit the parameters, or is no JSON object.
            ConfigError: an annotation cannot be read.
            Retry: the payload is newer than the task.
        """
        if self._all is not None:
            try:
                return [], self._all(payload)
            except msgspec.DecodeError:
                pass  # an error, for which the code below has a message
            except RecursionError as error:
                raise _too_deep("payload") from error
        try:
            return self._by_name(_object(payload))
        except msgspec.DecodeError as error:
            raise WrongArguments(f"the payload is no JSON object: {error}") from error
        except RecursionError as error:
            raise _too_deep("payload") from error

    def result(self, text: str | None) -> Any:
        """The value of a result, converted to the return annotation.

        Raises:
            WrongArguments: the result does not fit the annotation.
            ConfigError: the annotation cannot be read.
        """
        if text is None:
            return None
        try:
            return self._decoder("return")(text)
        except msgspec.DecodeError as error:
            raise WrongArguments(f"the result does not fit {self._whose}: {error}") from error
        except RecursionError as error:
            raise _too_deep("result") from error

    def _encode(self, named: dict[str, Any]) -> str:
        """The payload for these arguments."""
        try:
            return codec.encode(
                {VERSION_KEY: self._version, **named} if self._version > 1 else named
            )
        except ValueError as error:
            raise WrongArguments(f"the payload {error}") from error

    def _arguments_by_name(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """These arguments by name, if they fit the parameters."""
        try:
            if self._signature is not None:
                self._signature.bind(*args, **kwargs)
            return self._named(args, kwargs) if args else dict(kwargs)
        except TypeError as error:
            raise self._misfit(error) from error

    def _by_name(self, given: dict[str, msgspec.Raw]) -> Arguments:
        given.pop(NEXT_KEY, None)
        given.pop(AFTER_KEY, None)
        if self._version > 1 or VERSION_KEY in given:
            given = self._migrated(given)
        if self._signature is None:
            return [], {name: _any(raw) for name, raw in given.items()}
        names = given.keys()
        if not (self._required <= names and (self._takes_any_name or names <= self._names)):
            self._bind(given)
        values = {name: self._value(name, raw) for name, raw in given.items()}
        if not self._positional_only:
            return [], values
        return [values.pop(name) for name in self._positional_only if name in values], values

    def _migrated(self, given: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        """The arguments, converted to this task's payload version."""
        try:
            version = _version(given.pop(VERSION_KEY, "1"))
        except msgspec.DecodeError as error:
            raise WrongArguments(f"{VERSION_KEY} of the payload: {error}") from error
        if version > self._version:
            raise Retry(
                f"the payload has version {version}, but this worker has only version "
                f"{self._version} of {self._whose}",
                after=NEWER_AFTER,
            )
        if version == self._version or self._migrate is None:
            return given
        values = self._migrate({name: _any(raw) for name, raw in given.items()}, version)
        return _object(codec.encode(values))

    def _bind(self, given: Mapping[str, Any]) -> None:
        """Raise WrongArguments, with the reason, if these names do not fit the parameters."""
        assert self._signature is not None
        by_position = [given[name] for name in self._positional_only if name in given]
        by_name = {name: given[name] for name in given if name not in self._positional_only}
        try:
            self._signature.bind(*by_position, **by_name)
        except TypeError as error:
            raise self._misfit(error) from None

    def _value(self, name: str, raw: msgspec.Raw) -> Any:
        try:
            return self._decoder(name)(raw)
        except msgspec.ValidationError as error:
            what = str(error).replace("`$", f"`{name}")
            where = "" if "` " in what or "`" + name in what else f" - at `{name}`"
            raise self._misfit(f"{what}{where}") from error

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All these arguments by name, including those that the caller gave by position."""
        if len(args) > len(self._positional):
            raise TypeError(
                "arguments for `*args` cannot be enqueued, because a payload stores arguments by "
                "name; use one parameter that takes a list"
            )
        named = dict(zip(self._positional, args, strict=False))
        if both := named.keys() & kwargs.keys():
            raise TypeError(f"got multiple values for argument {min(both)!r}")
        return {**named, **kwargs}

    def _decoder(self, name: str) -> Callable[[str | msgspec.Raw], Any]:
        found = self._decoders.get(name)
        if found is None:
            own = self._parameters.values()
            rest = next((one.name for one in own if one.kind is one.VAR_KEYWORD), "")
            is_own = name in self._names or name in self._hints
            hint = self._hints.get(name if is_own else rest, Any)
            with self._annotation(name):
                found = self._decoders[name] = codec.decoder_of(hint)
        return found

    @contextmanager
    def _annotation(self, name: str) -> Iterator[None]:
        """Name the parameter in the message of an error about its annotation."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(f"{self._whose}, annotation of `{name}`: {error}") from error

    @functools.cached_property
    def _all(self) -> Callable[[str], dict[str, Any]] | None:
        """A function that converts a whole object; None if values must be converted singly."""
        is_plain = self._names == self._parameters.keys() and not self._positional_only
        if self._signature is None or self._version > 1 or not is_plain:
            return None
        with suppress(ConfigError):
            hints = {name: self._hints.get(name, Any) for name in self._names}
            return codec.object_decoder_of(hints, self._required)
        return None

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            hints = get_type_hints(self._function, include_extras=True)
        except Exception as error:
            raise ConfigError(
                f"the annotations of {self._whose} cannot be read: {error}; the names in "
                "annotations must be defined at run time, so do not import them under "
                "`if TYPE_CHECKING:`"
            ) from error
        for name, hint in list(hints.items()):
            if get_origin(hint) is Unpack:  # **options: Unpack[Options]
                del hints[name]
                (options,) = get_args(hint)
                hints |= get_type_hints(options, include_extras=True)
        return hints

    def _misfit(self, why: object) -> WrongArguments:
        takes = ""
        if self._signature is not None:
            plain = [one.replace(annotation=one.empty) for one in self._parameters.values()]
            takes = str(
                self._signature.replace(parameters=plain, return_annotation=Parameter.empty)
            )
        return WrongArguments(f"the payload does not fit {self._whose}{takes}: {why}")


def _too_deep(what: str) -> WrongArguments:
    return WrongArguments(
        f"the {what} is nested too deeply to be read; {codec.MAX_LEVELS} levels are allowed"
    )
