"""Which files a new pack may replace."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ffrfs import FileWriter, PackWriter, pack_folder
from ffrfs.errors import PackError
from ffrfs.packing.pack import pack_archive, repack
from ffrfs.packing.pack_file import writing
from ffrfs.packing.pack_kind import holds_packs
from tests.ffrecord_file import Tree
from tests.folder.archives import file, tar_bytes
from tests.folder.folder_model import assert_packed, packed, read_records

TREE: Tree = {"a": b"new"}


def write_notes(path: Path) -> None:
    path.write_text("All that I know, in one file.\n")


def write_records(path: Path) -> None:
    with FileWriter(str(path), 1) as writer:
        writer.write_one(b"the only copy")


def write_zeros(path: Path) -> None:
    path.write_bytes(bytes(4096))


def write_pack(path: Path) -> None:
    path.write_bytes(packed({"old": b"old", "older": b"older"}))


def test_files_that_are_recognized_as_packs(folder: Path, tmp_path: Path) -> None:
    """A pack is known by its content, or by its name, so that the error can explain the damage."""
    writers = {"pack": write_pack, "x.ffr": write_records, "damaged.ffr": write_zeros}
    others = {"records": write_records, "notes": write_notes, "zeros": write_zeros}
    for name, write in {**writers, **others}.items():
        write(tmp_path / name)
    pack_folder(folder, tmp_path / "set", shards=1)
    for name in (".DS_Store", "part_00000.ffr.idx"):  # these do not count beside packs
        (tmp_path / "set" / name).touch()
    packs = [name for name in os.listdir(tmp_path) if holds_packs(str(tmp_path / name))]
    assert set(packs) == {*writers, "set"}


@pytest.mark.promise("S70")
@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (write_notes, "a text file"),
        (write_records, "an FFRecord file of 1 record"),
        (write_zeros, "a file of unknown kind"),
        (write_pack, "a pack of 2 records"),
    ],
)
def test_only_force_replaces_a_file(
    folder: Path, tmp_path: Path, write: Callable[[Path], None], kind: str
) -> None:
    out = tmp_path / "out"
    write(out)
    before = out.read_bytes()
    (tmp_path / "x.tar").write_bytes(tar_bytes([file("a", b"new")]))
    pack_folder(folder, tmp_path / "x.ffr")
    ways: list[Callable[..., object]] = [
        partial(pack_folder, folder, out),
        partial(pack_archive, tmp_path / "x.tar", out),
        partial(repack, tmp_path / "x.ffr", out),
        partial(repack, [tmp_path / "x.ffr", out], out),
        partial(PackWriter, out),
    ]
    for way in ways:
        with pytest.raises(PackError) as caught:
            way()
        assert str(caught.value) == (
            f"{out}: exists ({kind}); write to another file, or replace it with --force"
        )
        assert out.read_bytes() == before
    pack_folder(folder, out, force=True)
    assert_packed(out, TREE)


@pytest.mark.promise("S70")
def test_a_file_that_appears_while_packing_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out.ffr"
    with (
        pytest.raises(PackError, match=r"exists \(a pack of 2 records\)"),
        writing(str(out), 1) as writer,
    ):
        writer.append(b"ours")
        write_pack(out)
        theirs = out.read_bytes()
    assert out.read_bytes() == theirs
    assert os.listdir(tmp_path) == ["out.ffr"]
    out.unlink()
    with writing(str(out), 1) as writer:
        writer.append(b"ours")
    assert read_records(out) == [b"ours"]


def test_files_that_force_replaces(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(packed({"old": b"old"}))
    (tmp_path / "empty").touch()
    (tmp_path / "none").write_bytes(packed({}))
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "dangling").symlink_to("nothing")
    for name in ("other", "empty", "none", "link", "dangling"):
        for _ in range(2):  # the second time it is a pack of ours
            pack_folder(folder, tmp_path / name, force=True)
        assert_packed(tmp_path / name, TREE)
    assert (tmp_path / "link").is_symlink()


def test_force_replaces_no_directory_and_no_pipe(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for force in (False, True):
        with pytest.raises(OSError, match="is a directory; name a file"):
            pack_folder(folder, tmp_path / "directory", force=force)
        with pytest.raises(OSError, match="not a regular file"):
            pack_folder(folder, tmp_path / "pipe", force=force)
