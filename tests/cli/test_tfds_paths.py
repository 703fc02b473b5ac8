"""ls, cat, extract and convert on TFDS directories: the paths that a mount shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs._native import Volume
from ffrfs.errors import FormatError
from ffrfs.folder.tree import PackTree
from ffrfs.tfrecord import open_tfds
from tests.checkout import CHECKOUT
from tests.cli.command_run import Run
from tests.tfrecord_file import tfrecord_records

DATA = CHECKOUT / "tests" / "golden" / "tfds" / "1.0.0"
COUNTS = {"test": 3, "train": 7}


def records(split: str) -> list[bytes]:
    found: list[bytes] = []
    for file in open_tfds(DATA).splits[split].files:
        found += tfrecord_records(Path(file).read_bytes())
    return found


def test_ls(ffrfs: Run) -> None:
    assert ffrfs("ls", DATA).lines == ["test", "train"]
    numbers = [f"{number:09d}" for number in range(COUNTS["train"])]
    assert ffrfs("ls", DATA, "train").lines == ffrfs("ls", DATA / "train").lines == numbers
    assert "image.png" in ffrfs("ls", DATA, "train/000000003").lines


def test_cat(ffrfs: Run) -> None:
    for split in COUNTS:
        for number, record in enumerate(records(split)):
            name = f"{number:09d}/record.bin"
            assert ffrfs("cat", DATA, f"{split}/{name}").out == record
            assert ffrfs("cat", DATA / split, name).out == record


def test_extract(ffrfs: Run, tmp_path: Path) -> None:
    assert ffrfs("extract", DATA, tmp_path / "all").status == 0
    assert ffrfs("extract", DATA / "test", tmp_path / "one").status == 0
    for split in COUNTS:
        found = sorted((tmp_path / "all" / split).glob("*/record.bin"))
        assert [file.read_bytes() for file in found] == records(split)
    alone = sorted((tmp_path / "one").glob("*/record.bin"))
    assert [file.read_bytes() for file in alone] == records("test")


def test_python_reads_the_same_paths() -> None:
    with PackTree(DATA) as tree, PackTree(DATA, show_splits=False) as flat:
        ino = tree.file_ino("train/000000006/record.bin")
        assert tree.path(ino) == "train/000000006/record.bin"
        assert flat.find("000000009/record.bin") == ino  # the three records of test come first
        assert b"".join(tree.pieces(ino)) == records("train")[6]


def test_conversion_takes_all_records_as_one_data_set(ffrfs: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert ffrfs("convert", "--to", "folder", DATA, out).status == 0
    found = [file.read_bytes() for file in sorted(out.glob("*/record.bin"))]
    assert found == [*records("test"), *records("train")]
    assert ffrfs("convert", "--to", "folder", DATA / "train", tmp_path / "train").status == 0
    found = [file.read_bytes() for file in sorted((tmp_path / "train").glob("*/record.bin"))]
    assert found == records("train")


@pytest.mark.parametrize("splits", ["a/2", "a/4", "b/1/a/2", "a/1/a/2", "a/1//2", "../3", "a/-1"])
def test_volume_refuses_splits_that_do_not_fit(splits: str) -> None:
    paths = [bytes(Path(file)) for file in open_tfds(DATA).splits["test"].files]
    with pytest.raises((FormatError, ValueError)):
        Volume(paths, uid=0, gid=0, splits=splits)
    Volume(paths, uid=0, gid=0, splits="a/1/b/2").close()
