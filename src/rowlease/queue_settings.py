"""The settings of a queue, as code declares them."""

from __future__ import annotations

from typing import Literal, Self, TypedDict, Unpack, cast

from rowlease.errors import ConfigError


class QueueSettings(TypedDict, total=False):
    """The settings of a queue, by the names of their columns (docs/operations.md has a table)."""

    max_priority: int
    capacity: int | None
    lease_seconds: int
    max_attempts: int
    max_crashes: int
    retry_base_ms: int
    retry_cap_ms: int
    policy: Literal["strict", "weighted", "aging"]
    policy_weights: list[float] | None
    policy_aging_seconds: int
    max_in_flight: int | None
    keep_history: bool
    retention_days: int
    unknown_kind_seconds: int


class Queue(str):
    """A queue that the code declares: `images = Queue("images", capacity=1000)`.

    It is its name, with settings: `@task(queue=images)`. Declaring it changes nothing; `rowlease
    queue apply`, `rowlease worker --create-queues` and `client.queues.apply` create it in the
    database. Settings that it does not name are the database's: its defaults, or what an operator
    has set.

    Raises:
        ConfigError: there is no such setting.
    """

    settings: QueueSettings

    def __new__(cls, name: str, **settings: Unpack[QueueSettings]) -> Self:
        made = super().__new__(cls, name)
        made.settings = checked(name, settings)
        return made


def checked(name: str, settings: QueueSettings) -> QueueSettings:
    """The settings, if all their names are known; the database checks the values.

    Raises:
        ConfigError: there is no such setting.
    """
    known = QueueSettings.__annotations__
    for setting in settings:
        if setting == "paused":
            raise ConfigError(f"queue {name}: paused is no setting; use pause and resume")
        if setting not in known:
            raise ConfigError(
                f"queue {name}: there is no setting {setting!r}; known are: {', '.join(known)}"
            )
    return cast("QueueSettings", dict(settings))
