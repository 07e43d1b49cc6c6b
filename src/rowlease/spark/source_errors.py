"""Errors of `format("rowlease")` in the form that Spark shows: one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rowlease.errors import RowleaseError

#: With this variable, a Python worker of Spark reports an exception without its traceback.
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


@contextmanager
def one_sentence() -> Iterator[None]:
    """Raise the errors of rowlease in this block without their cause and traceback.

    Spark shows and logs what a Python worker raises. A traceback would stand before the sentence,
    and the causes, psycopg's errors, quote rows. Spark ends a worker that has raised, so the
    variable affects no other error.
    """
    try:
        yield
    except RowleaseError as error:
        os.environ[HIDE_TRACEBACK] = "1"
        raise type(error)(str(error)) from None
