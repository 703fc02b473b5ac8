"""Packs on a disk that fails, returns too few bytes or dies: readers get an error for bytes that
the disk does not give, but no wrong byte, and all works again when the disk does.
"""

from __future__ import annotations

import contextlib
import errno
import time

import pytest

from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import ENGINES, Mount, check_nothing_left, ffrfs, wait_until
from tests.mount.disk import Disk
from tests.mount.disk_files import ALL_NAMES, FILE_SIZE, content
from tests.mount.makers import MakeMount
from tests.mount.process_status import descriptors
from tests.mount.trouble_reader import read_through_trouble

SERVED_BY = ENGINES
NAMES = ("cold", "stalled", "colder")
READERS = 3
TROUBLE_S = 1.0
UMOUNT_MAX_S = 15.0  # time to start an interpreter on a busy machine; nothing waits for the disk
# Readers get the errors of the disk.
TROUBLES = {errno.EIO, errno.ESTALE}


def check_trouble(tree: Mount, disk: Disk, *, everywhere: bool) -> None:
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(child(read_through_trouble, tree / "", TROUBLE_S, seed))
            for seed in range(READERS)
        ]
        for reader in readers:
            assert reader.next() == "ready"
        disk.make_trouble(everywhere=everywhere)
        for reader in readers:
            reader.ask_next()
        answers = [reader.answer() for reader in readers]
    print(answers)
    disk.go()
    for right, errors, wrong, longest_s in answers:
        assert wrong == []
        assert errors <= TROUBLES
        assert right > 0
        assert longest_s < 20
    assert set.union(*(errors for _, errors, _, _ in answers))  # there was trouble
    assert tree.is_served
    assert tree.ask(probes.read_all_in, "", ALL_NAMES) == [content(name) for name in ALL_NAMES]
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@pytest.mark.long
@pytest.mark.promise("S12", "S14")
def test_records_that_fail_at_random(stalling: Mount, disk: Disk) -> None:
    stalling.expect_log("cannot read .*(Input/output error|Stale file handle)")
    check_trouble(stalling, disk, everywhere=False)


@pytest.mark.long
@pytest.mark.promise("S12", "S40")
def test_index_and_records_that_fail_at_random(stalling: Mount, disk: Disk) -> None:
    stalling.expect_log("Input/output error|Stale file handle|cannot read")
    check_trouble(stalling, disk, everywhere=True)


def test_short_reads_are_continued(stalling: Mount, disk: Disk) -> None:
    disk.come_short()
    contents = [content(name) for name in ALL_NAMES]
    assert stalling.ask(probes.read_all_in, "", ALL_NAMES) == contents


@pytest.mark.promise("S12", "S14", "S18")
def test_dead_disk_leaves_a_live_mount(stalling: Mount, disk: Disk) -> None:
    assert sorted(stalling.ask(probes.listdir, "")) == ALL_NAMES
    disk.die()
    stalling.expect_log("cannot read cold: ")
    assert stalling.ask(probes.errno_of, "cold", "read") in (errno.ENOTCONN, errno.EIO)
    # Only the disk is dead, not the mount.
    assert stalling.ask(probes.statvfs, "").f_files > 0
    (told,) = [line for line in ffrfs("ps").out.splitlines() if str(stalling.path) in line]
    assert told.startswith("live ")
    began_s = time.monotonic()
    assert ffrfs("umount", stalling.path).status == 0
    assert time.monotonic() - began_s < UMOUNT_MAX_S
    check_nothing_left(stalling)


def has_open(pid: int, path: str) -> bool:
    """Return whether the process has the file open, without a request to the file system."""
    return path in descriptors(pid).values()


@pytest.mark.promise("S18")
def test_umount_returns_in_time_while_the_disk_stalls(stalling: Mount, disk: Disk) -> None:
    disk.stall_all()
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(child(probes.read_ranges, stalling / name, [(0, FILE_SIZE)]))
            for name in NAMES
        ]
        for reader in readers:
            reader.ask_next()
        for name, reader in zip(NAMES, readers, strict=True):
            wait_until(lambda one=(reader.pid, stalling / name): has_open(*one), "it is open")
        disk.wait_for("stalled")
        began_s = time.monotonic()
        done = ffrfs("umount", stalling.path)
        assert (done.status, time.monotonic() - began_s < UMOUNT_MAX_S) == (0, True), done
        assert not stalling.is_mounted
        disk.go()
        for name, reader in zip(NAMES, readers, strict=True):
            assert reader.answer() == [content(name)]
    stalling.wait_for_daemon()


@pytest.mark.long
@pytest.mark.promise("S16")
def test_disk_that_fails_while_a_pack_is_opened(new_mount: MakeMount, disk: Disk) -> None:
    """The pack is mounted, or refused with a line that names it, but never half mounted."""
    disk.make_trouble(everywhere=True)
    tree = new_mount(disk.pack)
    for _ in range(2):
        done = tree.mount()
        if done.status != 0:
            assert str(disk.pack) in done.err
            assert len(done.err.splitlines()) == 1, done.err
            assert not tree.path.exists()
            wait_until(lambda: not tree.processes(), "the daemon has ended")
        else:  # it was mounted after all, perhaps without its index
            assert ffrfs("umount", tree.path).status == 0
            tree.wait_for_daemon()
            if "ignored until then" in tree.log():
                tree.expect_log("ignored until then")
    disk.go()
    assert tree.mount().status == 0
    assert tree.ask(probes.read_all_in, "", ALL_NAMES) == [content(name) for name in ALL_NAMES]
