"""Queues that are declared in code, with their settings."""

from __future__ import annotations

from typing import Literal, Self, TypedDict, Unpack, cast

from rowlease.errors import ConfigError


class QueueSettings(TypedDict, total=False):
    """The settings of a queue, under their column names. docs/queues.md explains them.

    Their defaults are those of the table: migrations/versions/0001_tables_postgresql.sql.
    """

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
    rate: str | None
    group_rate: str | None


class Queue(str):
    """A queue that is declared in code: `images = Queue("images", capacity=1000)`.

    A Queue is a str, its name, with the settings as an attribute. It can be used wherever a queue's
    name can: `@task(queue=images)`.

    The declaration alone does not change the database. `rowlease queue apply` and
    `client.queues.apply` create the queue or change its settings. `rowlease worker --create-queues`
    only creates it. Settings that are not declared keep their value in the database: the default,
    or a value that an operator has set.

    Raises:
        ConfigError: the name of a setting is unknown.
    """

    settings: QueueSettings

    def __new__(cls, name: str, **settings: Unpack[QueueSettings]) -> Self:
        made = super().__new__(cls, name)
        made.settings = check_settings(name, settings)
        return made


def check_settings(name: str, settings: QueueSettings) -> QueueSettings:
    """The settings, after a check of their names. The database checks the values.

    Raises:
        ConfigError: the name of a setting is unknown.
    """
    known = QueueSettings.__annotations__
    for setting in settings:
        if setting == "paused":
            raise ConfigError(
                f"queue {name}: paused cannot be declared as a setting; use pause and resume"
            )
        if setting not in known:
            raise ConfigError(
                f"queue {name}: there is no setting {setting!r}; the settings are: "
                f"{', '.join(known)}"
            )
    return cast("QueueSettings", dict(settings))
