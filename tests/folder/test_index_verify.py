"""verify reads a mapped index to its last byte, and compares it with the pickle."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import PackWarning
from ffrfs.folder.info import IndexInfo, pack_info
from ffrfs.folder.sidecar import write_sidecar
from tests.ffrecord_file import Tree, flip_byte, record_extents
from tests.folder.folder_model import make_folder, packed
from tests.folder.mapped_index import CHUNKS, FILES, HEADER, INODES, NAMES, spoil
from tests.folder.test_verify import verify_one

LARGE = os.urandom((3 << 20) + 5)
# Records: a/x 0, b 1, c 2, large 3. Slots: / 0, a 1, b 2, c 3, d 4, large 5, a/x 6.
TREE: Tree = {"a": {"x": b"x" * 10}, "b": b"", "c": b"c" * 7, "d": {}, "large": LARGE}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.ffr"
    path.write_bytes(packed(TREE))
    write_sidecar(path, chunks=True)
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A pack that contains its mapped index."""
    folder = make_folder(tmp_path / "folder", TREE)
    (folder / "link").symlink_to("a/x")
    pack_folder(folder, tmp_path / "own.ffr", symlinks="keep")
    return tmp_path / "own.ffr"


INODE_SIZE = 32
LIES = {
    "another record": (INODES, 3 * INODE_SIZE + 8, struct.pack("<Q", 1), "'c' is record 2"),
    "another name": (NAMES, None, b"m", "the pickle has 'large', the index has not"),
    "a file for a folder": (INODES, 4 * INODE_SIZE + 0x1C, struct.pack("<H", 0o100644), ""),
    "no file of a record": (FILES, 4 * 2, b"\xff" * 4, "record 2"),
    "another record's file": (FILES, 4 * 2, struct.pack("<I", 2), "record 2"),
    "the header": (HEADER, 0, b"\0\0\0\0", "header"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_wrong_index_with_good_checksums_is_found(file: Path, lie: str) -> None:
    number, offset, data, reason = LIES[lie]
    sidecar = Path(f"{file}.idx")
    if offset is None:  # the offset of the name "large"
        (offset,) = struct.unpack_from("<Q", sidecar.read_bytes(), 5 * INODE_SIZE)
    spoil(sidecar, number, offset, data)
    report = verify_one(file)
    assert not report.is_good
    assert report.index_error is not None
    assert reason in report.index_error
    assert "\n" not in report.index_error


@pytest.mark.parametrize("chunk", [0, 3])
def test_a_wrong_chunk_checksum_is_reported_with_its_record(file: Path, chunk: int) -> None:
    spoil(Path(f"{file}.idx"), CHUNKS, 4 * chunk, b"\0\0\0\0")
    report = verify_one(file)
    assert report.index_error is None
    ((record, path, reason),) = report.bad
    assert (record, path) == (3, "large")
    assert f"wrong checksum of its bytes at {chunk << 20}" in reason


def test_damage_to_any_byte_of_a_sidecar_is_found(file: Path) -> None:
    sidecar = Path(f"{file}.idx")
    whole = sidecar.read_bytes()
    for offset in range(0, len(whole), 7):
        flip_byte(sidecar, offset)
        report = verify_one(file)
        assert report.index_error is not None, offset
        assert (report.bad, report.is_good) == ([], False)
        sidecar.write_bytes(whole)
    assert verify_one(file).is_good


def test_an_unused_sidecar_gives_a_warning(file: Path) -> None:
    os.utime(file, (1, 1))
    with pytest.warns(PackWarning, match="stale") as caught:
        assert verify_one(file).is_good
    assert len(caught) == 1


def test_damage_to_any_byte_after_the_pickle_is_found(own: Path) -> None:
    offset, size = record_extents(own)[-1]
    whole = own.read_bytes()
    for place in range(offset, offset + size, max(1, size // 60)):
        flip_byte(own, place)
        report = verify_one(own)
        assert not report.is_good, place
        assert [bad.record for bad in report.bad] == [4], place
        own.write_bytes(whole)
    assert verify_one(own).is_good


def test_a_damaged_pickle_is_found_beside_a_sound_index(own: Path) -> None:
    offset, _ = record_extents(own)[-1]
    flip_byte(own, offset + 9)  # PROTO
    report = verify_one(own)
    assert [(bad.record, bad.path) for bad in report.bad] == [(4, None)]
    assert report.index_error is not None
    assert "checksum mismatch" in report.index_error
    with PackedFolder(own) as pack:  # it does not need the pickle
        assert pack.read_one("a/x").tobytes() == b"x" * 10


def test_damaged_files_are_named_by_the_index(own: Path) -> None:
    extents = record_extents(own)
    for record in (0, 3):
        flip_byte(own, extents[record][0])
    report = verify_one(own)
    assert [(bad.record, bad.path) for bad in report.bad] == [(0, "a/x"), (3, "large")]
    assert report.index_error is None


def test_info(file: Path, own: Path) -> None:
    sidecar = Path(f"{file}.idx")
    assert pack_info(file).indexes == [IndexInfo(str(sidecar), True, sidecar.stat().st_size)]
    found = pack_info(own)
    ((name, is_sidecar, size),) = found.indexes
    assert (name, is_sidecar) == (str(own), False)
    assert 256 < size < 2048
    assert (found.file_count, found.folder_count, found.shards) == (4, 2, [])
