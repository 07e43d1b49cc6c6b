"""Imports a user's module by its name, and says what is wrong in a sentence."""

from __future__ import annotations

import importlib
from types import ModuleType

from rowlease.errors import ConfigError


def import_named(name: str) -> ModuleType:
    """The module of that name.

    Raises:
        ConfigError: there is none, or importing it fails.
    """
    if not name:
        raise ConfigError(
            "name the module that holds the tasks: package.module or package.module:name"
        )
    try:
        return importlib.import_module(name)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise ConfigError(
                f"there is no module {error.name!r}; start where it can be found, or set PYTHONPATH"
            ) from error
        raise ConfigError(f"importing {name} failed: {error}") from error
    except Exception as error:
        raise ConfigError(f"importing {name} failed: {type(error).__name__}: {error}") from error
