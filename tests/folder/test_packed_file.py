"""PackedFolder.open(): a file of a pack as a file object that libraries can use."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import numpy as np
import PIL.Image
import pytest

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import ChecksumError, IsAFolderError, PathNotFoundError
from ffrfs.folder.tree import PackTree
from tests.ffrecord_file import flip_byte, record_extents

LARGE_SIZE = (9 << 20) + 12345  # several chunks, several reads
LARGE = random.Random(1).randbytes(LARGE_SIZE)
TEXT = "ein\r\nüber\nzwei\r\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "folder"
    (folder / "d").mkdir(parents=True)
    (folder / "d" / "large").write_bytes(LARGE)
    (folder / "empty").touch()
    (folder / "text").write_bytes(TEXT.encode())
    (folder / "link").symlink_to("d/large")
    np.save(folder / "array.npy", np.arange(300_000).reshape(3, -1))
    np.savez(folder / "arrays.npz", a=np.arange(5), b=np.eye(3))
    PIL.Image.new("RGB", (640, 480), (1, 2, 3)).save(folder / "image.png")
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("inside", LARGE[:100_000])
    (folder / "table.csv").write_text("a,b\n1,2\n")
    (folder / "object.json").write_text('{"a": [1]}')
    pack_folder(folder, folder.parent / "x.ffr", symlinks="keep")
    return folder.parent / "x.ffr"


@pytest.fixture
def pack(file: Path) -> Iterator[PackedFolder]:
    with PackedFolder(file) as pack:
        yield pack


def test_open_returns_a_buffered_binary_file(pack: PackedFolder) -> None:
    with pack.open("d/large") as file:
        assert isinstance(file, io.BufferedReader)
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
        assert (file.name, file.mode, file.closed) == ("d/large", "rb", False)
        assert file.read(10) == LARGE[:10]
        assert file.peek(3)[:3] == LARGE[10:13]
        assert file.tell() == 10
        assert file.read() == LARGE[10:]
        assert file.read() == file.read(5) == b""
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.read()


@pytest.mark.parametrize("buffering", [-1, 0, 1000, 4 << 20])
def test_any_reads_equal_those_of_an_ordinary_file(
    pack: PackedFolder, tmp_path: Path, buffering: int
) -> None:
    (tmp_path / "large").write_bytes(LARGE)
    chance = random.Random(buffering)
    with pack.open("d/large", "rb", buffering) as ours, (tmp_path / "large").open("rb") as theirs:
        for _ in range(300):
            whence = chance.choice([os.SEEK_SET, os.SEEK_SET, os.SEEK_CUR, os.SEEK_END])
            offset = chance.randrange(LARGE_SIZE + 100)
            offset -= {os.SEEK_SET: 0, os.SEEK_CUR: ours.tell(), os.SEEK_END: LARGE_SIZE}[whence]
            assert ours.seek(offset, whence) == theirs.seek(offset, whence)
            size = chance.choice([0, 1, 10, 5000, 200_000, 3_000_000])
            buffer = bytearray(size)
            count = ours.readinto(buffer)
            assert buffer[:count] == theirs.read(count)
            assert count == size or buffering == 0 or ours.tell() == max(offset, LARGE_SIZE)
            assert ours.tell() == theirs.tell()
        assert ours.seek(-100, os.SEEK_END) == LARGE_SIZE - 100
        assert ours.read() == LARGE[-100:]
        with pytest.raises(ValueError, match="before"):
            ours.seek(-1)
        for offset, whence in ((-1, os.SEEK_SET), (-LARGE_SIZE - 1, os.SEEK_END)):
            with pytest.raises(OSError, match="Invalid argument") as theirs_raised:
                theirs.seek(offset, whence)
            with pytest.raises(OSError, match=r"before the beginning .*: 'd/large'") as raised:
                ours.seek(offset, whence)
            assert raised.value.errno == theirs_raised.value.errno
        assert ours.seek(1 << 70 if buffering == 0 else 1 << 60) > LARGE_SIZE
        assert ours.read(1) == b""


@pytest.mark.parametrize("buffering", [-1, 0])
def test_a_file_too_short_for_an_archive_is_no_zip_file(pack: PackedFolder, buffering: int) -> None:
    """zipfile seeks an archive's end, 22 bytes, and so to before the beginning of the file."""
    with pack.open("object.json", "rb", buffering) as file:
        assert not zipfile.is_zipfile(file)
        with pytest.raises(zipfile.BadZipFile):
            zipfile.ZipFile(file)


def test_a_large_file_is_not_loaded_whole(pack: PackedFolder) -> None:
    before = pack._tree.volume.byte_count
    assert before > LARGE_SIZE
    with pack.open("d/large") as file:
        file.seek(5 << 20)
        assert file.read(4) == LARGE[5 << 20 :][:4]
        assert file.raw.tell() - (5 << 20) <= 1 << 20


def test_a_read_of_zero_bytes_does_not_read_the_pack(
    pack: PackedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pack.open("d/large", "rb", 0) as file:
        monkeypatch.setattr(PackTree, "read_at", lambda *_: pytest.fail("it reads"))
        assert file.read(0) == b""
        assert file.readinto(bytearray()) == 0


def test_text(pack: PackedFolder) -> None:
    with pack.open("text", "r", encoding="utf-8") as file:
        assert isinstance(file, io.TextIOWrapper)
        assert file.read() == TEXT.replace("\r\n", "\n")
        assert file.name == "text"
    with pack.open("text", "rt", encoding="utf-8", newline="") as file:
        assert list(file) == ["ein\r\n", "über\n", "zwei\r\n"]
    with pack.open("text", "r", encoding="ascii", errors="replace") as file:
        assert file.readlines()[1] == "\ufffd\ufffdber\n"
    with pack.open("text") as lines:
        assert list(lines) == [b"ein\r\n", "über\n".encode(), b"zwei\r\n"]


@pytest.mark.parametrize("mode", ["w", "wb", "a", "x", "r+", "rb+", "w+b"])
def test_modes_that_write_are_refused(pack: PackedFolder, mode: str) -> None:
    with pytest.raises(io.UnsupportedOperation, match=f"mode '{mode[0]}.*packs are read-only$"):
        pack.open("text", mode)


def test_wrong_arguments(pack: PackedFolder) -> None:
    with pytest.raises(ValueError, match="mode 'q': must be 'rb'"):
        pack.open("text", "q")
    with pytest.raises(ValueError, match="mode='r'"):
        pack.open("text", encoding="utf-8")
    with pytest.raises(ValueError, match="buffer"):
        pack.open("text", "r", 0)
    with pytest.raises(PathNotFoundError):
        pack.open("absent")
    with pytest.raises(IsAFolderError):
        pack.open("d")


def test_other_paths_to_the_same_file(pack: PackedFolder) -> None:
    for path in ("link", PurePosixPath("d/large"), "./d//large"):
        with pack.open(path) as file:
            assert file.read(100) == LARGE[:100]
            assert file.name == str(path)


def test_libraries_read_packed_files(pack: PackedFolder) -> None:
    with pack.open("array.npy") as file:
        assert np.array_equal(np.load(file), np.arange(300_000).reshape(3, -1))
    with pack.open("arrays.npz") as file, np.load(file) as arrays:
        assert arrays["a"].tolist() == [0, 1, 2, 3, 4]
    with pack.open("image.png") as file, PIL.Image.open(file) as image:
        assert (image.size, image.getpixel((5, 5))) == ((640, 480), (1, 2, 3))
    with pack.open("archive.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.read("inside") == LARGE[:100_000]
    with pack.open("table.csv", "r", encoding="utf-8") as text:
        assert list(csv.reader(text)) == [["a", "b"], ["1", "2"]]
    with pack.open("object.json") as file:
        assert json.load(file) == {"a": [1]}
    with pack.open("d/large") as file:
        copy = io.BytesIO()
        copy.writelines(iter(lambda: file.read(70_000), b""))
        assert copy.getvalue() == LARGE


def test_a_packed_file_has_no_descriptor(pack: PackedFolder) -> None:
    with pack.open("text") as file, pytest.raises(io.UnsupportedOperation):
        file.fileno()


def test_only_a_damaged_part_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "large").write_bytes(LARGE)
    (tmp_path / "folder" / "small").write_bytes(b"small")
    pack_folder(tmp_path / "folder", tmp_path / "x.ffr")
    extents = record_extents(tmp_path / "x.ffr")
    flip_byte(tmp_path / "x.ffr", extents[0][0] + (6 << 20))
    flip_byte(tmp_path / "x.ffr", extents[1][0])
    with PackedFolder(tmp_path / "x.ffr") as pack:
        with pack.open("large") as file:
            assert file.read(1000) == LARGE[:1000]
            file.seek(6 << 20)
            with pytest.raises(ChecksumError, match="'large': "):
                file.read(10)
            file.seek(8 << 20)
            assert file.read(1000) == LARGE[8 << 20 :][:1000]
        with pack.open("small", "r", encoding="utf-8") as text, pytest.raises(ChecksumError):
            text.read()


def test_an_empty_file_has_a_checksum_too(pack: PackedFolder) -> None:
    with pack.open("empty") as file:
        assert file.read() == file.read(1) == b""
        assert file.seek(0, os.SEEK_END) == 0


def test_reading_after_the_folder_was_closed(file: Path) -> None:
    pack = PackedFolder(file)
    with pack.open("d/large") as opened:
        assert opened.read(1) == LARGE[:1]
        pack.close()
        opened.seek(8 << 20)
        with pytest.raises(ValueError, match="closed"):
            opened.read(1)
    with pytest.raises(ValueError, match="closed"):
        pack.open("text")


def test_threads_read_through_separate_files(pack: PackedFolder) -> None:
    def part(number: int) -> bytes:
        with pack.open("d/large") as file:
            file.seek(number * 100_000)
            return file.read(100_000)

    with ThreadPoolExecutor(8) as threads:
        assert b"".join(threads.map(part, range(90))) == LARGE[: 90 * 100_000]
