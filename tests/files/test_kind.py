"""The kind of a file: its first bytes decide, and never its name."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs.files.kind import kind_of_file
from ffrfs.folder.sidecar import write_sidecar
from ffrfs.packing.pack import pack_folder
from tests.ffrecord_file import Header, write_folder, write_records
from tests.tfrecord_file import framed, write_tfrecord


def tar_file(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("x"), io.BytesIO())


def zip_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"1")


def pack(path: Path) -> None:
    folder = path.with_name("packed")
    folder.mkdir()
    (folder / "x").write_bytes(b"1")
    pack_folder(folder, path)


def sidecar(path: Path) -> None:
    os.rename(write_sidecar(write_folder(path.with_name("old.ffr"), {"x": b"1"})), path)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (pack, "a pack of 1 record"),
        (sidecar, "an index of a pack"),
        (lambda path: write_folder(path, {"a": b"1", "b": {"c": b""}}), "a pack of 2 records"),
        (lambda path: write_records(path, [b"x"] * 1200), "an FFRecord file of 1,200 records"),
        (lambda path: write_records(path, [b"", b""]), "an FFRecord file of 2 records"),
        (lambda path: write_records(path, []), "an FFRecord file of 0 records"),
        (lambda path: write_tfrecord(path, [b"one", b"two"]), "a TFRecord file"),
        (lambda path: path.write_bytes(gzip.compress(framed([b"one"]))), "a gzip file"),
        (tar_file, "a tar archive"),
        (zip_file, "a zip archive"),
        (lambda path: path.write_bytes(b"PAR1....PAR1"), "a Parquet file"),
        (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n"), "an HDF5 file"),
        (lambda path: path.write_bytes(b"\xff\xd8\xff\xe0"), "a JPEG file"),
        (lambda path: path.write_text("grüße\n" * 2000), "a text file"),
        (lambda path: path.write_bytes(bytes(100)), "a file of unknown kind"),
        (lambda path: path.write_bytes(b""), "an empty file"),
        (os.mkdir, "a directory"),
        (os.mkfifo, "a pipe"),
    ],
)
def test_kind(make: Callable[[Path], object], text: str, tmp_path: Path) -> None:
    make(tmp_path / "x.dat")
    assert str(kind_of_file(str(tmp_path / "x.dat"))) == text


@pytest.mark.parametrize("count", [-1, 2, 1 << 40, (1 << 63) - 1])
def test_headers_with_a_wrong_count(count: int, tmp_path: Path) -> None:
    def spoil(header: Header) -> None:
        header.n = count

    path = write_records(tmp_path / "x", [b"record"], spoil)
    assert str(kind_of_file(str(path))) == "a file of unknown kind"


def test_headers_with_wrong_offsets(tmp_path: Path) -> None:
    for offsets in ([0, 30], [36, 1 << 62], [40, 36], [-1, -1]):

        def spoil(header: Header, offsets: list[int] = offsets) -> None:
            header.offsets = offsets

        path = write_records(tmp_path / "x", [b"one", b"two"], spoil)
        assert str(kind_of_file(str(path))) == "a file of unknown kind"
