"""Records whose files a mount could not make: the commands write these files all the same."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.cli.command_run import Run, peak_kb
from tests.tfrecord_example import example, floats, ints, json_floats, npy_floats
from tests.tfrecord_file import flip_record, tfrecord_records, write_tfrecord

# example.json takes 19 bytes for each value: in all more than a quarter of 256 MiB.
COUNT = 3_700_000
VALUES = struct.pack("<f", 1.5) * COUNT
NAMES = ["example.json", "f.npy", "record.bin"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    small = [example(f=floats(struct.pack("<f", number))) for number in range(4)]
    records = [*small[:2], example(f=floats(VALUES)), *small[2:]]
    return write_tfrecord(tmp_path_factory.mktemp("large") / "x.tfrecord", records)


def content(record: bytes) -> dict[str, bytes]:
    """Return the files in the large record's folder."""
    files = [json_floats("f", 1.5, COUNT), npy_floats(VALUES), record]
    assert len(files[0]) > 64 << 20
    return dict(zip(NAMES, files, strict=True))


def record_in(file: Path) -> bytes:
    return tfrecord_records(file.read_bytes())[2]


def test_extract(ffrfs: Run, file: Path, tmp_path: Path) -> None:
    assert ffrfs("extract", file, tmp_path / "out").said == []
    for number in range(5):
        folder = tmp_path / "out" / f"{number:09}"
        assert sorted(path.name for path in folder.iterdir()) == NAMES
    for name, expected in content(record_in(file)).items():
        assert (tmp_path / "out" / "000000002" / name).read_bytes() == expected, name


def test_convert_features(ffrfs: Run, file: Path, tmp_path: Path) -> None:
    pack = tmp_path / "x.ffr"
    assert ffrfs("convert", "--features", file, pack).said == [f"{pack}: 5 records"]
    for name, expected in content(record_in(file)).items():
        assert ffrfs("cat", pack, f"000000002/{name}").out == expected, name
    assert len(ffrfs("ls", "-R", pack).lines) == 5 * (1 + len(NAMES))


def test_cat(ffrfs: Run, file: Path) -> None:
    done = ffrfs("cat", file, "000000002/example.json")
    assert (done.status, done.err) == (0, "")
    assert done.out == json_floats("f", 1.5, COUNT)


def test_only_damaged_records_are_left_out(ffrfs: Run, file: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "x.tfrecord"
    damaged.write_bytes(file.read_bytes())
    for number in (1, 2):
        flip_record(damaged, number)
    done = ffrfs("extract", damaged, tmp_path / "out")
    assert done.status == 1
    assert [line.split(" (offset ")[0] for line in done.err.splitlines()] == [
        f"ffrfs: {damaged}: record {number}" for number in (1, 2)
    ]
    there = {path.parent.name for path in (tmp_path / "out").rglob("f.npy")}
    assert there == {f"{number:09}" for number in (0, 3, 4)}
    pack = tmp_path / "x.ffr"
    done = ffrfs("convert", "--features", "--on-error", "skip", damaged, pack)
    assert (done.status, done.err) == (0, f"ffrfs: {damaged}: left out 2 damaged records\n")
    assert ffrfs("ls", pack).lines == [f"{number:09}" for number in range(3)]


@pytest.mark.long
def test_memory_is_bounded(tmp_path: Path) -> None:
    """24 MB of integers become 72 MB of example.json and 192 MB of .npy."""
    file = write_tfrecord(tmp_path / "x.tfrecord", [example(i=ints(bytes([7]) * 24_000_000))])
    for arguments in (["extract", file, "out"], ["convert", "-q", "--features", file, "x.ffr"]):
        assert peak_kb(*arguments, cwd=tmp_path) < 190 << 10, arguments
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").rglob("*.*")}
    assert (sizes["i.npy"], sizes["example.json"]) == (192_000_128, 72_000_050)


@pytest.mark.long
def test_a_record_that_is_too_large_to_parse(ffrfs: Run, tmp_path: Path) -> None:
    """The record is larger than half of 256 MiB, so record.bin is its only file."""
    record = example(i=ints(bytes(135 << 20)))
    small = example(i=ints(b"\1"))
    file = write_tfrecord(tmp_path / "x.tfrecord", [small, record, small])
    assert ffrfs("extract", file, tmp_path / "out").said == []
    files = {
        str(path.relative_to(tmp_path / "out")): path.stat().st_size
        for path in (tmp_path / "out").rglob("*.*")
    }
    assert files["000000001/record.bin"] == len(record)
    assert not any(re.match("000000001/[ei]", name) for name in files)
    assert {"000000002/i.npy", "000000002/example.json"} <= files.keys()
    assert ffrfs("convert", "-q", "--features", file, tmp_path / "x.ffr").said == []
    assert ffrfs("verify", "-q", tmp_path / "x.ffr").status == 0
