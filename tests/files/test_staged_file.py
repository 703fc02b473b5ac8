"""A file appears under its name whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tiny_disk import run_on_tiny_disk

from ffrfs.convert.staged_file import StagedFile
from ffrfs.errors import PackError


def write(staged: StagedFile, data: bytes) -> None:
    with open(staged.place, "wb") as file:
        file.write(data)


@pytest.fixture(params=["without a name", "beside the target"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "beside the target":
        # A file system that refuses files without a name (open(2): EOPNOTSUPP), as NFS does.
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)


@pytest.mark.usefixtures("way")
def test_published(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"before")
    with StagedFile(str(target)) as staged:
        write(staged, b"after")
        assert target.read_bytes() == b"before"
        staged.publish()
        assert target.read_bytes() == b"after"
    assert os.listdir(tmp_path) == ["x"]
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.usefixtures("way")
def test_dropped(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"before")
    with StagedFile(str(target)) as staged:
        write(staged, b"after")
    assert target.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["x"]


def test_a_name_of_255_bytes(tmp_path: Path) -> None:
    name = "é" * 127 + "x"
    with StagedFile(str(tmp_path / name)) as staged:
        write(staged, b"after")
        staged.publish()
    assert os.listdir(tmp_path) == [name]


def test_what_a_link_leads_to_is_meant(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/x")
    with StagedFile(str(tmp_path / "link")) as staged:
        write(staged, b"after")
        staged.publish()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "x").read_bytes() == b"after"


def test_what_is_no_file_is_not_buried(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PackError, match=r"/fifo: cannot replace what is no regular file$"):
        StagedFile(str(tmp_path / "fifo"))
    with pytest.raises(PackError, match=f"^{tmp_path}: cannot create: Is a directory$"):
        StagedFile(str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        StagedFile(str(tmp_path / "no" / "x"))
    assert caught.value.filename == str(tmp_path / "no" / "x")


FULL = """
import os, sys
from ffrfs.convert.target import write_tfrecord
from ffrfs.tfrecord.options import TFRecordOptions
target = sys.argv[1] + "/x.tfrecord"
try:
    write_tfrecord(target, [os.urandom(100_000)] * 20, TFRecordOptions())
except OSError as error:
    print(error.strerror, error.filename == target, os.listdir(sys.argv[1]))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    lines = run_on_tiny_disk(tmp_path / "disk", FULL)
    assert lines == ["cannot write: No space left on device True []"]
