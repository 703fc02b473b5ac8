"""A file appears under its name whole, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ffrfs.errors import PackError
from ffrfs.files.leftovers import staging_name
from ffrfs.files.staged_file import StagedFile, staged_folder
from tests.tiny_disk import error_on_tiny_disk


def write(staged: StagedFile, data: bytes) -> None:
    with open(staged.place, "wb") as file:
        file.write(data)


@pytest.fixture(params=["without a name", "beside the target"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "beside the target":
        # Like NFS, this refuses files without a name (open(2): EOPNOTSUPP).
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)


@pytest.mark.usefixtures("way")
def test_publish_replaces_the_target(tmp_path: Path) -> None:
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
def test_leftover_with_the_same_name_is_removed(tmp_path: Path) -> None:
    """It goes just before the rename or, where files without a name are refused, at the start."""
    (tmp_path / staging_name("x")).write_bytes(b"left")
    with StagedFile(str(tmp_path / "x")) as staged:
        staged.publish()
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.usefixtures("way")
def test_unpublished_file_leaves_the_target(tmp_path: Path) -> None:
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


def test_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/x")
    with StagedFile(str(tmp_path / "link")) as staged:
        write(staged, b"after")
        staged.publish()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "x").read_bytes() == b"after"


def test_targets_that_are_no_regular_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PackError, match=r"/fifo: cannot replace it: not a regular file$"):
        StagedFile(str(tmp_path / "fifo"))
    with pytest.raises(PackError, match=f"^{tmp_path}: is a directory; name a file$"):
        StagedFile(str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        StagedFile(str(tmp_path / "no" / "x"))
    assert caught.value.filename == str(tmp_path / "no" / "x")


FULL = """
from ffrfs.convert.target import write_tfrecord
from ffrfs.tfrecord.options import TFRecordOptions
write_tfrecord(disk + "/x.tfrecord", [os.urandom(100_000)] * 20, TFRecordOptions())
"""


def test_a_full_disk(tmp_path: Path) -> None:
    error, names = error_on_tiny_disk(tmp_path / "disk", FULL)
    target = f"{tmp_path}/disk/x.tfrecord"
    assert (error[1:], names) == (["cannot write: No space left on device", target], [])


@pytest.mark.usefixtures("way")
def test_existing_file_is_kept_without_replace(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"before")
    with StagedFile(str(target)) as staged:
        staged.write(b"after")
        with pytest.raises(FileExistsError) as caught:
            staged.publish(replace=False)
    assert caught.value.filename == str(target)
    assert (target.read_bytes(), os.listdir(tmp_path)) == (b"before", ["x"])
    target.unlink()
    with StagedFile(str(target)) as staged:
        staged.write(b"after")
        staged.publish(replace=False)
    assert (target.read_bytes(), os.listdir(tmp_path)) == (b"after", ["x"])


@pytest.mark.promise("S70")
def test_new_target_is_kept_on_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    monkeypatch.setattr(os, "link", link)
    target = tmp_path / "x"
    with StagedFile(str(target)) as staged:
        staged.write(b"after")
        target.write_bytes(b"precious")
        with pytest.raises(FileExistsError) as caught:
            staged.publish(replace=False)
    assert caught.value.filename == str(target)
    assert (target.read_bytes(), os.listdir(tmp_path)) == (b"precious", ["x"])
    target.unlink()
    with StagedFile(str(target)) as staged:
        staged.write(b"after")
        staged.publish(replace=False)
    assert (target.read_bytes(), os.listdir(tmp_path)) == (b"after", ["x"])


@pytest.mark.usefixtures("way")
def test_link_itself_is_replaced_with_the_requested_mode(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "x").symlink_to("victim")
    with StagedFile(str(tmp_path / "x"), follow=False, mode=0o666) as staged:
        staged.write(b"after")
        staged.publish(sync=False)
    assert (tmp_path / "victim").read_bytes() == b"untouched"
    assert not (tmp_path / "x").is_symlink()
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o666


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory")
def test_write_only_directory(tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir(mode=0o300)
    with StagedFile(str(tmp_path / "drop" / "x")) as staged:
        staged.publish()
    (tmp_path / "drop").chmod(0o700)
    assert os.listdir(tmp_path / "drop") == ["x"]


def test_errors_in_a_staged_folder_name_its_destination(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError) as caught,
        staged_folder(str(tmp_path), "set", "/given/set") as place,
    ):
        os.unlink(os.path.join(place, "x"))
    assert caught.value.filename == "/given/set/x"
    assert os.listdir(tmp_path) == []


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.usefixtures("way")
def test_nothing_is_left_if_permissions_cannot_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, vfat refuses it."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    before = descriptors()
    with pytest.raises(PermissionError, match=f"'{tmp_path}/x'$"):
        StagedFile(str(tmp_path / "x"), mode=0o600)
    assert (descriptors(), os.listdir(tmp_path)) == (before, [])


def test_no_directory_is_left_if_it_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: str | int, *args: int, **named: int) -> int:
        if str(path).endswith(".partial"):
            raise OSError(errno.EMFILE, "Too many open files", path)
        return opened(path, *args, **named)

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(OSError, match=f"'{tmp_path}/set'$"),
        staged_folder(str(tmp_path), "set", str(tmp_path / "set")),
    ):
        pytest.fail("it cannot be made")
    assert os.listdir(tmp_path) == []
