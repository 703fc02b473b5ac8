"""info, verify, extract and convert as functions: they return what the commands print."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.errors import (
    ChecksumError,
    FormatError,
    OptionError,
    PathNotFoundError,
    describe,
)
from tests.cli.command_run import Run
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_folder, write_records
from tests.folder.folder_model import read_folder
from tests.tfrecord_file import framed, tfrecord_extents, tfrecord_records, write_tfrecord

TREE: Tree = {"a": {"b": {"deep": b"deep"}, "large": bytes(3 << 20)}, "empty": {}, "z": b"zz"}
RECORDS = [b"first", b"", b"last" * 1000]

Seen = list[tuple[int, int, int, int]]


def folder_pack(place: Path) -> Path:
    return write_folder(place / "x.ffr", TREE)


def plain_file(place: Path) -> Path:
    return write_records(place / "plain.ffr", RECORDS)


def pack_set(place: Path) -> Path:
    (place / "set").mkdir()
    write_folder(place / "set" / "1.ffr", {"a": b"1"})
    write_folder(place / "set" / "2.ffr", {"b": b"2"})
    return place / "set"


def tfrecord_file(place: Path) -> Path:
    return write_tfrecord(place / "x.tfrecord", RECORDS)


def compressed_file(place: Path) -> Path:
    (place / "x.tfrecord.gz").write_bytes(gzip.compress(framed(RECORDS)))
    return place / "x.tfrecord.gz"


def damaged_pack(place: Path) -> Path:
    file = folder_pack(place)
    flip_byte(file, record_extents(file)[0][0])
    return file


def damaged_set(place: Path) -> Path:
    folder = pack_set(place)
    flip_byte(folder / "2.ffr", record_extents(folder / "2.ffr")[0][0])
    return folder


def damaged_tfrecord(place: Path) -> Path:
    file = tfrecord_file(place)
    flip_byte(file, tfrecord_extents(file.read_bytes())[2][0] + 12)
    return file


SOUND = [folder_pack, plain_file, pack_set, tfrecord_file, compressed_file]
DAMAGED = [damaged_pack, damaged_set, damaged_tfrecord]


Said = Callable[..., tuple[Any, int]]


@pytest.fixture
def said(ffrfs: Run) -> Said:
    """Runs a command, and returns what it prints in JSON, and its exit status."""

    def run(*words: str | Path) -> tuple[Any, int]:
        done = ffrfs(*words)
        return json.loads(done.out), done.status

    return run


@pytest.mark.parametrize("make", SOUND)
def test_info_equals_the_output_of_the_command(
    tmp_path: Path, said: Said, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    found = ffrfs.info(path)
    assert (json.loads(json.dumps(found)), 0) == said("info", "--json", path)
    assert found["file"] == str(path)


@pytest.mark.parametrize("make", [*SOUND, *DAMAGED])
def test_verify_equals_the_output_of_the_command(
    tmp_path: Path,
    said: Said,
    make: Callable[[Path], Path],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    path = make(tmp_path)
    seen: Seen = []
    found = ffrfs.verify(path, jobs=2, progress=lambda *numbers: seen.append(numbers))
    assert found == ffrfs.verify(str(path))
    assert capfdbinary.readouterr() == (b"", b"")
    assert (json.loads(json.dumps(found)), int(make in DAMAGED)) == said("verify", "--json", path)
    assert found["good"] is (make in SOUND)
    assert seen[-1][0] == found["records"] - (make is damaged_tfrecord)
    assert [numbers[0] for numbers in seen] == sorted(numbers[0] for numbers in seen)


def test_verify_names_the_damaged_file(tmp_path: Path) -> None:
    (bad,) = ffrfs.verify(damaged_pack(tmp_path))["bad"]
    assert (bad["record"], bad["path"]) == (0, "a/b/deep")


@pytest.mark.parametrize("function", [ffrfs.info, ffrfs.verify])
def test_absent_and_invalid_packs_raise_an_error(
    tmp_path: Path, function: Callable[..., Any]
) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.ffr"):
        function(tmp_path / "absent.ffr")
    with pytest.raises(FileNotFoundError) as caught:
        function("")
    assert describe(caught.value) == "'': cannot open: No such file or directory"
    write_folder(tmp_path / "x.ffr", {"a": b"alpha"})
    with pytest.raises(OSError, match="cannot open: Invalid argument"):
        function(f"{tmp_path}/x.ffr\0y")
    (tmp_path / "bad.ffr").write_bytes(b"no pack at all" * 100)
    with pytest.raises(FormatError, match=r"bad\.ffr"):
        function(tmp_path / "bad.ffr")


def test_extract_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: Seen = []
    pack = folder_pack(tmp_path)
    out = tmp_path / "new" / "out"
    assert ffrfs.extract(pack, out, progress=lambda *numbers: seen.append(numbers)) == []
    assert read_folder(out) == TREE
    assert seen[-1] == (3, 3, (3 << 20) + 6, (3 << 20) + 6)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(FileExistsError):
        ffrfs.extract(pack, out)


def test_extract_some(tmp_path: Path) -> None:
    pack = folder_pack(tmp_path)
    ffrfs.extract(pack, tmp_path / "one", "a/b")
    assert read_folder(tmp_path / "one") == {"a": {"b": {"deep": b"deep"}}}
    ffrfs.extract(pack, tmp_path / "two", ["z", Path("a/b/deep")])
    assert read_folder(tmp_path / "two") == {"a": {"b": {"deep": b"deep"}}, "z": b"zz"}
    with pytest.raises(PathNotFoundError, match="absent"):
        ffrfs.extract(pack, tmp_path / "three", ["z", "absent"])
    assert not (tmp_path / "three").exists()


def test_extract_of_several(tmp_path: Path) -> None:
    packs = [write_folder(tmp_path / f"{n}.ffr", {"a": b"%d" % n, str(n): b""}) for n in (1, 2)]
    with pytest.raises(FormatError, match='both have "a"'):
        ffrfs.extract(packs, tmp_path / "none")
    ffrfs.extract(packs, tmp_path / "out", on_conflict="last")
    assert read_folder(tmp_path / "out") == {"a": b"2", "1": b"", "2": b""}


def test_damaged_files_are_left_out_and_raised_at_the_end(tmp_path: Path) -> None:
    pack = folder_pack(tmp_path)
    for record in (0, 2):
        flip_byte(pack, record_extents(pack)[record][0])
    with pytest.raises(ChecksumError, match=r"'a/b/deep': .*\(and 1 more damaged files\)$"):
        ffrfs.extract(pack, tmp_path / "out")
    kept = {"a": {"b": {}, "large": bytes(3 << 20)}, "empty": {}}
    assert read_folder(tmp_path / "out") == kept
    bad = ffrfs.extract(pack, tmp_path / "again", on_error="skip")
    assert ["'a/b/deep'" in bad[0], "'z'" in bad[1]] == [True, True]
    assert read_folder(tmp_path / "again") == kept


def test_convert_takes_the_format_from_the_extension(tmp_path: Path) -> None:
    seen: Seen = []
    source = tfrecord_file(tmp_path)
    done = ffrfs.convert(source, tmp_path / "y.ffr", progress=lambda *numbers: seen.append(numbers))
    assert (done.record_count, done.skipped_count) == (3, 0)
    with ffrfs.FileReader(tmp_path / "y.ffr") as reader:
        assert [record.tobytes() for record in reader] == RECORDS
    assert seen[-1][:3] == (3, 3, sum(map(len, RECORDS)))
    ffrfs.convert(tmp_path / "y.ffr", tmp_path / "z.tfrecord.gz")
    assert tfrecord_records(gzip.decompress((tmp_path / "z.tfrecord.gz").read_bytes())) == RECORDS
    ffrfs.convert(tmp_path / "z.tfrecord.gz", tmp_path / "z.tfrecord")
    assert tfrecord_records((tmp_path / "z.tfrecord").read_bytes()) == RECORDS
    ffrfs.convert(source, tmp_path / "w.ffr", "pack")
    assert ffrfs.info(tmp_path / "w.ffr")["kind"] == "pack"


def test_convert_without_a_format(tmp_path: Path) -> None:
    source = tfrecord_file(tmp_path)
    with pytest.raises(OptionError, match=r"y\.xyz: its name shows no format"):
        ffrfs.convert(source, tmp_path / "y.xyz")
    with pytest.raises(OptionError, match="features=True"):
        ffrfs.convert(source, tmp_path / "y.tfrecord", "tfrecord", features=True)
    assert sorted(os.listdir(tmp_path)) == ["x.tfrecord"]
