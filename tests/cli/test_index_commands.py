"""Indexes, sidecars, links and shards, through the commands."""

from __future__ import annotations

import json
import os
import re
import stat
import tarfile
import time
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.cli.command_run import Run
from tests.ffrecord_file import flip_byte, record_extents, write_folder

TIME_NS = 1_234_567_890 * 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "deep.txt").write_bytes(b"deep\n")
    (folder / "a" / "run").write_bytes(b"run\n" * 1000)
    (folder / "a" / "run").chmod(0o750)
    (folder / "link").symlink_to("a/b/deep.txt")
    (folder / "z.txt").write_bytes(b"last\n")
    (folder / "z.txt").chmod(0o644)
    for path in (folder / "link", folder / "z.txt", folder / "a" / "run"):
        os.utime(path, ns=(0, TIME_NS), follow_symlinks=False)
    return folder


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    pack_folder(folder, tmp_path / "own.ffr", symlinks="keep")
    return tmp_path / "own.ffr"


@pytest.fixture
def shards(folder: Path, tmp_path: Path) -> Path:
    pack_folder(folder, tmp_path / "set", symlinks="keep", shards=3)
    return tmp_path / "set"


def test_index_writes_a_sidecar(ffrfs: Run, pack: Path) -> None:
    assert ffrfs("index", pack).said == [f"{pack}: wrote its index to {pack}.idx"]
    size = Path(f"{pack}.idx").stat().st_size
    line = f"index            {size:,} bytes, sidecar {pack}.idx, {size / 5:.1f} bytes a file"
    assert ffrfs("info", pack).lines[-1] == f"{line} with its name"
    without_chunks = size
    assert ffrfs("index", "-q", "--chunks", pack).out == b""
    assert Path(f"{pack}.idx").stat().st_size > without_chunks
    assert ffrfs("verify", pack).status == 0


def test_index_of_a_folder_of_packs(ffrfs: Run, shards: Path) -> None:
    write_folder(shards / "more.ffr", {"more": b"more"})
    done = ffrfs("index", shards)
    assert done.lines == [
        *(f"{shards}/part_0000{number}.ffr: contains an index already" for number in range(3)),
        f"{shards}/more.ffr: wrote its index to {shards}/more.ffr.idx",
    ] or done.lines[0].startswith(f"{shards}/more.ffr")
    assert len(list(shards.glob("*.idx"))) == 1


def test_a_stale_sidecar_gives_one_line(ffrfs: Run, pack: Path) -> None:
    ffrfs("index", pack)
    os.utime(pack, (1, 1))
    for arguments in (["ls", "-R"], ["info"], ["verify", "-q"]):
        done = ffrfs(*arguments, pack)
        assert done.status == 0
        assert done.err.startswith(f"ffrfs: {pack}.idx: stale index: {pack} has changed")
        assert f"ffrfs index {pack}" in done.err
        assert done.err.count("\n") == 1


def test_verify_names_a_damaged_index(ffrfs: Run, pack: Path) -> None:
    ffrfs("index", pack)
    flip_byte(Path(f"{pack}.idx"), 40)
    assert ffrfs("verify", "-q", pack).complaint.startswith(
        f"{pack}: its index is damaged (all records were checked): "
    )
    report = json.loads(ffrfs("verify", "--json", pack).out)
    assert (report["good"], report["bad"]) == (False, [])
    assert "checksum" in report["index_error"]


def test_ls_shows_links_modes_and_times(ffrfs: Run, own: Path) -> None:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(TIME_NS // 10**9))
    lines = ffrfs("ls", "-l", own).lines
    assert lines[1:] == [
        f"lrwxrwxrwx {12:>14,} {when} link -> a/b/deep.txt",
        f"-rw-r--r-- {5:>14,} {when} z.txt",
    ]
    assert ffrfs("ls", "-l", own, "a/run").lines == [f"-rwxr-x--- {4000:>14,} {when} a/run"]
    assert ffrfs("ls", own, "link").lines == ["link"]
    link, last = json.loads(ffrfs("ls", "--json", own).out)[1:]
    assert link["type"] == "link"
    assert link["target"] == "a/b/deep.txt"
    assert (last["mode"], last["mtime_ns"], last["size"]) == ("0644", TIME_NS, 5)


def test_cat_follows_links(ffrfs: Run, own: Path) -> None:
    assert ffrfs("cat", own, "link", "z.txt").out == b"deep\nlast\n"


def test_patterns_match_links_themselves(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "absolute").symlink_to("/etc/hostname")
    (folder / "a" / "dangling").symlink_to("nothing")
    (folder / "same").symlink_to("a")
    pack, out = tmp_path / "own.ffr", tmp_path / "out"
    pack_folder(folder, pack, symlinks="keep")
    assert ffrfs("ls", pack, "[alsz]*").lines == ["a", "absolute", "link", "same", "z.txt"]
    assert ffrfs("ls", pack, "*/dangling").lines == ["a/dangling"]
    assert ffrfs("ls", pack, "*/run").lines == ["a/run"]
    assert ffrfs("cat", pack, "s*/run").out == b"run\n" * 1000  # cat follows the link
    assert ffrfs("extract", pack, out, "*").said == []
    for link in ("absolute", "a/dangling", "same"):
        assert os.readlink(out / link) == os.readlink(folder / link)
    assert ffrfs("rm", "-r", pack, "**/[adl]*").status == 0
    assert ffrfs("ls", pack).lines == ["same", "z.txt"]


def test_extract_restores_links_modes_and_times(
    ffrfs: Run, shards: Path, folder: Path, tmp_path: Path
) -> None:
    assert ffrfs("extract", shards, tmp_path / "out").err == ""
    assert os.readlink(tmp_path / "out" / "link") == "a/b/deep.txt"
    for path in ("a/run", "z.txt", "a", "link"):
        was, now = (folder / path).lstat(), (tmp_path / "out" / path).lstat()
        assert (stat.S_IMODE(now.st_mode), now.st_mtime_ns) == (
            stat.S_IMODE(was.st_mode),
            was.st_mtime_ns,
        )


def test_a_folder_of_packs_is_one_tree(ffrfs: Run, shards: Path, own: Path) -> None:
    assert ffrfs("ls", "-R", shards).lines == ffrfs("ls", "-R", own).lines
    assert ffrfs("cat", shards, "a/b/deep.txt", "link").out == b"deep\ndeep\n"
    lines = ffrfs("info", shards).lines
    assert lines[-1] == "shards           3, complete"
    assert re.fullmatch(r"index {12}[\d,]+ bytes, in the packs, [\d.]+ bytes a file .*", lines[-2])
    told = json.loads(ffrfs("info", "--json", shards).out)["shards"]
    assert told == {"packs": 3, "missing": [], "missing_count": 0}


def test_verify_and_info_of_several_packs(ffrfs: Run, shards: Path, own: Path) -> None:
    done = ffrfs("verify", "--jobs", "2", shards, own)
    assert done.status == 0
    first, second = done.lines
    assert re.fullmatch(f"{shards}: 3 packs, 6 records, [\\d,]+ bytes, all records good", first)
    assert second.startswith(f"{own}: 4 records, ")
    both = json.loads(ffrfs("verify", "--json", shards, own).out)
    assert [one["good"] for one in both] == [True, True]
    assert [pack["records"] for pack in both[0]["packs"]] == [2, 2, 2]
    assert ffrfs("info", shards, own).out.count(b"\nkind ") == 2
    assert len(json.loads(ffrfs("info", "--json", shards, own).out)) == 2


def test_a_missing_shard(ffrfs: Run, shards: Path) -> None:
    (shards / "part_00002.ffr").unlink()
    for command in (["ls"], ["verify", "-q"]):
        done = ffrfs(*command, shards)
        assert (done.status, done.out) == (1, b"")
        assert "missing: number 2" in done.err
        assert done.err.count("\n") == 1
    done = ffrfs("ls", "--allow-missing", shards)
    assert done.status == 0
    assert "missing: number 2" in done.err
    done = ffrfs("info", shards)
    assert (done.status, done.lines[-1]) == (0, "shards           2, incomplete: without 2")


@pytest.mark.parametrize("command", ["add", "rm"])
def test_a_set_whose_shards_were_not_all_moved(
    ffrfs: Run, shards: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (shards / ".ffrfs-added").mkdir()
    (shards / "part_00002.ffr").rename(shards / ".ffrfs-added" / "part_00002.ffr")
    done = ffrfs("ls", shards)
    assert "missing: number 2; a command that adds shards was killed" in done.err
    words = ("-C", tmp_path, shards, "new") if command == "add" else (shards, "link")
    assert ffrfs(command, "--dry-run", *words).status == 1
    assert ffrfs(command, *words).status == 0
    assert ffrfs("verify", shards).status == 0
    assert not (shards / ".ffrfs-added").exists()


def test_a_bad_shard(ffrfs: Run, shards: Path) -> None:
    (shards / "part_00001.ffr").write_bytes(b"no pack at all")
    third = shards / "part_00002.ffr"
    flip_byte(third, record_extents(third)[0][0])
    done = ffrfs("verify", shards)
    assert done.status == 1
    bad, damaged = done.err.splitlines()
    assert bad.startswith(f"ffrfs: {shards}/part_00001.ffr: ")
    assert re.match(f"ffrfs: {third}: '[^']+': record 0 ", damaged)
    assert "3 packs, 1 of them cannot be opened, 4 records" in done.lines[0]


def test_conflicts(ffrfs: Run, tmp_path: Path) -> None:
    (tmp_path / "packs").mkdir()
    for name, data in (("1", b"first"), ("2", b"last")):
        write_folder(tmp_path / "packs" / f"{name}.ffr", {"x": data})
    done = ffrfs("cat", tmp_path / "packs", "x")
    assert (done.status, done.out) == (1, b"")
    assert f"{tmp_path}/packs/1.ffr" in done.err
    assert f"{tmp_path}/packs/2.ffr" in done.err
    for which in ("first", "last"):
        assert ffrfs("cat", "--on-conflict", which, tmp_path / "packs", "x").out == which.encode()
    assert ffrfs("verify", tmp_path / "packs").status == 1


@pytest.mark.parametrize("options", [[], ["--executor", "processes:2"]])
def test_verify_reports_damage_beside_files_it_cannot_open(
    ffrfs: Run, own: Path, tmp_path: Path, options: list[str]
) -> None:
    good, bad, cut, archive = (tmp_path / name for name in ("1.ffr", "2.ffr", "3.ffr", "x.tar"))
    for file in (good, bad):
        file.write_bytes(own.read_bytes())
    flip_byte(bad, record_extents(bad)[0][0])
    cut.write_bytes(own.read_bytes()[:60])
    with tarfile.open(archive, "w") as file:
        file.add(own, "a")
    (tmp_path / "empty").mkdir()
    closed = [cut, archive, tmp_path / "no.ffr", tmp_path / "no.tfrecord", tmp_path / "empty"]
    done = ffrfs("verify", *options, closed[0], good, bad, *closed[1:])
    assert (done.status, [line.split(": ")[0] for line in done.lines]) == (1, [str(good), str(bad)])
    starts = [f"{bad}: '[^']+': record 0 .*checksum mismatch", f"{cut}: .* it was truncated"]
    starts += [f"{archive}: is a tar archive, not a pack ", f"{tmp_path}/empty: holds no packs "]
    starts += [f"{tmp_path}/no.{end}: .*No such file" for end in ("ffr", "tfrecord")]
    for start in starts:
        assert re.search(f"^ffrfs: {start}", done.err, re.MULTILINE), done.err
    assert done.err.count("\n") == len(starts)
    told = json.loads(ffrfs("verify", "--json", *options, good, bad, *closed).out)
    assert [one["good"] for one in told] == [True] + [False] * 6
    assert [one["file"] for one in told if "error" in one] == list(map(str, closed))
    alone = ffrfs("verify", "--json", *options, good, tmp_path / "no.tfrecord")
    assert [one["good"] for one in json.loads(alone.out)] == [True, False]
