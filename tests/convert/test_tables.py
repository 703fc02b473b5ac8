"""Tables of other programs: doubles of pandas, CSV, and files and streams of Arrow."""

from __future__ import annotations

import gzip
import io
import random
import re
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from ffrfs.convert import other_tables
from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.errors import FfrfsError, FormatError, OptionError, PackWarning
from tests.convert.messages import examples_of

ZIPPED = gzip.compress(b"a,b\n1,2\n", mtime=0)
TABLE = pa.table({"id": [1, 2, 3], "text": ["a", "", "é"], "box": [[1], [], [2, 3]]})


def write_arrow(path: Path, table: Any, how: str) -> Path:
    if how == "feather":
        pyarrow.feather.write_feather(table, path, compression="lz4")
        return path
    new = pa.ipc.new_stream if how == "stream" else pa.ipc.new_file
    with new(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def test_doubles_are_rounded_with_a_warning(tmp_path: Path) -> None:
    table = pa.table({"x": [0.1, None, float("inf")], "y": [[1e-300], [], [2.5]], "n": [1, 2, 3]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.warns(PackWarning) as told:
        convert(tmp_path / "x.parquet", tmp_path / "x.tfrecord")
    assert [str(each.message) for each in told] == [
        f"{tmp_path}/x.parquet: double is rounded to float32, as Examples have it: 'x', 'y'"
    ]
    found = examples_of(tmp_path / "x.tfrecord")
    assert found[0] == {"n": [1], "x": [pytest.approx(0.1)], "y": [0.0]}
    assert found[1] == {"n": [2], "y": []}
    assert found[2]["x"] == [float("inf")]


def test_doubles_can_be_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"x": [0.1]}), tmp_path / "x.parquet")
    with pytest.raises(FormatError, match=r"x\.parquet: column 'x' is double, .* keeps float32"):
        convert(tmp_path / "x.parquet", tmp_path / "x.tfrecord", float64="refuse")


@pytest.mark.parametrize("how", ["file", "stream", "feather"])
def test_arrow(tmp_path: Path, how: str) -> None:
    name = "x.feather" if how == "feather" else "x.arrow"
    file = write_arrow(tmp_path / name, TABLE, how)
    assert convert(file, tmp_path / "x.tfrecord") == ConvertSummary(3, 0)
    assert examples_of(tmp_path / "x.tfrecord") == [
        {"id": [1], "text": [b"a"], "box": [1]},
        {"id": [2], "text": [b""], "box": []},
        {"id": [3], "text": ["é".encode()], "box": [2, 3]},
    ]


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/1.csv").write_bytes(
        b'id,name,day,ok,score\n7,"a, ""b""",2026-01-02,true,1\n,\xff,,false,2\n'
    )
    (tmp_path / "c/2.csv").write_bytes(b"id,name\n8,\n")
    assert convert(tmp_path / "c", tmp_path / "x.tfrecord") == ConvertSummary(3, 0)
    assert examples_of(tmp_path / "x.tfrecord") == [
        {"id": [7], "name": [b'a, "b"'], "day": [b"2026-01-02"], "ok": [1], "score": [1]},
        {"name": [b"\xff"], "day": [b""], "ok": [0], "score": [2]},
        {"id": [8], "name": [b""]},
    ]
    with gzip.open(tmp_path / "c/1.csv.gz", "wb") as file:
        file.write((tmp_path / "c/1.csv").read_bytes())
    (tmp_path / "c/1.csv").unlink()
    assert convert(tmp_path / "c", tmp_path / "z.tfrecord") == ConvertSummary(3, 0)
    assert (tmp_path / "z.tfrecord").read_bytes() == (tmp_path / "x.tfrecord").read_bytes()
    (tmp_path / "y.csv").write_text("x\n0.5\n")
    with pytest.warns(PackWarning, match="rounded to float32.*'x'"):
        convert(tmp_path / "y.csv", tmp_path / "y.tfrecord")
    assert examples_of(tmp_path / "y.tfrecord") == [{"x": [0.5]}]


@pytest.mark.parametrize("columns", [1, 3])
def test_csv_texts_with_line_breaks_are_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """A text is whole even if a block ends in its middle."""
    poems = [b"poem %d\n" % n + b"a verse,\r\n\r\r\n" * (n % 4) for n in range(50)]
    before = [b"%d,," % n if columns == 3 else b"" for n in range(50)]
    (tmp_path / "x.csv").write_bytes(
        b"n,empty,text\n"[0 if columns == 3 else 8 :]
        + b"".join(b'%b"%b"\n' % row for row in zip(before, poems, strict=True))
    )
    for size in range(64, 96):
        monkeypatch.setattr(other_tables, "_BLOCK_SIZE", size)
        convert(tmp_path / "x.csv", tmp_path / "x.tfrecord", force=True)
        assert [row["text"] for row in examples_of(tmp_path / "x.tfrecord")] == [
            [poem] for poem in poems
        ]


def test_a_quote_of_csv_that_is_not_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds a few blocks, not the rest of the file."""
    monkeypatch.setattr(other_tables, "_BLOCK_SIZE", 64)
    (tmp_path / "x.csv").write_bytes(b'n,text\n1,"a\n' + b"2,b\n" * 1000)
    with pytest.raises(FormatError, match=r"x\.csv: .* of over 64 bytes, or a quote is not closed"):
        convert(tmp_path / "x.csv", tmp_path / "x.tfrecord")


@pytest.mark.parametrize(
    "number",
    ["9223372036854775808", "-9223372036854775809", '"+018446744073709551616 "', "9" * 5000],
    ids=["above", "below", "quoted", "long"],
)
def test_csv_integers_beyond_int64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    """pyarrow reads them as doubles, so that different ids become equal."""
    monkeypatch.setattr(other_tables, "_BLOCK_SIZE", 6000)
    (tmp_path / "x.csv").write_text("n,id\n" + "1,1.5\n" * 2000 + f"1,{number}\n")
    with (
        pytest.warns(PackWarning, match="'id'"),
        pytest.raises(
            FormatError, match=r"x\.csv: row 2000: column 'id' has an integer that"
        ) as at,
    ):
        convert(tmp_path / "x.csv", tmp_path / "x.tfrecord")
    assert at.value.record == 2000


def test_large_doubles_of_csv(tmp_path: Path) -> None:
    numbers = ["1e19", "-9223372036854775808", "9300000000000000000.0", "inf", "", "7"]
    (tmp_path / "x.csv").write_text("x,n\n" + "".join(f"{number},1\n" for number in numbers))
    with pytest.warns(PackWarning, match="'x'"):
        convert(tmp_path / "x.csv", tmp_path / "x.tfrecord")
    found = [row.get("x") for row in examples_of(tmp_path / "x.tfrecord")]
    kept = [1e19, -(2.0**63), 9.3e18, float("inf"), None, 7]
    assert found == [None if each is None else [pytest.approx(each)] for each in kept]


def test_a_thread_that_reads_csv_ahead_is_ended() -> None:
    blocks: list[bytes] = []
    with other_tables._LineBreaks(io.BytesIO(bytes(1 << 30))) as file:
        thread = threading.Thread(target=lambda: blocks.extend(iter(lambda: file.read(9), b"")))
        thread.start()
    assert len(blocks) < (1 << 30) // 9
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.csv.gz", b"a,b\n1,2\n", "not a CSV file, or damaged (zlib"),
        ("x.csv.gz", ZIPPED[:-9], "(Truncated compressed stream)"),
        ("x.csv.gz", ZIPPED[:-8] + bytes(8), "incorrect data check"),
        ("x.csv", b"a\n1\n1,2\n", "(CSV parse error: Row #3: Expected 1 columns, got 2: 1,2)"),
        ("x.csv", b"", "not a CSV file, or damaged (Empty CSV file)"),
        ("x.csv", b"a,b\n1\n", "not a CSV file, or damaged ("),
        ("x.csv", b"a,a\n1,2\n", "two columns have the same name"),
        (
            "x.csv",
            b"a,b\n" + (b"1," + b"x" * 8000 + b"\n") * 1100 + b"text,\n",
            "invalid value 'text'",
        ),
        ("x.arrow", b"", "not an Arrow file, or damaged ("),
        ("x.arrow", b"ARROW1 and nothing else", "not an Arrow file, or damaged ("),
        ("x.feather", b"FEA1" + bytes(100), "not an Arrow file, or damaged ("),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError) as caught:
        convert(tmp_path / name, tmp_path / "x.tfrecord")
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert reason in str(caught.value)
    assert not (tmp_path / "x.tfrecord").exists()


@pytest.mark.parametrize("how", ["file", "stream", "feather"])
def test_damaged_arrow_ends_with_an_error(tmp_path: Path, how: str) -> None:
    """Changed values cannot be noticed; names, lengths and offsets are checked."""
    whole = write_arrow(tmp_path / "whole", TABLE, how).read_bytes()
    chance = random.Random(7)
    file = tmp_path / "x.arrow"
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        file.write_bytes(content[: chance.choice([len(content), chance.randrange(len(content))])])
        try:
            convert(file, tmp_path / "x.tfrecord", force=True)
        except FfrfsError as error:
            assert re.match(rf"{file}: ", str(error))


def test_damaged_arrow_names_its_batch(tmp_path: Path) -> None:
    file = write_arrow(tmp_path / "x.arrow", TABLE, "file")
    whole = file.read_bytes()
    at = whole.rindex("é".encode())
    file.write_bytes(whole[:at] + b"\xff\xff" + whole[at + 2 :])
    with pytest.raises(FormatError, match=r"x\.arrow: not an .* \(record batch 1: In column 1:"):
        convert(file, tmp_path / "x.tfrecord")


def test_rows_that_take_no_space(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(1 << 30)], names=["x"])
    with pa.ipc.new_file(tmp_path / "x.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(FormatError, match="has 1,073,741,824 rows without values"):
        convert(tmp_path / "x.arrow", tmp_path / "x.tfrecord")


@pytest.mark.parametrize("options", [{"to": "pakc"}, {"to": ""}, {"float64": "refus"}])
def test_unknown_option_values(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "x.csv").write_text("x\n1.5\n")
    with pytest.raises(OptionError, match=r"must be one of .*, not"):
        convert(tmp_path / "x.csv", tmp_path / "y.tfrecord", **options)
    assert not (tmp_path / "y.tfrecord").exists()


def test_parquet_is_the_only_table_format_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n")
    with pytest.raises(OptionError, match="its name shows no format"):
        convert(tmp_path / "x.csv", tmp_path / "y.arrow")
