"""Sets of shards are complete or absent, balanced, and can be added to."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
import time
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs import pack_folder
from ffrfs._native import Pack
from ffrfs.cluster import plan
from ffrfs.errors import FormatError, PackError
from ffrfs.packing.change import add_files, remove_paths
from ffrfs.packing.sources import opening
from ffrfs.packing.sources.source import Source
from tests.ffrecord_file import Tree
from tests.folder.folder_model import (
    make_folder,
    read_as_reference,
    shown,
    shown_tree,
    trees,
    walk,
)
from tests.interpreter import python
from tests.tiny_disk import error_on_tiny_disk

TIMEOUT_S = 60
TREE: Tree = {
    "a": {"one": b"1" * 1000, "two": b"2" * 1000, "empty": {}},
    "b": {"c": {"three": b"3" * 1000, "four": b"4" * 1000}},
    "nothing": {"at": {"all": {}}},
    "z": b"z" * 1000,
}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The path of a set to be made; its directory is empty."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "set"


def shard_of(path: Path) -> tuple[bytes, int, int]:
    shard = Pack(os.fsencode(path)).shard
    assert shard is not None
    return shard


def part(folder: Path, number: int) -> Path:
    return folder / f"part_{number:05}.ffr"


def test_shards_are_one_tree_and_each_is_a_pack(folder: Path, out: Path) -> None:
    summary = pack_folder(folder, out, shards=3)
    assert (summary.shard_count, summary.file_count, summary.folder_count) == (3, 5, 7)
    assert sorted(os.listdir(out)) == [f"part_{i:05}.ffr" for i in range(3)]
    assert shown_tree(out) == TREE
    united: Tree = {}
    for number in range(3):
        merge(united, read_as_reference(part(out, number)))
    assert united == TREE
    # Folders without files are in the shard of the file after them.
    assert ["nothing" in read_as_reference(part(out, number)) for number in range(3)] == [0, 0, 1]


def merge(into: Tree, other: Tree) -> None:
    for name, child in other.items():
        if isinstance(child, dict):
            inner = into.setdefault(name, {})
            assert isinstance(inner, dict)
            merge(inner, child)
        else:
            assert name not in into
            into[name] = child


def test_each_shard_knows_its_set(folder: Path, out: Path) -> None:
    pack_folder(folder, out, shards=3)
    shards = [shard_of(part(out, number)) for number in range(3)]
    assert [shard[1:] for shard in shards] == [(0, 3), (1, 3), (2, 3)]
    assert len({shard[0] for shard in shards}) == 1
    # Another set has another id: a set of other shards, or of changed files.
    pack_folder(folder, out.parent / "other", shards=2)
    os.utime(folder / "z", (5, 5))
    pack_folder(folder, out.parent / "changed", shards=3)
    others = [shard_of(part(out.parent / name, 0))[0] for name in ("other", "changed")]
    assert len({shards[0][0], *others}) == 3


def test_bytes_are_spread_evenly(tmp_path: Path, out: Path) -> None:
    make_folder(tmp_path / "many", {f"{i:03}": bytes(i * 37 % 2000) for i in range(200)})
    pack_folder(tmp_path / "many", out, shards=4)
    sizes = []
    for number in range(4):
        tree = read_as_reference(part(out, number))
        sizes.append(sum(len(child) for child in tree.values()))
    assert max(sizes) - min(sizes) <= 2 * 2000


def test_no_more_shards_than_files(folder: Path, tmp_path: Path, out: Path) -> None:
    assert pack_folder(folder, out, shards=100).shard_count == 5
    (tmp_path / "nothing").mkdir()
    none = out.parent / "none"
    assert pack_folder(tmp_path / "nothing", none, shards=3).shard_count == 1
    assert shown_tree(none) == {}


def test_shard_size(folder: Path, tmp_path: Path, out: Path) -> None:
    make_folder(tmp_path / "many", {f"{i:03}": bytes(5000) for i in range(20)})
    summary = pack_folder(tmp_path / "many", out, shard_size=32 << 10)
    assert 4 <= summary.shard_count <= 6
    assert all(file.stat().st_size <= 32 << 10 for file in out.iterdir())
    assert len(shown(out)) == 20
    assert pack_folder(folder, out.parent / "single", shard_size=1).shard_count == 5
    assert pack_folder(folder, out.parent / "one", shard_size=1 << 30).shard_count == 1


@settings(max_examples=15)
@given(tree=trees, shards=st.integers(1, 5), jobs=st.integers(1, 3))
def test_any_folder(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, shards: int, jobs: int
) -> None:
    folder = make_folder(tmp_path_factory.mktemp("any") / "folder", tree)
    pack_folder(folder, folder.parent / "set", shards=shards, jobs=jobs)
    assert shown_tree(folder.parent / "set") == tree


def test_an_empty_target_directory_is_used(folder: Path, out: Path) -> None:
    out.mkdir(mode=0o750)
    inode = out.stat().st_ino
    pack_folder(folder, out, shards=2)
    assert shown_tree(out) == TREE
    assert out.stat().st_ino == inode
    assert len(os.listdir(out)) == 2


def test_existing_files_are_not_touched(folder: Path, out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(PackError, match=f"^{out}: is not empty"):
        pack_folder(folder, out, shards=2)
    (out.parent / "file").write_text("mine")
    with pytest.raises(NotADirectoryError):
        pack_folder(folder, out.parent / "file", shards=2)
    with pytest.raises(FileNotFoundError):
        pack_folder(folder, out.parent / "no" / "where", shards=2)
    assert (out / "notes.txt").read_text() == (out.parent / "file").read_text() == "mine"
    assert sorted(os.listdir(out.parent)) == ["file", "set"]


def test_a_set_inside_its_own_source_is_refused(folder: Path) -> None:
    with pytest.raises(PackError, match="the pack would be inside the directory"):
        pack_folder(folder, folder / "set", shards=2)
    (folder / "set").mkdir()
    with pytest.raises(PackError, match="the pack would be inside the directory"):
        pack_folder(folder, folder / "set", shards=2)
    pack_folder(folder, folder / "set", shards=2, exclude=["set"])


class MeddledSource(Source):
    """A source whose last file is rewritten between the walk and the reading."""

    def append(self, *arguments: Any) -> None:
        Path(self.name, "z").write_bytes(b"")
        super().append(*arguments)


@pytest.mark.parametrize("is_there", [False, True])
def test_an_error_in_one_shard_leaves_nothing(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if is_there:
        out.mkdir()
    monkeypatch.setattr(opening, "Source", MeddledSource)
    with pytest.raises(PackError, match=rf"^{folder}/z: changed size .*was 1000 bytes"):
        pack_folder(folder, out, shards=3, jobs=2)
    assert os.listdir(out.parent) == ["set"][:is_there]
    assert not is_there or os.listdir(out) == []


class FailingSource(Source):
    """Its first pack fails while the second is under way; the second would never end."""

    def append(self, *arguments: Any) -> None:
        *_, first, _, _, tick = arguments
        if first == 0:
            assert self.second_has_begun.wait(TIMEOUT_S)
            raise MemoryError
        self.second_has_begun.set()
        while True:
            tick(0, 0)
            time.sleep(0.01)

    second_has_begun = threading.Event()


def test_an_error_in_one_shard_is_raised_and_ends_the_others(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "Source", FailingSource)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    before = set(threading.enumerate())
    with pytest.raises(MemoryError):
        pack_folder(folder, out, shards=2, jobs=2)
    assert os.listdir(out.parent) == []
    assert set(threading.enumerate()) <= before  # threads of other tests may end


def test_an_exception_from_progress_ends_all_shards(tmp_path: Path, out: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in "abcd":
        with open(tmp_path / "folder" / name, "wb") as file:
            file.truncate(64 << 20)

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack_folder(tmp_path / "folder", out, shards=4, progress=stop)
    assert os.listdir(out.parent) == []


def test_progress(folder: Path, out: Path) -> None:
    seen: list[tuple[int, int, int, int]] = []
    pack_folder(folder, out, shards=3, progress=lambda *state: seen.append(state))
    assert seen[-1] == (5, 5, 5000, 5000)
    assert seen == sorted(seen)


SIGNALLED = """
import os, sys, time
from ffrfs.cli.main import main
from ffrfs.packing.sources import opening
number, *words = sys.argv[1:]
class Slow(opening.Source):
    def append(self, writer, first, count, jobs, tick):
        if first == 0:  # of two shards
            os.kill(os.getpid(), int(number))
        while True:
            tick(0, 0)
            time.sleep(0.01)
opening.Source = Slow
sys.exit(main(["pack", "-q", "--shards", "2", *words]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_command_cleans_up_after_a_signal(folder: Path, out: Path, number: int) -> None:
    assert python("-c", SIGNALLED, str(number), folder, out).returncode == 128 + number
    assert os.listdir(out.parent) == []


KILLED = """
import os, signal, sys
from ffrfs import pack_folder
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
pack_folder(sys.argv[1], sys.argv[2], shards=2, progress=kill)
"""


@pytest.mark.parametrize("is_there", [False, True])
def test_sigkill_leaves_no_part_of_a_set(folder: Path, out: Path, is_there: bool) -> None:
    if is_there:
        out.mkdir()
    assert python("-c", KILLED, folder, out).returncode == -signal.SIGKILL
    (left,) = (out if is_there else out.parent).iterdir()
    assert (left.name[0], left.suffix) == (".", ".partial")
    pack_folder(folder, out, shards=2)
    assert sorted(os.listdir(out)) == ["part_00000.ffr", "part_00001.ffr"]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "big", {"a": bytes(1 << 20), "b": bytes(1 << 20)})
    disk = tmp_path / "disk"
    program = 'from ffrfs import pack_folder; pack_folder(words[0], disk + "/set", shards=2)'
    error, names = error_on_tiny_disk(disk, program, str(folder))
    assert error[:2] == ["OSError", "cannot write: No space left on device"]
    assert error[2] in [f"{disk}/set/part_0000{number}.ffr" for number in range(2)]
    assert names == []


MORE: Tree = {"a": {"later": b"5"}, "b": {"c": {"six": b"6"}}, "new": {"seven": b"7"}}


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "more", MORE)


def test_append(folder: Path, more: Path, out: Path) -> None:
    pack_folder(folder, out, shards=2)
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in out.iterdir()}
    assert pack_folder(more, out, append=True, shards=2).shard_count == 2
    for name, state in before.items():
        assert ((out / name).read_bytes(), (out / name).stat().st_mtime_ns) == state
    assert sorted(os.listdir(out)) == [f"part_{i:05}.ffr" for i in range(4)]
    everything = deepcopy(TREE)
    merge(everything, deepcopy(MORE))
    assert shown_tree(out) == everything
    shards = [shard_of(part(out, number)) for number in range(4)]
    assert [shard[1:] for shard in shards] == [(0, 2), (1, 2), (2, 4), (3, 4)]
    assert len({shard[0] for shard in shards}) == 1
    pack_folder(make_folder(out.parent / "even more", {"y": b""}), out, append=True)
    assert len(shown(out)) == len([*walk(everything)]) + 1


KILLED_WHILE_MOVING = """
import os, signal, sys
from ffrfs import pack_folder
def rename(old, new, own=os.rename, **folder):
    own(old, new, **folder)
    if new.endswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
os.rename = rename
pack_folder(sys.argv[1], sys.argv[2], shards=3, append=len(os.listdir(sys.argv[2])) > 0)
"""


@pytest.mark.parametrize("command", ["pack", "add", "plan"])
def test_the_next_command_completes_a_killed_append(
    folder: Path, more: Path, out: Path, command: str
) -> None:
    pack_folder(more, out, shards=2)
    new = make_folder(out.parent / "new", {"y": b"y"})
    (folder / "a" / "one").rename(folder / "a" / "once")
    killed = python("-c", KILLED_WHILE_MOVING, folder, out, "part_00003.ffr")
    assert killed.returncode == -signal.SIGKILL
    if command == "pack":
        pack_folder(new, out, append=True)
    elif command == "add":
        add_files(str(out), ["y"], folder=str(new))
    else:
        plan(new, out, out.parent / "plan", append=True).close()
    assert len(list(out.glob("*.ffr"))) == 5 + (command != "plan")
    assert {"a/once", "a/later", "z"} < set(shown(out))


def test_a_shard_that_cannot_be_moved_is_named(
    folder: Path, more: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack_folder(folder, out, shards=2)
    rename = os.rename

    def fail(old: str, new: str, **folders: int) -> None:
        if folders:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), old)
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", fail)
        with pytest.raises(OSError, match=f"'{part(out, 2)}'$"):
            pack_folder(more, out, append=True)
    remove_paths(str(out), ["z"])  # completes it
    assert "new/seven" in shown(out)


@pytest.mark.promise("S55")
@pytest.mark.promise("S70")
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("kind", ["link", "foreign", "diary", "taken"])
def test_foreign_files_among_added_shards_are_not_moved(
    folder: Path, more: Path, out: Path, kind: str, *, dry_run: bool
) -> None:
    pack_folder(folder, out, shards=2)
    name = {"diary": "diary", "taken": "part_00000.ffr"}.get(kind, "part_00002.ffr")
    there, added = make_folder(out.parent / "there", {name: b"1"}), out / ".ffrfs-added"
    if kind == "link":
        added.symlink_to(there)
    else:
        there = there.rename(added)
    if kind == "foreign":
        if os.geteuid() != 0:
            pytest.skip("another user's directory is made by root alone")
        out.chmod(0o1777)
        os.chown(added, 65534, -1)
    before = {file.name: file.read_bytes() for file in out.glob("*.ffr")}
    commands = (
        lambda: pack_folder(more, out, append=True, dry_run=dry_run),
        lambda: remove_paths(str(out), ["z"], dry_run=dry_run),
        lambda: add_files(str(out), ["a/later"], folder=str(more), dry_run=dry_run),
    )
    for command in commands:
        refused = pytest.raises(PackError, match=r"is not what ffrfs has made|exists already")
        with nullcontext() if dry_run else refused:
            command()
    assert os.listdir(there) == [name]
    assert {file.name: file.read_bytes() for file in out.glob("*.ffr")} == before


def test_an_incomplete_set_names_the_command_that_completes_it(folder: Path, out: Path) -> None:
    pack_folder(folder, out, shards=3)
    before = shown(out)
    (out / ".ffrfs-added").mkdir()
    (out / "part_00002.ffr").rename(out / ".ffrfs-added" / "part_00002.ffr")
    with pytest.raises(FormatError, match=r"missing: number 2; .* was killed, .* completes it"):
        shown(out)
    remove_paths(str(out), ["z"])
    del before["z"]
    assert shown(out) == before


@pytest.mark.parametrize(
    ("new", "path", "taken"),
    [
        ({"a": {"one": b"again"}}, "a/one", "a/one"),
        ({"z": b""}, "z", "z"),
        ({"z": {"x": b""}}, "z", "z"),  # a folder in place of a file
        ({"a": b""}, "a", "a"),  # a file in place of a folder
        ({"b": {"c": {"four": {}}}}, "b/c/four", "b/c/four"),
    ],
)
def test_paths_already_in_the_set_are_refused(
    folder: Path, tmp_path: Path, out: Path, *, new: Tree, path: str, taken: str
) -> None:
    pack_folder(folder, out, shards=3)
    before = sorted(os.listdir(out))
    new_folder = make_folder(tmp_path / "new", new)
    with pytest.raises(PackError) as caught:
        pack_folder(new_folder, out, append=True)
    message = str(caught.value)
    assert message.startswith(f"{new_folder}/{path}: {out}/part_0000")
    assert f" has {taken!r} already" in message
    assert sorted(os.listdir(out)) == before


def test_targets_that_cannot_be_added_to(folder: Path, more: Path, out: Path) -> None:
    with pytest.raises(PackError, match=f"^{out}: does not exist; make the set first: ffrfs pack"):
        pack_folder(more, out, append=True)
    out.mkdir()
    with pytest.raises(PackError, match=f"^{out}: holds no packs to add to"):
        pack_folder(more, out, append=True)
    pack_folder(folder, out / "x.ffr")
    with pytest.raises(PackError, match=f"^{out}/x.ffr: is not a shard of a pack set"):
        pack_folder(more, out, append=True)
    with pytest.raises(PackError, match=f"^{out}/x.ffr: is a single file; --append adds to pack "):
        pack_folder(more, out / "x.ffr", append=True)
    assert os.listdir(out) == ["x.ffr"]


def test_an_incomplete_set_is_not_added_to(folder: Path, more: Path, out: Path) -> None:
    pack_folder(folder, out, shards=3)
    other = out.parent / "other"
    pack_folder(more, other, shards=3)
    part(out, 1).rename(out.parent / "away")
    with pytest.raises(PackError, match=f"^{out}: shard 1 of the set is missing"):
        pack_folder(more, out, append=True)
    part(other, 1).rename(part(out, 1))
    with pytest.raises(PackError, match=r"00001.ffr: belongs to another set than .*part_00000.ffr"):
        pack_folder(more, out, append=True)


def test_only_one_process_at_a_time_adds(folder: Path, more: Path, out: Path) -> None:
    pack_folder(folder, out, shards=2)
    fd = os.open(out, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(PackError, match="another process is adding to it"):
        pack_folder(more, out, append=True)
    os.close(fd)
    pack_folder(more, out, append=True)


def test_links_and_empty_folders_are_added(folder: Path, tmp_path: Path, out: Path) -> None:
    pack_folder(folder, out, shards=2)
    new = make_folder(tmp_path / "new", {"x": {"y": {}}, "w": b""})
    (new / "link").symlink_to("w")
    pack_folder(new, out, append=True, symlinks="keep")
    entries = shown(out)
    assert entries["x/y"].content is None
    assert entries["link"].content == b"w"
    (new / "a").symlink_to("w")
    with pytest.raises(PackError, match=f"^{new}/a: {out}/part_0000..ffr has 'a' already"):
        pack_folder(new, out, append=True, symlinks="keep", include=["a"])
