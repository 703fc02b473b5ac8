"""`ffrfs pack` of packs, of lists of paths, and without writing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_run import Run
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_records
from tests.folder.archives import write_tree
from tests.folder.folder_model import make_folder, shown_tree
from tests.interpreter import python

TREE: Tree = {"a": {"one": b"1" * 3000, "two": b"1" * 3000}, "b": b"b"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "folder", TREE)


@pytest.fixture
def old(ffrfs: Run, folder: Path, tmp_path: Path) -> Path:
    assert ffrfs("pack", "-q", folder, tmp_path / "old.ffr").status == 0
    return tmp_path / "old.ffr"


def test_a_pack(ffrfs: Run, old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.ffr"
    assert ffrfs("pack", "--force", old, new).said == [f"{new}: 3 files, 6,001 bytes"]
    assert new.read_bytes() == old.read_bytes()
    assert ffrfs("pack", "--force", "--exclude", "two", old, new).lines == [
        f"{new}: 2 files, 3,001 bytes"
    ]
    assert ffrfs("pack", "--force", "--dedup", "--order", "size", old, new).status == 0
    assert ffrfs("ls", "-R", new).lines == ["a", "a/one", "a/two", "b"]
    before = old.read_bytes()
    assert ffrfs("pack", old, old).status == 0
    assert old.read_bytes() == before


def test_links_of_a_pack_stay_links(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "link").symlink_to("b")
    old, new = tmp_path / "old.ffr", tmp_path / "new.ffr"
    ffrfs("pack", "--force", "--symlinks", "keep", folder, old)
    assert ffrfs("pack", "--force", old, new).lines == [f"{new}: 3 files, 6,001 bytes, 1 link kept"]
    assert ffrfs("pack", "--force", "--symlinks", "follow", old, new).lines == [
        f"{new}: 4 files, 6,002 bytes, 1 link followed, 1 file (1 byte) stored with their like"
    ]


def test_a_pack_set(ffrfs: Run, old: Path, tmp_path: Path) -> None:
    parts, new = tmp_path / "set", tmp_path / "new.ffr"
    assert ffrfs("pack", "--force", "--shards", "2", old, parts).lines == [
        f"{parts}: 3 files, 6,001 bytes, 2 shards"
    ]
    # Files that a file manager or `ffrfs index` leaves there do not matter.
    (parts / ".DS_Store").touch()
    (parts / "part_00000.ffr.idx").touch()
    assert ffrfs("pack", "--force", "-q", parts, new).status == 0
    assert shown_tree(new) == TREE
    (parts / "part_00001.ffr").unlink()
    done = ffrfs("pack", "--force", parts, new)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "missing" in done.err
    assert ffrfs("pack", "--force", "-q", "--allow-missing", parts, new).status == 0
    (parts / "part_00000.ffr").write_bytes(b"damage" * 100)
    assert ffrfs("pack", "--force", parts, new).complaint.startswith(f"{parts}/part_00000.ffr: ")


def test_a_directory_with_packs_but_no_pack_set_is_data(
    ffrfs: Run, old: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.ffr"
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "x.ffr").write_bytes(old.read_bytes())
    assert ffrfs("pack", "--force", "-q", tmp_path / "packs", new).status == 0
    assert ffrfs("ls", new).lines == ["x.ffr"]
    ffrfs("pack", "--force", "-q", "--shards", "2", old, tmp_path / "set")
    (tmp_path / "set" / "README").touch()
    assert ffrfs("pack", "--force", "-q", tmp_path / "set", new).status == 0
    assert ffrfs("ls", new).lines == ["README", "part_00000.ffr", "part_00001.ffr"]


def test_merging(ffrfs: Run, old: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "more", {"a": {"three": b"3"}, "b": b"other"})
    more, new = tmp_path / "more.ffr", tmp_path / "new.ffr"
    ffrfs("pack", "-q", tmp_path / "more", more)
    done = ffrfs("pack", old, more, new)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(f'ffrfs: {old} and {more}: both have "b"')
    assert not new.exists()
    assert ffrfs("pack", "--on-conflict", "last", old, more, new).lines == [
        f"{new}: 4 files, 6,006 bytes"
    ]
    assert ffrfs("ls", "-R", new).lines == ["a", "a/one", "a/three", "a/two", "b"]
    assert ffrfs("cat", new, "b").out == b"other"
    before = more.read_bytes()
    done = ffrfs("pack", old, new, more)  # like `ffrfs pack *.ffr`
    assert done.complaint == (
        f"{more}: exists (a pack of 2 records); write to another file, or replace it with --force"
    )
    assert ffrfs("pack", new, more).err == done.err  # like `*.ffr` in a directory with two packs
    assert ffrfs("pack", tmp_path / "more", more).err == done.err
    assert more.read_bytes() == before


def test_a_damaged_pack(ffrfs: Run, old: Path, tmp_path: Path) -> None:
    offset, size = record_extents(old)[1]
    flip_byte(old, offset + size // 2)
    new = tmp_path / "new.ffr"
    assert ffrfs("pack", old, new).complaint.startswith(f"{old}: 'a/two': ")
    assert not new.exists()
    flip_byte(old, 20)
    done = ffrfs("pack", old, new)
    assert (done.status, done.err.startswith(f"ffrfs: {old}: ")) == (1, True)
    assert "archive" not in done.err
    write_records(tmp_path / "plain.ffr", [b"1"])
    done = ffrfs("pack", tmp_path / "plain.ffr", new)
    assert "is a plain FFRecord file, not a pack" in done.err


@pytest.mark.parametrize("kind", ["directory", "archive", "pack"])
def test_a_dry_run(ffrfs: Run, folder: Path, old: Path, tmp_path: Path, *, kind: str) -> None:
    source = {"directory": folder, "archive": write_tree(tmp_path / "x.tar", TREE), "pack": old}
    out = tmp_path / "out" / "x"
    out.parent.mkdir()
    tried = ("pack", "--dry-run", source[kind], out)
    assert ffrfs(*tried).lines == [f"{out}: 3 files, 6,001 bytes, not written (dry run)"]
    assert ffrfs(*tried, "--dedup", "--shards", "2").lines == [
        f"{out}: 3 files, 6,001 bytes, 1 file (3,000 bytes) stored with their like, 2 shards, "
        "not written (dry run)"
    ]
    assert ffrfs(*tried, "--list").lines == ["a/one", "a/two", "b"]
    assert ffrfs(*tried, "--list", "--dedup", "-0").out == b"a/one\0b\0a/two\0"
    assert ffrfs(*tried, "-q").lines == []
    assert ffrfs(*tried, "--include", "none").status == 1
    assert os.listdir(out.parent) == []


def test_a_dry_run_replaces_nothing(ffrfs: Run, folder: Path, old: Path) -> None:
    before = old.read_bytes()
    assert ffrfs("pack", "--dry-run", "--force", folder, old, "--exclude", "a").status == 0
    assert old.read_bytes() == before


def test_order_of_files_from_a_list(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"b\0a\0a/one\0")
    tried = ("pack", "--dry-run", "--list", folder, tmp_path / "x.ffr")
    listed = ("-0", "--files-from", tmp_path / "list")
    assert ffrfs(*tried, *listed).out == b"b\0a/one\0a/two\0"
    assert ffrfs(*tried, *listed, "--order", "path").out == b"a/one\0a/two\0b\0"
    done = ffrfs(*tried, "--files-from", tmp_path / "none")
    assert done.complaint == f"{tmp_path}/none: No such file or directory"


def test_a_list_on_standard_input(folder: Path, tmp_path: Path) -> None:
    def run(lines: bytes) -> subprocess.CompletedProcess[bytes]:
        return python(
            *("-m", "ffrfs", "pack", "--force", "--files-from", "-", folder, "x.ffr"),
            cwd=tmp_path,
            input=lines,
            text=False,
        )

    assert run(b"./b\n").stdout == b"x.ffr: 1 file, 1 byte\n"
    done = run(b"b\nc\n")
    assert (done.returncode, done.stderr.decode()) == (
        1,
        f"ffrfs: standard input: line 2: 'c' is not in {folder}, or is excluded\n",
    )
