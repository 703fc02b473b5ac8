"""Without FUSE, or without the right to use it, a single error says what to do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mount.command import ENGINES
from tests.mount.machine import Machine
from tests.mount.makers import ORDINARY_USER_ID, PackTree

CONTENT = "content"
DEVICE = "/dev/fuse"


@pytest.fixture
def pack(machine: Machine, places: Path, pack_tree: PackTree) -> Path:
    path = places / "pack.ffr"
    shutil.copyfile(pack_tree({"a": CONTENT.encode()}), path)
    return path


def fails(
    machine: Machine,
    pack: Path,
    place: Path,
    reason: str,
    *,
    user_id: int = 0,
    options: Sequence[str] = ("--engine=auto", "--check"),
) -> None:
    for option in options:
        done = machine.ffrfs("mount", option, pack, place, user_id=user_id)
        assert done.status == 32, done
        (line,) = done.err.splitlines()
        assert line.startswith(f"ffrfs: {DEVICE}: {reason}")
        assert "--device /dev/fuse" in line
    assert not place.exists()


def hide_device(machine: Machine, folder: Path) -> None:
    """Make a /dev that has only the files that every program needs."""
    folder.mkdir()
    keep = ("null", "zero", "random", "urandom", "shm")
    script = [f"mount -t tmpfs -o mode=755 tmpfs {folder}"]
    script += [f"cp -a /dev/{name} {folder}/" for name in keep]
    machine.admin(" && ".join([*script, f"mount --bind {folder} /dev"]))


def test_missing_fuse_device(machine: Machine, places: Path, pack: Path) -> None:
    hide_device(machine, places / "dev")
    place = places / "mount"
    reason = "No such file or directory: FUSE is needed: run: modprobe fuse"
    engines = [f"--engine={engine}" for engine in ENGINES]
    fails(machine, pack, place, reason, options=[*engines, "--check"])
    # All other commands work.
    assert machine.ffrfs("cat", pack, "a").out == CONTENT
    for command in (["verify", pack], ["ps"], ["umount", "--all"], ["umount", "--dead", place]):
        assert machine.ffrfs(*command).status == 0
    assert machine.ffrfs("umount", place).err == f"ffrfs: {place}: not mounted\n"


def test_something_else_at_the_path_of_the_fuse_device(
    machine: Machine, places: Path, pack: Path
) -> None:
    hide_device(machine, places / "dev")
    for make, reason in {
        f"touch {DEVICE}": "not a device: remove it, and run: modprobe fuse",
        f"mkdir {DEVICE}": "Is a directory: FUSE is needed: run: modprobe fuse",
        # A container has this if its host has no such device, or has not loaded the module.
        f"mknod {DEVICE} c 10 250": "No such device: FUSE is needed: run: modprobe fuse",
    }.items():
        machine.admin(make)
        fails(machine, pack, places / "mount", reason)
        machine.admin(f"rm -r {DEVICE}")


def test_fuse_device_that_a_user_may_not_open(machine: Machine, places: Path, pack: Path) -> None:
    machine.open_to_all()
    home = places / "home"
    home.mkdir()
    machine.admin(f"chown {ORDINARY_USER_ID} {home} && chmod 600 {DEVICE}")
    reason = f"Permission denied: run as root: chmod 666 {DEVICE}"
    fails(machine, pack, home / "mount", reason, user_id=ORDINARY_USER_ID)


@pytest.mark.promise("S45")
def test_user_with_no_new_privs(machine: Machine, places: Path, pack: Path) -> None:
    machine.open_to_all()
    home = places / "home"
    home.mkdir()
    machine.admin(f"chown {ORDINARY_USER_ID} {home}")
    place = home / "mount"
    command = ("setpriv", "--no-new-privs", sys.executable, "-P", "-m", "ffrfs", "mount")
    for options in ((), ("--check",)):
        done = machine.run(*command, *options, pack, place, user_id=ORDINARY_USER_ID)
        assert done.status == 32, done
        (line,) = done.err.splitlines()
        assert line.startswith(f"ffrfs: {place}: cannot mount: fusermount3 may not become root")
    assert not place.exists()
