"""Changes of packs and pack sets: the rest stays as it was, and no step is half done."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings

from ffrfs import pack_folder
from ffrfs.errors import ChecksumError, PackError, PathNotFoundError
from ffrfs.folder.sidecar import write_sidecar
from ffrfs.packing import change
from ffrfs.packing.change import add_files, remove_paths
from ffrfs.packing.pack import repack
from ffrfs.packing.places import MANIFEST_NAME
from tests.ffrecord_file import Tree, flip_byte, record_extents
from tests.folder.folder_model import make_folder, read_records, shown, shown_tree, trees
from tests.interpreter import python
from tests.tiny_disk import error_on_tiny_disk

TREE: Tree = {
    "a": {"large": bytes(range(256)) * 40_000, "x.png": b"x", "empty": {}},
    "b": {"y": b"y", "same": b"x"},
    "z": b"z" * 1000,
}
NEW: Tree = {"a": {"new": b"new"}, "c": {"d": b""}, "z": b"another"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = make_folder(tmp_path / "folder", TREE)
    (made / "link").symlink_to("b/y")
    (made / "b" / "y").chmod(0o600)
    os.utime(made / "b", (5, 5))
    return made


@pytest.fixture
def pack(folder: Path, out: Path) -> Path:
    pack_folder(folder, out, symlinks="keep", order="size", dedup=True)
    return out


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "new", NEW)


@pytest.fixture
def pack_set(folder: Path, out: Path) -> Path:
    pack_folder(folder, out.parent / "set", symlinks="keep", shards=3)
    return out.parent / "set"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.promise("S77")
def test_add_and_remove_leave_other_files_unchanged(pack: Path, new: Path) -> None:
    before, records = shown(pack), read_records(pack)
    assert add_files(str(pack), ["a/new", "c"], folder=str(new)) == (2, 0, 1, 0)
    after = shown(pack)
    assert after.pop("a/new").content == b"new"
    assert (after.pop("c").content, after.pop("c/d").content) == (None, b"")
    assert after == before
    assert read_records(pack)[:-1] == [*records[:-1], b"new", b""]  # in order; shared ones stay
    assert remove_paths(str(pack), ["/c", "a/new"]) == (2, 0, 1, 0)
    assert shown(pack) == before
    assert read_records(pack)[:-1] == records[:-1]
    assert os.listdir(pack.parent) == [pack.name]


def test_an_emptied_directory_is_kept(pack: Path) -> None:
    remove_paths(str(pack), ["b/y", "b/same", "link", "a"])
    assert shown_tree(pack) == {"b": {}, "z": TREE["z"]}


def test_removing_a_path_keeps_a_record_that_is_shared(pack: Path) -> None:
    remove_paths(str(pack), ["a/x.png"])
    assert shown(pack)["b/same"].content == b"x"


@pytest.mark.parametrize("name", ["[a]*?", "*", "**"])
def test_paths_to_remove_are_not_patterns(tmp_path: Path, out: Path, name: str) -> None:
    pack_folder(make_folder(tmp_path / "odd", {name: b"1", "a": b"2", "b": {name: b"3"}}), out)
    remove_paths(str(out), [name])
    assert shown_tree(out) == {"a": b"2", "b": {name: b"3"}}


@pytest.mark.parametrize("name", ["new files", ".new", "x"])
def test_a_pack_of_any_name(tmp_path: Path, new: Path, name: str) -> None:
    pack_folder(make_folder(tmp_path / "one", {"a": b"1"}), tmp_path / name)
    make_folder(tmp_path / "two", {"b": b"2"})
    add_files(str(tmp_path / name), ["b"], folder=str(tmp_path / "two"))
    assert shown_tree(tmp_path / name) == {"a": b"1", "b": b"2"}


@pytest.mark.parametrize("kind", ["pack", "pack_set"])
def test_an_existing_path_is_replaced_only_with_force(
    kind: str, request: pytest.FixtureRequest, new: Path
) -> None:
    place: Path = request.getfixturevalue(kind)
    before, tree = contents(place.parent if kind == "pack" else place), shown(place)
    with pytest.raises(PackError, match=r"/z: .* has 'z' already; replace it with --force"):
        add_files(str(place), ["z", "c"], folder=str(new))
    assert contents(place.parent if kind == "pack" else place) == before
    done = add_files(str(place), ["z", "c"], folder=str(new), force=True)
    assert done == (2, 1, 1, int(kind == "pack_set"))
    after = shown(place)
    assert after.pop("z").content == b"another"
    assert (after.pop("c").content, after.pop("c/d").content) == (None, b"")
    del tree["z"]
    assert after == tree


@pytest.mark.parametrize(
    ("more", "path"), [({"a": b""}, "a"), ({"z": {"x": b""}}, "z"), ({"link": {"x": b""}}, "link")]
)
def test_a_directory_and_a_file_do_not_replace_each_other(
    pack: Path, tmp_path: Path, more: Tree, path: str
) -> None:
    before = pack.read_bytes()
    folder = make_folder(tmp_path / "more", more)
    with pytest.raises(PackError, match=rf"/{path}: .* has '{path}' already; remove it first"):
        add_files(str(pack), ["."], folder=str(folder), force=True)
    assert pack.read_bytes() == before


@pytest.mark.promise("S77")
def test_only_changed_shards_of_a_set_are_written(pack_set: Path, new: Path) -> None:
    (pack_set / MANIFEST_NAME).write_text("{}\n")
    before = contents(pack_set)
    assert add_files(str(pack_set), ["a/new"], folder=str(new)) == (1, 0, 0, 1)
    assert contents(pack_set).items() > before.items()  # the manifest still holds
    remove_paths(str(pack_set), ["a/new", "b/y"])
    after = contents(pack_set)
    unchanged = {name for name in before if after.get(name) == before[name]}
    assert len(unchanged) == 2
    assert MANIFEST_NAME not in after
    assert len(after) == 4
    tree = shown_tree(pack_set)
    assert (tree["b"], tree["z"]) == ({"same": b"x"}, TREE["z"])
    pack_folder(new, pack_set, append=True, exclude=["z"])
    assert shown(pack_set)["a/new"].content == b"new"


@pytest.mark.promise("S70")
@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_made_meanwhile_with_a_new_shards_name_is_kept(
    pack_set: Path, new: Path, monkeypatch: pytest.MonkeyPatch, *, has_links: bool
) -> None:
    (pack_set / MANIFEST_NAME).write_text("{}\n")
    before, taken = contents(pack_set), pack_set / "part_00003.ffr"

    def take(*_: object) -> None:
        taken.write_text("precious")

    def link(_: str, place: str, **__: object) -> None:
        number = errno.EEXIST if os.path.lexists(place) else errno.EPERM  # like the kernel
        raise OSError(number, os.strerror(number), place)

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    with pytest.raises(PackError, match=f"^{taken}: exists already; nothing was added"):
        add_files(str(pack_set), ["z"], folder=str(new), force=True, progress=take)
    assert contents(pack_set) == {**before, taken.name: b"precious"}
    taken.unlink()
    assert add_files(str(pack_set), ["z"], folder=str(new), force=True).new_count == 1
    assert shown(pack_set)["z"].content == b"another"


def test_refused_changes(pack: Path, pack_set: Path, new: Path) -> None:
    with pytest.raises(PathNotFoundError, match="has no 'b/x'"):
        remove_paths(str(pack), ["z", "b/x"])
    with pytest.raises(PackError, match="cannot remove its root"):
        remove_paths(str(pack), ["./"])
    with pytest.raises(PackError, match=r"s3://b/x\.ffr: packs at URLs are not changed"):
        remove_paths("s3://b/x.ffr", ["a"])
    with pytest.raises(PackError, match=r"00000\.ffr: is a shard of a pack set; add to its dir"):
        add_files(str(pack_set / "part_00000.ffr"), ["c"], folder=str(new))
    with pytest.raises(PackError, match="file 1: 'nothing' is not in "):
        add_files(str(pack), ["nothing"], folder=str(new))
    with pytest.raises(PackError, match=r"^add: file 2 has an empty name"):
        add_files(str(pack_set), ["c", ""], folder=str(new))
    with pytest.raises(PackError, match=r"not a shard of a pack set; packs are added to pack sets"):
        add_files(str(pack.parent), ["c"], folder=str(new))
    (dotted := pack.parent / "..packs").mkdir()
    for itself in (pack, Path(shutil.copy(pack, dotted))):
        with pytest.raises(PackError, match="cannot be added to itself"):
            add_files(str(itself), ["."], folder=str(pack.parent))
    (pack_set / "part_00002.ffr").rename(pack_set.parent / "away.ffr")
    (pack_set / "part_00002.ffr").symlink_to("../away.ffr")
    with pytest.raises(PackError, match=r"00002\.ffr: is a symbolic link; change the pack"):
        remove_paths(str(pack_set), ["z"])
    with open(pack, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(PackError, match="another process is changing it; try again"):
            remove_paths(str(pack), ["z"])
    assert "z" in shown(pack)


def test_errors_of_add_advise_no_options_of_pack(pack: Path, new: Path) -> None:
    """`add` has no options to leave files out."""

    def refusal() -> str:
        with pytest.raises(PackError) as caught:
            add_files(str(pack), ["d"], folder=str(new))
        (new / "d" / "odd").unlink()
        return str(caught.value)

    odd, advice = make_folder(new / "d", {}) / "odd", "leave it out (name the others)"
    os.mkfifo(odd)
    assert refusal() == f"{odd}: is a FIFO; {advice}"
    odd.symlink_to("nowhere")
    assert refusal().endswith(f"(No such file or directory); {advice} or remove it")
    odd.symlink_to(".")
    assert refusal().endswith(f"/d; {advice}")
    odd.symlink_to("../../folder")
    assert refusal().endswith("d/odd (to ../../folder); leave them out (name the others)")


def test_a_dry_run_writes_nothing(pack: Path, new: Path) -> None:
    before = pack.stat()
    assert add_files(str(pack), ["c"], folder=str(new), dry_run=True).path_count == 1
    assert remove_paths(str(pack), ["z"], dry_run=True).path_count == 1
    assert pack.stat().st_ino == before.st_ino


@pytest.mark.promise("S77")
def test_a_damaged_record_leaves_the_old_pack(pack: Path, new: Path) -> None:
    offset, size = record_extents(pack)[-2]  # the largest file
    flip_byte(pack, offset + size // 2)
    before = pack.read_bytes()
    with pytest.raises(ChecksumError, match="a/large"):
        add_files(str(pack), ["c"], folder=str(new))
    assert (pack.read_bytes(), os.listdir(pack.parent)) == (before, [pack.name])
    remove_paths(str(pack), ["a/large"])  # this mends the pack
    assert shown(pack)["z"].content == TREE["z"]


def test_a_change_keeps_the_mode_and_a_link_to_the_pack(pack: Path, tmp_path: Path) -> None:
    pack.chmod(0o640)
    link = tmp_path / "link.ffr"
    link.symlink_to(pack)
    remove_paths(str(link), ["z"])
    assert link.is_symlink()
    assert stat.S_IMODE(pack.stat().st_mode) == 0o640
    assert "z" not in shown(pack)


def test_the_sidecar_of_the_old_pack_is_removed(golden: Path, out: Path) -> None:
    out.write_bytes((golden / "packed.ffr").read_bytes())
    write_sidecar(out)
    path = next(path for path, entry in shown(out).items() if entry.content is not None)
    remove_paths(str(out), [path])
    assert os.listdir(out.parent) == [out.name]
    foreign = Path(f"{out}.idx")
    foreign.write_bytes(b"a diary")
    path = next(path for path, entry in shown(out).items() if entry.content is not None)
    remove_paths(str(out), [path])
    assert foreign.read_bytes() == b"a diary"


@pytest.mark.promise("S77")
@pytest.mark.parametrize("action", ["add", "rm", "pack"])
def test_a_pack_that_was_replaced_meanwhile_is_kept(pack: Path, new: Path, action: str) -> None:
    """`pack --force` takes no lock: it makes another pack, and reads nothing of the old one."""

    def replace_it(*_: object) -> None:
        if "x" not in shown(pack):
            pack_folder(make_folder(pack.parent.parent / "other", {"x": b"x"}), pack, force=True)

    with pytest.raises(PackError, match=f"^{pack}: was replaced meanwhile; nothing was changed"):
        if action == "add":
            add_files(str(pack), ["c"], folder=str(new), progress=replace_it)
        elif action == "rm":
            remove_paths(str(pack), ["z"], progress=replace_it)
        else:
            repack(pack, pack, progress=replace_it)
    assert shown_tree(pack) == {"x": b"x"}
    assert os.listdir(pack.parent) == [pack.name]


FULL_DISK = """
import shutil
from ffrfs.packing.change import add_files
from ffrfs.packing.pack import repack
shutil.copy(words[0], pack := disk + "/x.ffr")
if words[1] == "repack":
    repack(pack, pack)
else:
    add_files(pack, ["large"], folder=words[1])
"""


@pytest.mark.parametrize("action", ["add", "repack"])
def test_the_error_of_a_full_disk_names_the_pack(tmp_path: Path, action: str) -> None:
    pack_folder(make_folder(tmp_path / "old", {"a": bytes(600_000)}), tmp_path / "x.ffr")
    folder = make_folder(tmp_path / "new", {"large": bytes(2 << 20)})
    disk = tmp_path / "disk"
    words = [str(tmp_path / "x.ffr"), str(folder) if action == "add" else action]
    error, names = error_on_tiny_disk(disk, FULL_DISK, *words)
    assert error[1:] == ["cannot write: No space left on device", f"{disk}/x.ffr"]
    assert names == ["x.ffr"]


@pytest.mark.promise("S77")
def test_a_file_system_without_owners(
    pack: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    pack.chmod(0o664)
    monkeypatch.setattr(os, "chown", refuse)
    add_files(str(pack), ["c"], folder=str(new))
    assert pack.stat().st_mode & 0o777 == 0o604
    assert "c/d" in shown(pack)


KILLED = """
import os, signal, sys
from ffrfs.packing.change import add_files, remove_paths
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "add":
    add_files(sys.argv[1], ["c"], folder=sys.argv[3], progress=kill)
else:
    remove_paths(sys.argv[1], ["b/y"], progress=kill)
"""


@pytest.mark.promise("S77")
@pytest.mark.parametrize("kind", ["pack", "pack_set"])
@pytest.mark.parametrize("action", ["add", "rm"])
def test_a_killed_command_leaves_the_old_pack(
    kind: str, action: str, request: pytest.FixtureRequest, new: Path
) -> None:
    place: Path = request.getfixturevalue(kind)
    before = shown(place)
    assert python("-c", KILLED, place, action, new).returncode == -signal.SIGKILL
    assert shown(place) == before
    folder = place if kind == "pack_set" else place.parent
    assert [name for name in os.listdir(folder) if name.endswith(".partial")]
    remove_paths(str(place), ["z"])  # the next command removes the partial files
    assert [name for name in os.listdir(folder) if name.endswith(".partial")] == []


def test_the_same_command_completes_an_interrupted_add(
    pack_set: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the interruption the set has the new pack, and still has the old path."""

    def rename(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(change.os, "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            add_files(str(pack_set), ["z"], folder=str(new), force=True)
    assert shown(pack_set)["z"].content in (TREE["z"], b"another")
    assert add_files(str(pack_set), ["z"], folder=str(new), force=True).rewritten_count == 2
    repack([pack_set], pack_set.parent / "whole.ffr")
    assert shown_tree(pack_set)["z"] == shown_tree(pack_set.parent / "whole.ffr")["z"] == b"another"


def test_rm_of_the_remaining_paths_completes_an_interrupted_rm(
    pack_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [path for path, entry in shown(pack_set).items() if entry.content is not None]
    rename = os.rename

    def rename_one(source: str, target: str) -> None:
        rename(source, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(change.os, "rename", rename_one)
        with pytest.raises(KeyboardInterrupt):
            remove_paths(str(pack_set), paths)
    left = [path for path in paths if path in shown(pack_set)]
    assert 0 < len(left) < len(paths)
    with pytest.raises(PathNotFoundError):
        remove_paths(str(pack_set), paths)
    assert remove_paths(str(pack_set), left).path_count == len(left)
    assert shown_tree(pack_set) == {"a": {"empty": {}}, "b": {}}


@pytest.mark.long
@settings(max_examples=50)
@given(tree=trees, more=trees)
def test_any_trees(tmp_path_factory: pytest.TempPathFactory, tree: Tree, more: Tree) -> None:
    place = tmp_path_factory.mktemp("any")
    pack = place / "x.ffr"
    pack_folder(make_folder(place / "old", {"old": tree}), pack)
    before = pack.read_bytes()
    add_files(str(pack), ["."], folder=str(make_folder(place / "new", {"more": more})))
    assert shown_tree(pack) == {"old": tree, "more": more}
    remove_paths(str(pack), ["more"])
    assert pack.read_bytes() == before
