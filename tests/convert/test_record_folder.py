"""Records become directories on disk, as a mount shows them, and these become records again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.errors import ChecksumError, FfrfsError, FormatError, OptionError, PackError
from ffrfs.tfrecord import from_dict
from tests.ffrecord_file import write_folder, write_records
from tests.tfrecord_file import flip_record, framed, write_tfrecord

JPEG = b"\xff\xd8\xff\xe0" + bytes(1000)
RECORDS = [
    *(from_dict({"image/encoded": JPEG, "label": i}).SerializeToString() for i in range(11)),
    b"no example at all\n",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", RECORDS)


def test_round_trip(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert convert(file, target, "folder") == ConvertSummary(12, 0)
    assert sorted(os.listdir(target)) == [f"{i:09}" for i in range(12)]
    assert (target / "000000003/image/encoded.jpg").read_bytes() == JPEG
    assert np.load(target / "000000010/label.npy").tolist() == [10]
    assert os.listdir(target / "000000011") == ["record.bin"]
    assert convert(target, tmp_path / "y.tfrecord") == ConvertSummary(12, 0)
    assert (tmp_path / "y.tfrecord").read_bytes() == framed(RECORDS)


def test_round_trip_of_an_ffrecord_file(tmp_path: Path) -> None:
    convert(write_records(tmp_path / "x.ffr", RECORDS), tmp_path / "out", "folder")
    assert (tmp_path / "out" / "000000011").read_bytes() == RECORDS[11]
    convert(tmp_path / "out", tmp_path / "y.ffr")
    convert(tmp_path / "y.ffr", tmp_path / "y.tfrecord")
    assert (tmp_path / "y.tfrecord").read_bytes() == framed(RECORDS)


def test_a_damaged_record_leaves_no_directory(file: Path, tmp_path: Path) -> None:
    flip_record(file, 9)
    with pytest.raises(ChecksumError, match="record 9"):
        convert(file, tmp_path / "out", "folder")
    assert os.listdir(tmp_path) == ["x.tfrecord"]


def test_refused_conversions(file: Path, tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"a": b"1"})
    with pytest.raises(PackError, match="is a pack; write its files with: ffrfs extract"):
        convert(pack, tmp_path / "out", "folder")
    (tmp_path / "x.jsonl").write_bytes(b'{"features": {}}\n')
    with pytest.raises(PackError, match=r"to a \.tfrecord file first"):
        convert(tmp_path / "x.jsonl", tmp_path / "out", "folder")
    for options in ({"records": True}, {"on_error": "skip"}, {"shards": 2}, {"features": True}):
        with pytest.raises(OptionError):
            convert(file, tmp_path / "out", "folder", **options)  # type: ignore[arg-type]
    with pytest.raises(PackError, match="exists already"):
        convert(file, tmp_path, "folder")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["000000002", "1", "x", "0000000001"])
def test_a_record_is_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    for each in ("000000000", name):
        (tmp_path / "in" / each).write_bytes(b"1")
    with pytest.raises(FormatError, match="is where record 1 should be"):
        convert(tmp_path / "in", tmp_path / "y.tfrecord")


def test_a_directory_that_holds_no_record(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "000000000").mkdir()
    with pytest.raises(FileNotFoundError, match=r"record\.bin"):
        convert(tmp_path / "in", tmp_path / "y.tfrecord")
    os.mkfifo(tmp_path / "in" / "000000000" / "record.bin")
    with pytest.raises(FfrfsError, match="not a regular file"):
        convert(tmp_path / "in", tmp_path / "y.tfrecord")
    assert os.listdir(tmp_path) == ["in"]
