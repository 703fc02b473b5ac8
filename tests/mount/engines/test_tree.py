"""The tree that a mount shows: names, bytes, attributes."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.ffrecord_file import record_extents, write_folder
from tests.folder.folder_model import make_folder
from tests.mount import probes
from tests.mount.command import ENGINES
from tests.mount.makers import MakeMount, PackTree

SERVED_BY = ENGINES
NOBODY = 65534
TREE = {"a.txt": b"alpha", "d": {"b.bin": b"x" * 1000, "deeper": {}}, "empty": b""}


@pytest.mark.promise("S1")
def test_packed_folder_reads_as_its_manifest_says(golden: Path, mount: MakeMount) -> None:
    manifest = json.loads((golden / "packed.manifest.json").read_text())
    assert mount(golden / "packed.ffr").ask(probes.digests, "") == manifest


def test_file_with_old_header_warns_once_and_reads_the_same(
    golden: Path, new_mount: MakeMount, tmp_path: Path
) -> None:
    pack = tmp_path / "old.ffr"
    pack.write_bytes(bytes(4) + (golden / "packed.ffr").read_bytes()[4:])
    mount = new_mount(pack)
    mount.expect_log("no checksum")
    done = mount.mount()
    assert done.status == 0
    assert len(done.err.splitlines()) == 1
    assert str(pack) in done.err
    assert "no checksum" in done.err
    manifest = json.loads((golden / "packed.manifest.json").read_text())
    assert mount.ask(probes.digests, "") == manifest


@pytest.mark.promise("S2")
def test_plain_file_shows_one_file_per_record(golden: Path, mount: MakeMount) -> None:
    pack = golden / "plain.ffr"
    data = pack.read_bytes()
    records = [data[offset : offset + size] for offset, size in record_extents(pack)]
    names = [f"{record:09d}" for record in range(100)]
    plain = mount(pack)
    assert sorted(plain.ask(probes.listdir, "")) == names
    assert plain.ask(probes.read_all_in, "", names) == records


@pytest.mark.promise("S4")
def test_attributes_of_files_and_folders(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(TREE))
    for path, size in {"a.txt": 5, "d/b.bin": 1000, "empty": 0}.items():
        found = tree.ask(probes.stat, path)
        assert stat.S_ISREG(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o644
        assert (found.st_size, found.st_nlink) == (size, 1)
        assert found.st_blocks == (size + 511) // 512
        assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
    for path, subfolders in {"": 1, "d": 1, "d/deeper": 0}.items():
        found = tree.ask(probes.stat, path)
        assert stat.S_ISDIR(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o755
        assert found.st_nlink == 2 + subfolders
        assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())


@pytest.mark.promise("S4")
def test_entries_without_times_have_the_time_of_the_pack(mount: MakeMount, tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "tree.ffr", TREE)
    os.utime(pack, ns=(0, 1_234_567_890_123_456_789))
    tree = mount(pack)
    for path in ("", "a.txt", "d", "d/b.bin"):
        assert tree.ask(probes.stat, path).st_mtime_ns == 1_234_567_890_123_456_789


@pytest.mark.promise("S3")
def test_inode_numbers_are_the_same_at_every_mount(golden: Path, mount: MakeMount) -> None:
    first, second = (mount(golden / "packed.ffr").ask(probes.inodes, "") for _ in range(2))
    assert first == second
    assert len(set(first.values())) == len(first)


@pytest.mark.promise("S4")
def test_owner_and_umask_are_as_requested(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(TREE), "-o", "uid=1234,gid=567", "-o", "umask=027")
    for path, mode in {"": 0o750, "d": 0o750, "a.txt": 0o640}.items():
        found = tree.ask(probes.stat, path)
        assert (found.st_uid, found.st_gid) == (1234, 567)
        assert stat.S_IMODE(found.st_mode) == mode


@pytest.mark.promise("S4")
def test_copy_can_be_changed_and_deleted(
    root_user: None, mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    """The ordinary user who made the copy can do so with cp and rm."""
    options = ["-o", f"allow_other,uid={NOBODY},gid={NOBODY}"]
    tree = mount(pack_tree(TREE), *options)
    copy = places / "copies" / "copy"
    copy.parent.mkdir()
    os.chown(copy.parent, NOBODY, NOBODY)
    for command in (
        ["cp", "-r", tree.path, copy],
        ["cp", copy / "a.txt", copy / "d" / "b.bin"],
        ["rm", "-r", copy],
    ):
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        subprocess.run(command, check=True, timeout=20, **user)
    assert tree.ask(probes.errno_of, "a.txt", "write", user_id=NOBODY) == errno.EROFS


@pytest.mark.promise("S4")
def test_modes_are_enforced(root_user: None, mount: MakeMount, pack_tree: PackTree) -> None:
    options = ["-o", f"allow_other,uid={NOBODY},gid={NOBODY},umask=077"]
    tree = mount(pack_tree(TREE), *options)
    assert tree.ask(probes.read, "a.txt", user_id=NOBODY) == b"alpha"
    for act, path in {"read": "a.txt", "list": "d"}.items():
        assert tree.ask(probes.errno_of, path, act, user_id=NOBODY - 1) == errno.EACCES


def test_other_users_are_kept_out_unless_allowed(
    root_user: None, mount: MakeMount, pack_tree: PackTree
) -> None:
    pack = pack_tree(TREE)
    for option, expected in {
        "": errno.EACCES,
        "allow_root": errno.EACCES,
        "allow_other": 0,
    }.items():
        tree = mount(pack, "-o", option)
        assert tree.ask(probes.errno_of, "a.txt", "read", user_id=NOBODY) == expected
        assert tree.ask(probes.errno_of, "a.txt", "read") == 0


@pytest.mark.promise("S6")
def test_kernel_caches_missing_names_and_attributes(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(TREE))
    learnt = {"absent": "stat", "d/absent": "stat", "d/b.bin": "stat", "a.txt": "getxattr"}
    before = {path: tree.ask(probes.errno_of, path, act) for path, act in learnt.items()}
    with tree.stopped():  # the daemon cannot answer
        for path, act in learnt.items():
            assert tree.ask(probes.errno_of, path, act) == before[path]


@pytest.mark.promise("S6")
def test_missing_names_stay_missing_and_wrong_file_types_fail(
    mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = mount(pack_tree(TREE))
    expected = {
        "absent": errno.ENOENT,
        "d/absent": errno.ENOENT,
        "absent/deeper": errno.ENOENT,
        "a.txt/deeper": errno.ENOTDIR,
        "d/" + "n" * 255: errno.ENOENT,
        "d/" + "n" * 256: errno.ENAMETOOLONG,
        "d/" + "n" * 2000: errno.ENAMETOOLONG,
        "A.TXT": errno.ENOENT,
    }
    for _ in range(2):  # the second time the kernel answers by itself
        for path, number in expected.items():
            assert tree.ask(probes.errno_of, path, "stat") == number, path
    assert tree.ask(probes.errno_of, "a.txt", "list") == errno.ENOTDIR
    assert tree.ask(probes.errno_of, "d", "read") == errno.EISDIR
    assert tree.ask(probes.errno_of, "a.txt", "readlink") == errno.EINVAL


@pytest.mark.promise("S9")
def test_statvfs_counts_the_pack(mount: MakeMount, pack_tree: PackTree) -> None:
    pack = pack_tree(TREE)
    found = mount(pack).ask(probes.statvfs, "")
    byte_count = sum(size for _, size in record_extents(pack))
    assert found.f_blocks == -(-byte_count // found.f_frsize)
    assert (found.f_bfree, found.f_bavail, found.f_ffree) == (0, 0, 0)
    assert found.f_files == 6
    assert found.f_namemax == 255
    assert found.f_flag & os.ST_RDONLY


@pytest.mark.promise("S9")
def test_statvfs_counts_links(mount: MakeMount, tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source", {"d": {"file": b"1"}})
    for number in range(50):
        (source / f"link{number}").symlink_to("d/file")
    pack_folder(source, tmp_path / "links.ffr", symlinks="keep")
    found = mount(tmp_path / "links.ffr").ask(probes.statvfs, "")
    assert found.f_files == 1 + 1 + 1 + 50  # the root, "d", the file


def test_mount_table_names_pack_and_type(mount: MakeMount, pack_tree: PackTree) -> None:
    pack = pack_tree(TREE)
    lines = {
        "plain": mount(pack),
        "named": mount(pack, "-o", r"fsname=a name\,with comma"),
    }
    text = Path("/proc/mounts").read_text(errors="surrogateescape")
    assert f"{pack} {lines['plain'].path} fuse.ffrfs ro,nosuid,nodev," in text
    assert rf"a\040name,with\040comma {lines['named'].path} fuse.ffrfs ro," in text


def test_mount_flags_reach_the_kernel(
    root_user: None, mount: MakeMount, pack_tree: PackTree
) -> None:
    pack = pack_tree(TREE)
    for options, expected in {
        "noexec": "ro,nosuid,nodev,noexec,relatime",
        "suid,dev": "ro,relatime",
        "nosymfollow": "ro,nosuid,nodev,relatime,nosymfollow",
    }.items():
        place = mount(pack, "-o", options).path
        assert f"{pack} {place} fuse.ffrfs {expected}," in Path("/proc/mounts").read_text(
            errors="surrogateescape"
        )
