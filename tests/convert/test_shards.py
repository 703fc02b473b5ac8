"""convert into a directory of shards: all records in their order, or no directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.convert.source import TFRecordSource
from ffrfs.errors import ChecksumError, OptionError, PackError
from tests.tfrecord_file import flip_record, framed, tfrecord_records, write_tfrecord

RECORDS = [f"record {i}".encode() * i for i in range(13)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", RECORDS)


@pytest.mark.parametrize("count", [1, 4, 13])
def test_shards(file: Path, tmp_path: Path, count: int) -> None:
    target = tmp_path / "train"
    assert convert(file, target, shards=count) == ConvertSummary(13, 0)
    names = sorted(os.listdir(target))
    assert names == [f"train.tfrecord-{i:05}-of-{count:05}" for i in range(count)]
    shards = [tfrecord_records((target / name).read_bytes()) for name in names]
    assert [record for shard in shards for record in shard] == RECORDS
    assert {len(shard) for shard in shards} <= {13 // count, 13 // count + 1}
    convert(target, tmp_path / "back.tfrecord")
    assert (tmp_path / "back.tfrecord").read_bytes() == file.read_bytes()


def test_compressed_shards(file: Path, tmp_path: Path) -> None:
    convert(file, tmp_path / "a.tfrecord.gz", shards=2)
    names = sorted(os.listdir(tmp_path / "a.tfrecord.gz"))
    assert names == [f"a.tfrecord-0000{i}-of-00002.gz" for i in range(2)]
    assert (tmp_path / "a.tfrecord.gz" / names[0]).read_bytes()[:2] == b"\x1f\x8b"
    # The records of compressed files must be counted first.
    convert(tmp_path / "a.tfrecord.gz", tmp_path / "b", shards=3)
    convert(tmp_path / "b", tmp_path / "back.tfrecord")
    assert (tmp_path / "back.tfrecord").read_bytes() == framed(RECORDS)


def test_a_damaged_record_leaves_no_shards(file: Path, tmp_path: Path) -> None:
    flip_record(file, 9)
    with pytest.raises(ChecksumError, match="record 9"):
        convert(file, tmp_path / "train", shards=4)
    assert os.listdir(tmp_path) == ["x.tfrecord"]
    assert convert(file, tmp_path / "train", shards=4, on_error="skip") == ConvertSummary(12, 1)


def test_existing_files_are_kept(file: Path, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "mine").write_bytes(b"mine")
    for target in (tmp_path / "train", file.with_suffix(".other")):
        if target.name != "train":
            target.write_bytes(b"mine")
        with pytest.raises(PackError, match="exists already"):
            convert(file, target, "tfrecord", shards=2)
    assert sorted(os.listdir(tmp_path)) == ["train", "x.other", "x.tfrecord"]
    (tmp_path / "train" / "mine").unlink()
    convert(file, tmp_path / "train", shards=2)
    assert len(os.listdir(tmp_path / "train")) == 2


def test_refused_options_and_targets(file: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="14 shards of 13 records would be empty files"):
        convert(file, tmp_path / "train", shards=14)
    with pytest.raises(FileNotFoundError) as caught:
        convert(file, tmp_path / "no" / "train", shards=2)
    assert caught.value.filename == str(tmp_path / "no" / "train")
    for to, shards in (("pack", 2), ("tfrecord", -1), ("jsonl", 3)):
        with pytest.raises(OptionError):
            convert(file, tmp_path / "train", to, shards=shards)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["x.tfrecord"]


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("options", [{"to": "pack"}, {"to": "ffrecord"}, {"shards": 2}])
def test_a_source_that_grows_or_shrinks_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, options: dict[str, Any]
) -> None:
    source = write_tfrecord(tmp_path / "x.tfrecord", [b"1", b"2", b"3"])
    monkeypatch.setattr(TFRecordSource, "count", lambda _: 3 - more)
    with pytest.raises(PackError, match=rf"^{source}: the source has changed while it was read"):
        convert(source, tmp_path / "made", **options)
    assert os.listdir(tmp_path) == ["x.tfrecord"]
