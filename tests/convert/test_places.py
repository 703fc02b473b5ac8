"""Errors about a record that a target cannot hold name its file, and its record, line or row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ffrfs.convert.convert import convert
from ffrfs.errors import PackError
from tests.convert.messages import serialized
from tests.convert.test_webdataset import write_tar
from tests.ffrecord_file import write_folder, write_records
from tests.tfrecord_file import flip_record, write_tfrecord

GOOD = serialized({"a": 1})
BAD = b"no example at all\n"


def tfrecord(place: Path) -> Path:
    write_tfrecord(place / "0.tfrecord", [GOOD] * 3)
    flip_record(write_tfrecord(place / "1.tfrecord", [GOOD, GOOD, BAD]), 0)
    return place


def ffrecord(place: Path) -> Path:
    write_records(place / "0.ffr", [GOOD] * 3)
    write_records(place / "1.ffr", [GOOD, BAD])
    return place


def json_lines(place: Path) -> Path:
    file = place / "x.jsonl"
    file.write_text('{"a": 1}\n\n{"features": {"a": {"float_list": ["NaN"]}}}\n')
    return file


def webdataset(place: Path) -> Path:
    return write_tar(place / "x.tar", [("0.txt", b"good"), ("1.txt", b"\xff")])


def pack(place: Path) -> Path:
    return write_folder(place / "x.ffr", {"a": b"good", "b": b"\xff"})


def table(place: Path) -> Path:
    for name, values in (("0", [1.5]), ("1", [1.5, float("nan")])):
        pq.write_table(pa.table({"a": pa.array(values, pa.float32())}), place / f"{name}.parquet")
    return place


def folder(place: Path) -> Path:
    (place / "000000000").write_bytes(GOOD)
    (place / "000000001").write_bytes(BAD)
    return place


@pytest.mark.parametrize(
    ("make", "flat", "expected"),
    [
        (tfrecord, False, "1.tfrecord: record 2: "),
        (tfrecord, True, "1.tfrecord: record 2: "),
        (ffrecord, False, "1.ffr: record 1: "),
        (json_lines, True, "x.jsonl: line 3: "),
        (webdataset, True, "x.tar: sample '1': "),
        (pack, True, "x.ffr: 'b': "),
        (table, True, "1.parquet: row 1: "),
        (folder, False, "000000001: "),
    ],
)
def test_errors_name_the_place_of_a_record(
    tmp_path: Path, make: Callable[[Path], Path], flat: bool, expected: str
) -> None:
    place = tmp_path / "source"
    place.mkdir()
    source = make(place)
    with pytest.raises(PackError) as caught:
        convert(source, tmp_path / "y.jsonl", flat=flat, on_error="skip")
    assert str(caught.value).startswith(f"{place / expected}")


def test_an_error_while_writing_shards_names_the_source(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    source = tfrecord(tmp_path / "source")
    with pytest.raises(PackError) as caught:
        convert(source, tmp_path / "out", "webdataset", shards=2, on_error="skip")
    assert str(caught.value).startswith(f"{source / '1.tfrecord'}: record 2: not an Example")


def test_mixed_types_in_flat_lines_advise_leaving_out_flat(tmp_path: Path) -> None:
    records = [serialized({"a": value}) for value in (1, b"")]
    file = write_tfrecord(tmp_path / "x.tfrecord", records)
    with pytest.raises(PackError, match=r"feature 'a' is bytes_list, .*; leave out --flat$"):
        convert(file, tmp_path / "y.jsonl", flat=True)
