"""The kind of data set that a path is, or is to become."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import pytest

from ffrfs.convert.kind import kind_of, kind_of_name
from ffrfs.errors import FormatError
from ffrfs.tfrecord.shards import is_tfrecord
from tests.ffrecord_file import write_folder, write_records
from tests.tfrecord_file import framed, write_tfrecord


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.tfrecord", "tfrecord"),
        ("a/x.tfrecords", "tfrecord"),
        ("x.tfrecord.gz", "tfrecord"),
        ("x.ffr", "ffrecord"),
        ("x.tfrecord.bz2", None),
        ("x.ffr.gz", None),
        ("tfrecord", None),
        ("x", None),
    ],
)
def test_kind_by_the_name_of_a_target(name: str, kind: str | None) -> None:
    assert kind_of_name(name) == kind


def test_kind_by_content(tmp_path: Path) -> None:
    plain = write_tfrecord(tmp_path / "part-0", [b"a", b"b"])
    zipped = tmp_path / "part-1"
    zipped.write_bytes(gzip.compress(framed([b"a"])))
    records = write_records(tmp_path / "records", [b"a", b"b"])
    folder = write_folder(tmp_path / "folder", {"a": b"1"})
    none = write_records(tmp_path / "none", [])
    kinds = [kind_of(str(path)) for path in (plain, zipped, records, folder, none)]
    assert kinds == ["tfrecord", "tfrecord", "ffrecord", "pack", "ffrecord"]


def test_a_damaged_file_named_tfrecord_is_still_a_tfrecord(tmp_path: Path) -> None:
    for name in ("x.tfrecord", "x.tfrecord-00001-of-00002", "x.tfrecord.gz"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        assert is_tfrecord(str(tmp_path / name))


def test_a_checksum_that_looks_like_gzip(tmp_path: Path) -> None:
    file = write_records(tmp_path / "x", [b"a"])
    data = bytearray(file.read_bytes())
    data[:3] = gzip.compress(b"")[:3]
    file.write_bytes(data)
    assert not is_tfrecord(str(file))


def test_a_packed_folder_among_the_parts(tmp_path: Path) -> None:
    write_records(tmp_path / "PART_00000.ffr", [b"a"])
    write_records(tmp_path / "PART_00001.ffr", [])
    assert kind_of(str(tmp_path)) == "ffrecord"
    write_folder(tmp_path / "PART_00002.ffr", {"a": b"1"})
    with pytest.raises(FormatError, match=f"^{tmp_path}/PART_00002.ffr: is a pack, not a part"):
        kind_of(str(tmp_path))


def test_files_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no data set at all\n" * 10)
    (tmp_path / "zlib").write_bytes(zlib.compress(framed([b"a"])))  # two bytes prove nothing
    os.mkfifo(tmp_path / "fifo")
    for name in ("text", "zlib"):
        with pytest.raises(FormatError, match=f"^{tmp_path}/{name}: "):
            kind_of(str(tmp_path / name))
    with pytest.raises(OSError, match="not a regular file"):
        kind_of(str(tmp_path / "fifo"))
    with pytest.raises(FileNotFoundError):
        kind_of(str(tmp_path / "missing"))
