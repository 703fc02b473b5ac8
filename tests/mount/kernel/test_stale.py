"""Mounting where a daemon has died: the mount that it left is removed, and nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGKILL

import pytest

from ffrfs import pack_folder
from ffrfs.mount.client.unmount import unmount_dead
from ffrfs.mount.kernel import dead_mount, kernel_mount, state
from ffrfs.mount.kernel.mount_table import MountEntry, mount_at, read_mount_table
from ffrfs.mount.kernel.process import Process
from tests.mount import probes
from tests.mount.checkable_files import read_through_deaths, write_checkable_file
from tests.mount.child import child
from tests.mount.command import (
    TIMEOUT_S,
    WAYS,
    Mount,
    check_nothing_left,
    children,
    ffrfs,
    mount_command_fails,
    start_ffrfs,
    wait_until,
)
from tests.mount.makers import ORDINARY_USER_ID, AskAsUser, MakeMount, PackTree, by_native
from tests.mount.process_status import descriptors

TREE = {"a": b"alpha" * 10_000}
PIDFD_GETFD = 438
KILLS = 3
# Errors for readers: of the dead mount, and of the place while nothing is mounted there.
DEATHS = {"ENOTCONN", "ECONNABORTED", "ECANCELED", "ENOENT"}
NOTICE = "removed a dead mount of .*tree.ffr, whose daemon .* has died"


def kill(tree: Mount) -> None:
    """Kill the daemon, and its worker, which would wait for the next daemon for seconds."""
    tree.kill()
    if tree.worker is not None:
        os.kill(tree.worker.pid, SIGKILL)
    tree.wait_for_daemon()
    assert tree.is_mounted


def mount_anew(tree: Mount) -> None:
    done = tree.mount()
    assert (done.status, done.out, done.err) == (0, "", "")
    assert tree.ask(probes.read, "a") == TREE["a"]
    assert mounts_at(tree.path) == 1


def mounts_at(place: Path) -> int:
    return sum(entry.mountpoint == str(place) for entry in read_mount_table())


@pytest.mark.promise("S50")
def test_mount_replaces_a_dead_mount(tree: Mount) -> None:
    tree.expect_log(NOTICE)
    dead = tree.process
    with child(probes.hold_open, tree / "a") as reader:  # it is in use
        assert reader.next() == b"a"
        kill(tree)
        mount_anew(tree)
        assert tree.process != dead
        with pytest.raises(OSError) as caught:
            reader.next()
        assert caught.value.errno == errno.ENOTCONN
        assert tree.ask(probes.read, "a") == TREE["a"]
    assert tree.log().count("removed a dead") == 1
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@pytest.mark.promise("S19", "S50")
@pytest.mark.parametrize("engine", WAYS, indirect=True)
def test_kills_under_readers_give_errors_until_the_next_mount(
    new_mount: MakeMount, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for serial in range(40):
        write_checkable_file(source, serial, 20_000 * (1 + serial % 10))
    pack_folder(source, tmp_path / "pack.ffr")
    tree = new_mount(tmp_path / "pack.ffr")
    tree.expect_log(NOTICE.replace("tree", "pack"))
    assert tree.mount().status == 0
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(child(read_through_deaths, tree.path, seed)) for seed in range(4)
        ]
        assert [reader.next() for reader in readers] == [{}] * 4
        for _ in range(KILLS):
            for reader in readers:
                reader.ask_next()
            tree.kill()  # its worker may live on for seconds
            assert tree.mount().status == 0
            for reader in readers:
                errors = reader.answer()
                assert errors
                assert errors.keys() <= DEATHS
            assert mounts_at(tree.path) == 1
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@pytest.mark.promise("S50")
def test_mount_replaces_a_dead_mount_that_hangs(root_user: None, tree: Mount) -> None:
    """The connection stays open, as with a thread of the dead daemon that the kernel blocks."""
    tree.expect_log(NOTICE)
    connection = copied_connection(tree)
    try:
        kill(tree)
        mount_anew(tree)
    finally:
        os.close(connection)


@by_native
@pytest.mark.promise("S50")
def test_other_mounts_do_not_wait_for_a_dead_mount_that_hangs(
    root_user: None, tree: Mount, new_mount: MakeMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_mount, "PROBE_TIMEOUT_S", TIMEOUT_S)
    connection = copied_connection(tree)
    kill(tree)
    with ThreadPoolExecutor(1) as pool:
        try:
            removed = pool.submit(unmount_dead, str(tree.path))
            wait_until(lambda: is_probed(os.getpid()), "it asks whether the mount is dead")
            assert new_mount(tree.pack).mount().status == 0
            assert not removed.done()
        finally:
            os.close(connection)
        assert "removed a dead mount" in (removed.result() or "")


def is_probed(pid: int) -> bool:
    for one in children(Process(pid, 0)):
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{one.pid}/comm").read_text() == "stat\n":
                return True
    return False


def copied_connection(tree: Mount) -> int:
    """Return a copy of the daemon's connection (pidfd_getfd(2)), which keeps it open."""
    assert tree.process is not None
    found = descriptors(tree.process.pid).items()
    (fd,) = (number for number, name in found if name == "/dev/fuse")
    process = os.pidfd_open(tree.process.pid)
    try:
        copied: int = ctypes.CDLL(None).syscall(PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    assert copied >= 0
    return copied


@by_native
@pytest.mark.promise("S50")
def test_log_of_the_dead_mount_is_continued(new_mount: MakeMount, pack_tree: PackTree) -> None:
    tree = new_mount(pack_tree(TREE))
    arguments = ("mount", *tree.engine_words, tree.pack, tree.path)
    assert ffrfs(*arguments).status == 0
    tree.find_daemon()
    assert tree.process is not None
    first = tree.process.pid

    def log() -> list[str]:
        found = state.find(str(tree.path))
        assert found is not None
        assert found[1].log_file is not None
        return Path(found[1].log_file).read_text().splitlines()

    wait_until(log, "it is logged")
    kill(tree)
    assert ffrfs(*arguments).status == 0
    tree.find_daemon()
    wait_until(lambda: len(log()) > 2, "the next one is logged")
    mounted, told, mounted_anew = log()
    assert f"[{first}] INFO" in mounted
    assert f"process {first}" in told
    assert "mounted at" in mounted_anew
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@by_native
def test_existing_mount_point_stays_after_a_dead_mount(
    mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    place = places / "there"
    place.mkdir()
    before = place.stat().st_ino
    tree = mount(pack_tree(TREE), mountpoint=place)
    tree.expect_log(NOTICE)
    kill(tree)
    mount_anew(tree)
    assert ffrfs("umount", place).status == 0
    assert place.stat().st_ino == before


@by_native
@pytest.mark.promise("S50")
def test_stacked_dead_mounts(root_user: None, tree: Mount, mount: MakeMount) -> None:
    tree.expect_log("removed 3 dead mounts, whose daemon")
    others = [mount(tree.pack) for _ in range(2)]
    for one in (tree, *others):
        kill(one)
    for one in others:
        bind(one.path, tree.path)
    assert mounts_at(tree.path) == 3
    mount_anew(tree)


def bind(source: Path, target: Path) -> None:
    arguments = (os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(1 << 12), None)
    assert ctypes.CDLL(None).mount(*arguments) == 0


@by_native
@pytest.mark.promise("S50")
def test_live_mount_below_a_dead_one_is_left(
    root_user: None, tree: Mount, mount: MakeMount, new_mount: MakeMount
) -> None:
    below = mount(tree.pack)
    kill(tree)
    bind(tree.path, below.path)
    again = new_mount(tree.pack, mountpoint=below.path)
    # The daemon in the state file lives, so nothing is examined.
    mount_command_fails(again.mount(), 32, f"ffrfs umount {below.path}")
    assert mounts_at(below.path) == 2
    lose_state(below)
    mount_command_fails(again.mount(), 32, f"ffrfs umount {below.path}")
    assert mounts_at(below.path) == 1
    assert below.ask(probes.read, "a") == TREE["a"]
    assert below.is_served


@by_native
@pytest.mark.promise("S50")
def test_dead_mount_without_a_state_is_replaced(tree: Mount) -> None:
    tree.expect_log("removed a dead mount of .*tree.ffr$")
    kill(tree)
    lose_state(tree)
    mount_anew(tree)


def lose_state(tree: Mount) -> None:
    found = state.find(str(tree.path))
    assert found is not None
    os.unlink(state._path(found[0], str(tree.path)))


@by_native
def test_mount_point_of_a_detached_mount_is_removed_by_the_next(
    root_user: None, tree: Mount, new_mount: MakeMount
) -> None:
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        subprocess.run(["umount", "--lazy", str(tree.path)], check=True, timeout=20)
        again = new_mount(tree.pack, mountpoint=tree.path)
        mount_anew(again)
        assert reader.next() == TREE["a"][1:]
    tree.wait_for_daemon()
    assert again.ask(probes.read, "a") == TREE["a"]
    assert ffrfs("umount", again.path).status == 0
    check_nothing_left(again)


@by_native
def test_state_of_a_mount_that_umount8_removed_is_replaced(root_user: None, tree: Mount) -> None:
    kill(tree)
    subprocess.run(["umount", str(tree.path)], check=True, timeout=20)
    mount_anew(tree)
    assert "removed" not in tree.log()
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@by_native
@pytest.mark.promise("S50")
def test_one_of_many_mounts_over_a_dead_mount_wins(tree: Mount) -> None:
    kill(tree)
    arguments = ("mount", *tree.engine_words, tree.pack, tree.path)
    commands = [start_ffrfs(*arguments) for _ in range(5)]
    try:
        for command in commands:
            command.communicate(timeout=60)
    finally:
        tree.find_daemon()
    assert sorted(command.returncode for command in commands) == [0, 32, 32, 32, 32]
    assert mounts_at(tree.path) == 1
    assert tree.ask(probes.read, "a") == TREE["a"]


def test_mount_that_hangs_is_not_taken_for_dead(
    tree: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = mount_at(str(tree.path))
    assert there is not None
    assert not dead_mount.is_dead(there)
    with tree.stopped(), monkeypatch.context() as patience:
        patience.setattr(dead_mount, "PROBE_TIMEOUT_S", 1.0)
        assert not dead_mount.is_dead(there)
    kill(tree)
    assert dead_mount.is_dead(there)


@pytest.fixture
def dead_mount_of_others(root_user: None, fuse: None, places: Path) -> MountEntry:
    """A FUSE mount of another type, whose connection is closed."""
    place = places / "other"
    place.mkdir()
    connection = os.open(kernel_mount.FUSE_DEVICE, os.O_RDWR)
    try:
        data = f"fd={connection},rootmode=40000,user_id=0,group_id=0"
        names = (b"other", os.fsencode(place), b"fuse.other")
        flags = ctypes.c_ulong(kernel_mount.MS_RDONLY)
        assert ctypes.CDLL(None).mount(*names, flags, data.encode()) == 0
    finally:
        os.close(connection)
    entry = mount_at(str(place))
    assert entry is not None
    return entry


@pytest.mark.promise("S17", "S50")
def test_dead_mount_of_another_type_is_left(
    dead_mount_of_others: MountEntry, pack_tree: PackTree
) -> None:
    place = dead_mount_of_others.mountpoint
    try:
        done = ffrfs("mount", pack_tree(TREE), place)
        mount_command_fails(done, 32, place, f"fusermount3 -u {place}")
        assert mount_at(place) == dead_mount_of_others
        assert not dead_mount.is_dead(dead_mount_of_others)
    finally:
        subprocess.run(["umount", place], check=True, timeout=20)


@by_native
@pytest.mark.promise("S51")
def test_umount_dead_removes_only_dead_mounts(tree: Mount, places: Path) -> None:
    for place in (tree.path, places / "absent", places):
        done = ffrfs("umount", "--dead", place)
        assert (done.status, done.out, done.err) == (0, "", "")
    assert tree.is_served
    assert tree.ask(probes.read, "a") == TREE["a"]
    kill(tree)
    done = ffrfs("umount", "--dead", tree.path)
    assert (done.status, done.out) == (0, "")
    (line,) = done.err.splitlines()
    assert "removed a dead mount" in line
    check_nothing_left(tree)


@by_native
@pytest.mark.promise("S50")
def test_ordinary_user_mounts_over_a_dead_mount(engine: str, as_ordinary_user: AskAsUser) -> None:
    seen = as_ordinary_user("ordinary_user.py", engine, "mounts_again")
    assert seen == {
        "known": True,
        "owner": ORDINARY_USER_ID,
        "mounts": 1,
        "bytes": "content",
        "left": ["ffrfs"],
    }


@by_native
def test_root_finds_dead_mounts_of_other_users(engine: str, as_ordinary_user: AskAsUser) -> None:
    seen = as_ordinary_user("ordinary_user.py", engine, "is_killed")
    # Even root may not look into the mount, and the kernel tells it nothing.
    assert seen == {"live": False, "taken": 1, "left": False}


@by_native
@pytest.mark.promise("S51")
def test_root_leaves_another_users_mount_where_its_own_has_died(
    engine: str, as_ordinary_user: AskAsUser
) -> None:
    seen = as_ordinary_user("ordinary_user.py", engine, "spares_others")
    assert seen == {"known": [True], "ps": [], "unmounted": [], "stays": True}
