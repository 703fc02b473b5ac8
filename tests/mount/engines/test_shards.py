"""Several packs as one tree, and sets with missing shards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.ffrecord_file import flip_byte, record_extents, write_folder, write_records
from tests.mount import probes
from tests.mount.child import ask
from tests.mount.command import Done, Mount, ffrfs, mount_command_fails
from tests.mount.makers import MakeMount, by_both, write_files
from tests.tfrecord_file import write_tfrecord

TREE = {
    "a": b"alpha",
    "d": {f"{i:02d}": bytes([i]) * 3000 for i in range(12)},
    "e": {"deep": {"x": b"x" * 5000}, "empty": {}},
    "z": b"omega",
}
FIRST = {"both": {"a": b"first a", "inner": {"x": b"x"}}, "own": {"f": b"f"}, "one": b"1"}
SECOND = {"both": {"b": b"second b", "inner": {"y": b"y"}}, "two": b"2"}
UNITED = {
    "both": None,
    "both/a": b"first a",
    "both/b": b"second b",
    "both/inner": None,
    "both/inner/x": b"x",
    "both/inner/y": b"y",
    "one": b"1",
    "own": None,
    "own/f": b"f",
    "two": b"2",
}


SERVED_BY = ["native"]  # the tree is the same for both engines


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_files(tmp_path / "source", TREE)
    return tmp_path / "source"


@pytest.fixture
def shards(source: Path, tmp_path: Path) -> Path:
    """A folder of three packs."""
    pack_folder(source, tmp_path / "shards", shards=3)
    assert len(packs_in(tmp_path / "shards")) == 3
    return tmp_path / "shards"


@pytest.fixture
def two_packs(tmp_path: Path) -> list[Path]:
    """Two packs without a mapped index that belong to no set."""
    return [
        write_folder(tmp_path / "first.ffr", FIRST),
        write_folder(tmp_path / "second.ffr", SECOND),
    ]


def packs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.ffr"))


def contents(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
    }


def notices(done: Done) -> list[str]:
    assert (done.status, done.out) == (0, "")
    return done.err.splitlines()


@by_both
@pytest.mark.promise("S37")
def test_folder_of_shards_is_the_tree_that_was_packed(
    mount: MakeMount, shards: Path, source: Path
) -> None:
    tree = mount(shards)
    assert tree.ask(probes.contents, "") == contents(source)
    folder = tree.ask(probes.list_twice, "d")[0]
    assert folder == [".", "..", *sorted(TREE["d"])]
    assert tree.ask(probes.stat, "").st_nlink == 2 + 2
    assert tree.ask(probes.stat, "e").st_nlink == 2 + 2


@pytest.mark.promise("S3", "S37")
def test_shards_named_one_by_one_are_the_same_tree(
    mount: MakeMount, shards: Path, source: Path
) -> None:
    tree = mount(*packs_in(shards))
    assert tree.ask(probes.contents, "") == contents(source)
    inodes = tree.ask(probes.inodes, "")
    assert mount(shards).ask(probes.inodes, "") == inodes
    assert len(set(inodes.values())) == len(inodes)
    assert f"{packs_in(shards)[0]} {tree.path} fuse.ffrfs ro," in Path("/proc/mounts").read_text(
        errors="surrogateescape"
    )
    stats = tree.statistics()
    assert stats["packs"] == [str(pack) for pack in packs_in(shards)]
    assert stats["pack"] == f"{packs_in(shards)[0]} and 2 more"


@pytest.mark.promise("S9", "S37")
def test_packs_of_different_sets_are_merged(mount: MakeMount, two_packs: list[Path]) -> None:
    os.utime(two_packs[0], ns=(0, 1_111_111_111))
    os.utime(two_packs[1], ns=(0, 2_222_222_222))
    tree = mount(*two_packs, "-o", "xattr")
    assert tree.ask(probes.contents, "") == UNITED
    times = {"": 1, "one": 1, "two": 2, "both": 1, "both/a": 1, "both/b": 2, "both/inner/y": 2}
    for path, unit in times.items():
        assert tree.ask(probes.stat, path).st_mtime_ns == unit * 1_111_111_111, path
    # One index space over all packs: the first has four files and its index.
    assert tree.ask(probes.getxattr, "both/b", "user.ffrfs.record") == b"5"
    found = tree.ask(probes.statvfs, "")
    byte_count = sum(size for pack in two_packs for _, size in record_extents(pack))
    assert found.f_blocks == -(-byte_count // found.f_frsize)


@by_both
@pytest.mark.promise("S11", "S37")
def test_damaged_record_is_eio_for_its_file_alone(mount: MakeMount, two_packs: list[Path]) -> None:
    offset, _ = record_extents(two_packs[1])[0]
    flip_byte(two_packs[1], offset)
    tree = mount(*two_packs)
    tree.expect_log(f"cannot read both/b: {two_packs[1]}: record 0 ")
    assert tree.ask(probes.errno_of, "both/b", "read") != 0
    assert tree.ask(probes.read, "both/a") == b"first a"
    assert tree.ask(probes.read, "two") == b"2"


# The same path twice.


@pytest.fixture
def clashing(tmp_path: Path) -> list[Path]:
    return [
        write_folder(tmp_path / "one.ffr", {"d": {"same": b"first"}, "a": b"a"}),
        write_folder(tmp_path / "two.ffr", {"d": {"same": b"last", "more": b"m"}}),
    ]


@by_both
@pytest.mark.promise("S37")
def test_conflict_is_refused_and_names_the_path_and_both_packs(
    new_mount: MakeMount, clashing: list[Path]
) -> None:
    tree = new_mount(*clashing)
    mount_command_fails(tree.mount(), 1, "d/same", *map(str, clashing))
    assert not tree.path.exists()


@pytest.mark.promise("S37")
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["-o", "on_conflict=last,ro"], b"last"),
        (["-o", "on_conflict=last", "--on-conflict", "first"], b"first"),
    ],
)
def test_on_conflict_shows_the_first_or_the_last_pack(
    mount: MakeMount, clashing: list[Path], arguments: list[str], shown: bytes
) -> None:
    expected = {"a": b"a", "d": None, "d/more": b"m", "d/same": shown}
    assert mount(*clashing, *arguments).ask(probes.contents, "") == expected


@pytest.mark.promise("S4", "S37")
@pytest.mark.parametrize(("shown", "root_links"), [("first", 1), ("last", 1), ("error", 4)])
def test_link_count_of_a_directory_with_possible_conflicts(
    mount: MakeMount, tmp_path: Path, shown: str, root_links: int
) -> None:
    """A number that is too high makes find(1) look for directories that are not there."""
    hidden = {} if shown == "error" else {"a": {"y": b"y"}}
    packs = [
        write_folder(tmp_path / "one.ffr", {"a": b"file", "c": {"x": b"x", "d": {}}}),
        write_folder(tmp_path / "two.ffr", {"b": {"z": b"z"}, **hidden}),
    ]
    tree = mount(*packs, "--on-conflict", shown)
    assert tree.ask(probes.stat, "").st_nlink == root_links
    assert tree.ask(probes.stat, "c").st_nlink == 3  # all its entries are of one pack


# Missing and bad packs.


def take_away(pack: Path) -> None:
    pack.unlink()


def spoil_header(pack: Path) -> None:
    data = pack.read_bytes()
    pack.write_bytes(data[:4] + b"\xff" * 8 + data[12:])


@by_both
@pytest.mark.promise("S16", "S38")
@pytest.mark.parametrize(("lose", "number"), [(take_away, 2), (spoil_header, 0)])
def test_set_that_lacks_a_shard_is_refused_or_the_rest_is_shown(
    new_mount: MakeMount, shards: Path, source: Path, lose: Callable[[Path], None], number: int
) -> None:
    lost = packs_in(shards)[number]
    told = f"missing: number {number}" if lose == take_away else str(lost)
    lose(lost)
    tree = new_mount(shards)
    mount_command_fails(tree.mount(), 1, told)
    assert not tree.path.exists()
    tree.expect_log(told)
    if lose == spoil_header:  # a bad pack is left out, so that its set lacks it
        tree.expect_log(f"missing: number {number}")
    lines = notices(tree.mount("--allow-missing"))
    assert told in " ".join(lines)
    assert len(lines) == (1 if lose == take_away else 2)
    found = tree.ask(probes.contents, "")
    assert found.items() < contents(source).items()
    assert any(content is not None for content in found.values())


@by_both
@pytest.mark.promise("S38")
def test_missing_pack_is_refused_or_left_out(
    new_mount: MakeMount, two_packs: list[Path], tmp_path: Path
) -> None:
    absent = tmp_path / "absent.ffr"
    tree = new_mount(two_packs[0], absent, two_packs[1])
    mount_command_fails(tree.mount(), 1, str(absent), "No such file")
    tree.expect_log(f"{absent}: .*No such file")
    (line,) = notices(tree.mount("-o", "allow_missing"))
    assert str(absent) in line
    assert tree.ask(probes.contents, "") == UNITED


@pytest.mark.promise("S38")
def test_first_failure_is_reported_if_no_pack_is_left(new_mount: MakeMount, tmp_path: Path) -> None:
    tree = new_mount(tmp_path / "x.ffr", tmp_path / "y.ffr")
    mount_command_fails(tree.mount("--allow-missing"), 1, str(tmp_path / "x.ffr"), "No such file")
    assert not tree.path.exists()


@pytest.mark.promise("S38")
def test_appended_shards_belong_to_the_set(
    new_mount: MakeMount, shards: Path, source: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "new", {"d": {"new": b"new"}})
    pack_folder(tmp_path / "new", shards, append=True)
    assert len(packs_in(shards)) == 4
    tree = new_mount(shards)
    assert notices(tree.mount()) == []
    assert tree.ask(probes.contents, "") == contents(source) | {"d/new": b"new"}
    assert ffrfs("umount", tree.path).status == 0
    packs_in(shards)[1].unlink()
    mount_command_fails(tree.mount(), 1, "one of 4 shards", "missing: number 1")


def test_only_packed_folders_can_be_mounted_together(
    new_mount: MakeMount, two_packs: list[Path], tmp_path: Path
) -> None:
    plain = write_records(tmp_path / "plain.ffr", [b"record"])
    tfrecord = write_tfrecord(tmp_path / "x.tfrecord", [b"record"])
    (tmp_path / "folder").mkdir()
    shutil.copy(tfrecord, tmp_path / "folder")
    for other in (plain, tfrecord, tmp_path / "folder"):
        tree = new_mount(two_packs[0], other)
        for arguments in ([], ["--allow-missing"]):
            done = tree.mount(*arguments)
            mount_command_fails(done, 1, str(other), "only packs can be shown", "alone")


def test_folder_of_packs_and_tfrecord_files_is_refused(
    new_mount: MakeMount, two_packs: list[Path]
) -> None:
    folder = two_packs[0].parent / "folder"
    folder.mkdir()
    shutil.copy(two_packs[0], folder)
    write_tfrecord(folder / "x.tfrecord", [b"record"])
    mount_command_fails(new_mount(folder).mount(), 1, str(folder), "both")


@by_both
@pytest.mark.long
def test_more_packs_than_a_process_may_usually_open(new_mount: MakeMount, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    count = 150
    for i in range(count):
        write_folder(folder / f"{i:03d}.ffr", {"d": {f"{i:03d}": b"%d" % i}})
    tree: Mount = new_mount(folder)
    assert tree.mount(prefix=["prlimit", "--nofile=128:4096"]).status == 0
    names = [f"{i:03d}" for i in range(count)]
    assert ask(probes.read_all_in, tree / "d", names) == [b"%d" % i for i in range(count)]
