"""Mount points: one name for each, made and removed, refused if they cannot be used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.kernel import mount_table
from ffrfs.mount.kernel.mountpoint import canonical
from tests.mount import probes
from tests.mount.command import ffrfs, mount_command_fails
from tests.mount.makers import MakeMount, PackTree

TREE = {"a": b"alpha"}


@pytest.fixture
def engine(fuse: None) -> str:
    """One engine: the place is prepared before the engine begins, and removed after it."""
    return "native"


def test_canonical_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path.resolve() / "base"
    (base / "real" / "inner").mkdir(parents=True)
    (base / "link").symlink_to("real")
    (base / "chain").symlink_to(base / "link" / "inner")
    (base / "dangling").symlink_to("absent")
    (base / "round").symlink_to("round")
    monkeypatch.chdir(base / "real")
    for path, expected in {
        "inner": "real/inner",
        "./inner/": "real/inner",
        ".": "real",
        "..": "",
        "inner/..": "real",
        f"{base}/link": "real",
        f"{base}/link/": "real",
        f"{base}/link/inner": "real/inner",
        f"{base}/chain": "real/inner",
        f"{base}/link/../real": "real",
        f"{base}/absent": "absent",
        f"{base}/dangling": "absent",
        f"{base}//real//absent": "real/absent",
    }.items():
        assert canonical(path) == str(base / expected).rstrip("/"), path
    assert canonical("/") == "/"
    with pytest.raises(MountError, match="is empty"):  # not the working directory
        canonical("")
    with pytest.raises(OSError, match="symbolic links"):
        canonical(f"{base}/round")


def test_mount_table_undoes_the_kernels_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_bytes(
        b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        rb"40 22 0:50 / /mnt/a\040b\134c\011d ro - fuse.ffrfs /data/x\0401.ffr"
        b" ro,user_id=1000,group_id=100,x\n"
        b"41 22 0:51 / /mnt/x rw master:1 propagate_from:2 - tmpfs \xff\xfe rw\n"
        b"42 41 0:52 / /mnt/x rw - fuse  rw\n"
        b"43 22 0:53 / /mnt/\r\x0c/y rw - fuse.ffrfs y rw\n"  # the kernel does not escape these
    )
    monkeypatch.setattr(mount_table, "MOUNTINFO", str(table))
    entry = mount_table.mount_at("/mnt/a b\\c\td")
    assert entry is not None
    assert (entry.fstype, entry.source, entry.device) == ("fuse.ffrfs", "/data/x 1.ffr", "0:50")
    assert entry.is_ours
    assert (entry.user_id, entry.group_id) == (1000, 100)
    topmost = mount_table.mount_at("/mnt/x")
    assert topmost is not None
    assert (topmost.fstype, topmost.source, topmost.is_ours) == ("fuse", "", False)
    assert topmost.user_id is None
    assert mount_table.mount_at("/mnt/y") is None
    assert mount_table.mount_at("/mnt/\r\x0c/y") in mount_table.read_mount_table()
    assert mount_table.read_mount_table()[-1].mountpoint == "/mnt/\r\x0c/y"
    assert os.fsencode(mount_table.read_mount_table()[2].source) == b"\xff\xfe"


@pytest.mark.promise("S17")
def test_mount_point_that_is_not_empty_is_refused(
    new_mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    tree = new_mount(pack_tree(TREE), mountpoint=places / "full")
    tree.path.mkdir()
    (tree.path / "file").write_text("kept")
    mount_command_fails(tree.mount(), 1, str(tree.path), "not empty", "nonempty")
    assert not tree.is_mounted
    assert tree.mount("-o", "nonempty").status == 0
    assert tree.ask(probes.listdir, "") == ["a"]
    assert ffrfs("umount", tree.path).status == 0
    assert (tree.path / "file").read_text() == "kept"


def test_unusable_mount_points_are_refused(
    new_mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    pack = pack_tree(TREE)
    (places / "file").write_text("no folder")
    for path in ("file", "absent/deeper", "file/deeper"):
        tree = new_mount(pack, mountpoint=places / path)
        mount_command_fails(tree.mount(), 1, str(places / path))
    assert (places / "file").read_text() == "no folder"
    assert sorted(path.name for path in places.iterdir()) == ["file"]


@pytest.mark.long
@pytest.mark.promise("S16")
def test_mount_point_on_a_file_system_that_hangs_is_refused(
    mount: MakeMount, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    """The command waits for the file system for 5 seconds, without the lock that others need."""
    hanging = mount(pack_tree({"d": TREE}))
    tree = new_mount(hanging.pack, mountpoint=hanging.path / "d")
    assert hanging.ask(probes.listdir, "") == ["d"]
    with hanging.stopped():
        mount_command_fails(tree.mount(), 1, str(tree.path), "has not answered for 5 s")
        assert ffrfs("umount", hanging.path).status == 0


@pytest.mark.promise("S17")
@pytest.mark.parametrize("name", ["a b", "tab\there", "back\\slash", "comma,", "ümlaut", "-o"])
def test_odd_names_of_the_mount_point(
    mount: MakeMount, pack_tree: PackTree, places: Path, name: str
) -> None:
    tree = mount(pack_tree(TREE), mountpoint=places / name)
    assert tree.ask(probes.read, "a") == b"alpha"
    assert ffrfs("umount", tree.path).status == 0
    assert not tree.path.exists()


def test_relative_names_of_pack_and_mount_point(
    new_mount: MakeMount,
    pack_tree: PackTree,
    places: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(places)
    tree = new_mount(Path(os.path.relpath(pack_tree(TREE))), mountpoint=Path("here"))
    assert tree.path == places / "here"
    assert tree.mount().status == 0
    assert tree.ask(probes.read, "a") == b"alpha"
    assert ffrfs("umount", "./here/").status == 0
    assert not tree.path.exists()


def test_mount_point_behind_a_link(mount: MakeMount, pack_tree: PackTree, places: Path) -> None:
    (places / "real").mkdir()
    (places / "link").symlink_to("real")
    tree = mount(pack_tree(TREE), mountpoint=places / "link" / "m")
    assert tree.path == places / "real" / "m"
    assert ffrfs("umount", places / "link" / "m").status == 0
    assert not tree.path.exists()


@pytest.mark.promise("S17")
def test_second_mount_at_the_same_place_is_refused(
    mount: MakeMount, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    pack = pack_tree(TREE)
    first = mount(pack)
    for options in ([], ["-o", "nonempty"]):
        second = new_mount(pack, mountpoint=first.path)
        mount_command_fails(second.mount(*options), 32, str(first.path), "ffrfs umount")
    assert first.ask(probes.read, "a") == b"alpha"
    assert first.is_served


@pytest.mark.promise("S17")
def test_commands_leave_a_mount_below_another_one(
    root_user: None, mount: MakeMount, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = mount(pack_tree(TREE))
    subprocess.run(["mount", "-t", "tmpfs", "none", str(tree.path)], check=True, timeout=20)
    try:
        second = new_mount(tree.pack, mountpoint=tree.path)
        for options in ([], ["--check"]):
            done = second.mount(*options)
            mount_command_fails(done, 32, str(tree.path), "below a mount of type tmpfs")
        mount_command_fails(ffrfs("umount", tree.path), 1, str(tree.path), "tmpfs")
    finally:
        subprocess.run(["umount", "-i", str(tree.path)], check=True, timeout=20)
    assert tree.ask(probes.read, "a") == b"alpha"
    assert tree.statistics()["daemon_starts"] == 0  # commands know its daemon
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
    assert not tree.path.exists()
