"""`ffrfs pack`: its options, its messages, and its status."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from ffrfs._native import Pack
from ffrfs.packing.sources.source import Source
from tests.cli.command_run import Run
from tests.folder.folder_model import make_folder

BIG = bytes(3000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder" / "a").mkdir(parents=True)
    (tmp_path / "folder" / "a" / "one").write_bytes(BIG)
    (tmp_path / "folder" / "a" / "two").write_bytes(BIG)
    (tmp_path / "folder" / "b").write_bytes(b"b")
    (tmp_path / "folder" / "link").symlink_to("b")
    return tmp_path / "folder"


def write_tar(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    return path


def test_a_folder(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.ffr"
    assert ffrfs("pack", folder, out).said == [f"{out}: 4 files, 6,002 bytes, 1 link followed"]
    assert ffrfs("ls", "-R", out).lines == ["a", "a/one", "a/two", "b", "link"]
    assert ffrfs("pack", "-q", "--force", folder, out).lines == []


def test_patterns_that_exclude_all_files(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.ffr"
    old = tmp_path / "old.ffr"
    ffrfs("pack", folder, old)
    tar = write_tar(tmp_path / "x.tar", "./a/one", "./b")
    reason = "no file is left to pack; check the patterns of --exclude"
    for source in (folder, tar, old):
        assert ffrfs("pack", "--exclude", "*", source, out).complaint == f"{source}: {reason}"
        assert not out.exists()
    planned = ("--shards", "2", "--executor", "processes:1")
    done = ffrfs("pack", "--exclude", "*", *planned, folder, out)
    assert (done.status, reason in done.err) == (1, True)
    assert not out.exists()
    (tmp_path / "empty").mkdir()
    assert ffrfs("pack", tmp_path / "empty", out).status == 0  # no pattern excluded anything


def test_links_and_equal_files(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.ffr"
    done = ffrfs("pack", "--symlinks", "keep", "--dedup", folder, out)
    assert done.lines == [
        f"{out}: 3 files, 6,001 bytes, 1 link kept, 1 file (3,000 bytes) stored with their like"
    ]
    assert out.stat().st_size < 6000 + 4096
    assert {
        "bytes            6,001",
        "stored bytes     3,001; equal files are stored once, which saves 2.9 KiB",
    } <= set(ffrfs("info", out).lines)
    told = json.loads(ffrfs("info", "--json", out).out)
    assert (told["files"], told["bytes"], told["stored_bytes"]) == (3, 6001, 3001)


def test_links_to_files_outside_of_the_folder(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "host").symlink_to("/etc/hostname")
    out = tmp_path / "x.ffr"
    assert ffrfs("pack", "--force", folder, out).complaint == (
        f"{folder}: a symbolic link leads out of it: host (to /etc/hostname); follow, keep "
        "or skip links by --symlinks, or exclude them"
    )
    assert not out.exists()
    done = ffrfs("pack", "--force", "--symlinks", "skip", folder, out)
    assert done.lines == [f"{out}: 3 files, 6,001 bytes, 2 links left out"]
    assert ffrfs("ls", out).lines == ["a", "b"]
    assert ffrfs("pack", "--force", "-q", "--symlinks", "follow", folder, out).status == 0
    assert ffrfs("cat", out, "host").out == Path("/etc/hostname").read_bytes()


def test_shards(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "set"
    done = ffrfs("pack", "--shards", "2", folder, out)
    assert done.lines == [f"{out}: 4 files, 6,002 bytes, 1 link followed, 2 shards"]
    assert sorted(os.listdir(out)) == ["part_00000.ffr", "part_00001.ffr"]
    assert ffrfs("pack", "--shards", "2", folder, out).complaint.startswith(
        f"{out}: is not empty; "
    )
    more = write_tar(tmp_path / "more.tar", "a/three")
    assert ffrfs("pack", "--append", more, out).lines == [f"{out}: 1 file, 1 byte, 1 shard"]
    assert ffrfs("ls", "-R", out).lines == ["a", "a/one", "a/three", "a/two", "b", "link"]
    reason = f"{more}: 'a/three': {out}/part_00002.ffr has 'a/three' "
    assert ffrfs("pack", "--append", more, out).complaint.startswith(reason)


@pytest.mark.parametrize(
    ("size", "count"), [("1", 4), ("1M", 1), ("10G", 1), ("2t", 1), ("100000", 1)]
)
def test_shard_size(ffrfs: Run, folder: Path, tmp_path: Path, size: str, count: int) -> None:
    assert ffrfs("pack", "-q", "--shard-size", size, folder, tmp_path / "set").status == 0
    assert len(os.listdir(tmp_path / "set")) == count


def test_order(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    order = tmp_path / "order"
    words = ("pack", "--force", "--order", order, folder, tmp_path / "x.ffr")
    order.write_text("link\na/two\n")
    assert ffrfs(*words).status == 0
    order.write_text("nothing\n")
    reason = "line 1: 'nothing' is not a file to be packed; remove the line"
    assert ffrfs(*words).complaint == f"{order}: {reason}"


def test_reproducible(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.ffr", tmp_path / "2.ffr"
    ffrfs("pack", "--reproducible", folder, first)
    os.utime(folder / "b", (1, 1))
    ffrfs("pack", "--reproducible", folder, second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", ["x.tar", "x"])
def test_an_archive(ffrfs: Run, tmp_path: Path, name: str) -> None:
    archive = write_tar(tmp_path / name, "a/b", "c")
    out = tmp_path / "x.ffr"
    assert ffrfs("pack", archive, out).lines == [f"{out}: 2 files, 2 bytes"]
    assert ffrfs("ls", "-R", out).lines == ["a", "a/b", "c"]
    assert Pack(os.fsencode(out)).index_kind == "pack"


def test_a_name_that_is_not_utf8(ffrfs: Run, tmp_path: Path) -> None:
    """It is the only name: the names decide whether the directory is a pack set."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / os.fsdecode(b"caf\xe9.h5")).write_bytes(b"x")
    shown = f"{folder}/caf\\xe9.h5"
    assert ffrfs("pack", folder, tmp_path / "x.ffr").complaint == (
        f"{shown}: the name is not UTF-8; exclude it, or skip such files (--skip-special)"
    )
    done = ffrfs("pack", "--skip-special", folder, tmp_path / "x.ffr")
    assert (done.status, done.err) == (0, f"ffrfs: {shown}: skipped\n")
    assert ffrfs("pack", "--exclude", "caf*", folder, tmp_path / "y.ffr").complaint == (
        f"{folder}: no file is left to pack; check the patterns of --exclude"
    )
    assert ffrfs("diff", folder, tmp_path / "x.ffr").out == b"- caf\xe9.h5\n"


def test_several_directories_keep_their_names(
    ffrfs: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train", "val", "other"):
        make_folder(tmp_path / name, {f"{name}.txt": name.encode()})
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--shards", "2"], ["--shards", "2", "--executor", "processes:2"]):
        target = f"out{len(options)}.ffr"
        assert ffrfs("pack", "-q", *options, "train", tmp_path / "val/", target).said == []
        assert ffrfs("ls", "-R", target).lines == ["train", "train/train.txt", "val", "val/val.txt"]


def test_the_error_names_a_file_that_changes_while_it_is_packed(
    ffrfs: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, log = Source.number, folder / "b"

    def write_more(self: Source) -> None:
        number(self)
        log.write_text("longer")

    monkeypatch.setattr(Source, "number", write_more)
    assert ffrfs("pack", folder, tmp_path / "x.ffr").complaint.startswith(
        f"{log}: changed size while it was packed (was 1 byte, now 6)"
    )
