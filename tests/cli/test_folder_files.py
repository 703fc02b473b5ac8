"""All commands agree on which files of a directory are packs or TFRecord files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ffrfs import FileReader, PackedFolder
from ffrfs.folder.tree import pack_files
from ffrfs.tfrecord.reader import TFRecordReader
from tests.cli.command_run import Run
from tests.ffrecord_file import write_folder, write_records
from tests.tfrecord_file import write_tfrecord

pytestmark = pytest.mark.promise("S37")


def hide_among(folder: Path, suffix: str) -> None:
    """Add entries that no command may take for one of the files."""
    (folder / f".hidden{suffix}").write_bytes(b"no pack")
    (folder / f"directory{suffix}").mkdir()
    (folder / f"other{suffix[:-1]}").write_bytes(b"no pack")


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    folder = tmp_path / "packs"
    folder.mkdir()
    write_folder(folder / "b.ffr", {"b": b"2"})
    write_folder(folder / "a.ffr", {"a": b"1"})
    hide_among(folder, ".ffr")
    return folder


@pytest.fixture
def tfrecords(tmp_path: Path) -> Path:
    folder = tmp_path / "tfrecords"
    folder.mkdir()
    write_tfrecord(folder / "x.tfrecord-0", [b"a"])
    write_tfrecord(folder / "x.tfrecord-1", [b"b"])
    hide_among(folder, ".tfrecord")
    return folder


def test_commands_that_read_packs(ffrfs: Run, packs: Path, tmp_path: Path) -> None:
    assert ffrfs("ls", packs).out.split() == [b"a", b"b"]
    assert ffrfs("cat", packs, "b").out == b"2"
    assert ffrfs("extract", packs, tmp_path / "out").status == 0
    assert json.loads(ffrfs("info", "--json", packs).out)["files"] == 2
    assert len(json.loads(ffrfs("verify", "--json", packs).out)["packs"]) == 2
    assert ffrfs("index", "-q", packs).status == 0


def test_classes_that_read_packs(packs: Path) -> None:
    files = [str(packs / name) for name in ("a.ffr", "b.ffr")]
    assert pack_files(packs) == files
    with FileReader(packs) as reader:
        assert reader.fnames == files
    with PackedFolder(packs) as folder:
        assert folder.list() == ["a", "b"]


def test_converting_a_directory_of_ffrecord_files(ffrfs: Run, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    write_records(folder / "PART_00000.ffr", [b"a"])
    hide_among(folder, ".ffr")
    assert ffrfs("convert", "-q", folder, tmp_path / "x.tfrecord").said == []
    assert TFRecordReader(tmp_path / "x.tfrecord")[:] == [b"a"]


def test_adding_to_a_set_that_has_hidden_files(ffrfs: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "set"
    source.mkdir()
    (source / "a").write_bytes(b"1")
    assert ffrfs("pack", "-q", "--shards", "1", source, target).status == 0
    (target / ".hidden.ffr").write_bytes(b"no pack")
    (source / "a").rename(source / "b")
    assert ffrfs("pack", "-q", "--append", source, target).said == []
    assert ffrfs("ls", target).out.split() == [b"a", b"b"]


def test_tfrecord_files(ffrfs: Run, tfrecords: Path, tmp_path: Path) -> None:
    assert TFRecordReader(tfrecords)[:] == [b"a", b"b"]
    assert json.loads(ffrfs("verify", "--json", tfrecords).out)["records"] == 2
    assert json.loads(ffrfs("info", "--json", tfrecords).out)["records"] == 2
    done = ffrfs("convert", "-q", tfrecords, tmp_path / "x.ffr")
    assert done.status == 0, done.err
    with FileReader(tmp_path / "x.ffr") as reader:
        assert reader.n == 2


def test_directory_whose_only_pack_is_hidden(ffrfs: Run, tmp_path: Path) -> None:
    hide_among(tmp_path, ".ffr")
    for command in ("ls", "info", "verify"):
        assert ffrfs(command, tmp_path).complaint.startswith(f"{tmp_path}: holds no packs")
