"""Mounts that are visible at another path than the one where they were made."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.mount.client import unmount as unmounting
from ffrfs.mount.client.mount_statuses import mount_statuses
from ffrfs.mount.client.watched import Watched
from ffrfs.mount.kernel.mount_table import mount_at
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import TIMEOUT_S, Mount, ffrfs
from tests.mount.makers import MakeMount

TREE = {"a": b"alpha" * 10_000}


def check_told(tree: Mount, place: Path) -> None:
    """Errors name the path where the mount was made, and do not advise to unmount it."""
    for command in ("stats", "restart", "log"):
        done = ffrfs(command, place)
        assert done.status != 0
        (line,) = done.err.splitlines()
        assert f"{place}: it was mounted at {tree.path}, and is bound here, or was moved" in line
        assert "umount" not in line
    (status,) = (one for one in mount_statuses() if one.mountpoint == str(tree.path))
    assert status.state == "live"
    with Watched(str(tree.path)) as watched:
        watched.ask()
        watched.wait(TIMEOUT_S)
        (look,) = watched.looks()
    assert look.condition == "live"


@pytest.fixture
def bound(root_user: None, tree: Mount, tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "bound"
    place.mkdir()
    subprocess.run(["mount", "--bind", tree.path, place], check=True, timeout=60)
    try:
        yield place
    finally:
        if mount_at(str(place)) is not None:
            subprocess.run(["umount", "--lazy", place], check=True, timeout=60)


def test_bind_mount(tree: Mount, bound: Path) -> None:
    check_told(tree, bound)


@pytest.mark.promise("S51")
def test_mount_whose_parent_was_renamed(mount: MakeMount, pack: Path, places: Path) -> None:
    above = places / "before"
    above.mkdir()
    tree = mount(pack, mountpoint=above / "mount")
    above.rename(places / "after")
    moved = places / "after" / "mount"
    try:
        check_told(tree, moved)
        done = ffrfs("umount", tree.path)
        assert done.status != 0
        assert f"not mounted there any more, but at {moved}, bound or moved" in done.err
        check_told(tree, moved)  # the mount goes on
    finally:
        assert ffrfs("umount", moved).status == 0
    tree.wait_for_daemon()


def test_umount_of_a_mount_that_was_detached_names_open_files(root_user: None, tree: Mount) -> None:
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        subprocess.run(["umount", "--lazy", tree.path], check=True, timeout=60)
        notice = unmounting.unmount(tree.path, timeout_s=0.1).notice
        assert notice is not None
        assert "has not ended within 0.1 s; an open file, a bind mount, or a container" in notice
