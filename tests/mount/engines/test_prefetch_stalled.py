"""Hints for a disk that does not answer, or a mount that ends: nobody waits without need."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import (
    ENDED,
    TIMEOUT_S,
    Mount,
    check_nothing_left,
    ffrfs,
    kill_group,
    start_ffrfs,
    wait_until,
)
from tests.mount.disk import Disk
from tests.mount.disk_files import ALL_NAMES, SMALL_NAMES, content
from tests.mount.hinted_files import FILES, figures, hinted, shuffled, texts, write_hinted_files
from tests.mount.makers import MakeMount, by_both, by_native
from tests.page_cache import forget_pages

ROUNDS = 2
OTHERS = [name for name in ALL_NAMES if name != "stalled"]


def roots(names: list[str]) -> list[bytes]:
    """Hints for files in the root."""
    return [f"/{name}".encode() for name in names]


def check_others_can_be_read(tree: Mount, names: list[str]) -> None:
    contents = [content(name) for name in names]
    assert tree.ask(probes.read_all_in, "", names) == contents


# Mounting lists the root, so the kernel knows all of these inodes.


@by_both
@pytest.mark.promise("S14", "S32")
def test_stalled_record_delays_no_other_hinted_record(stalling: Mount, disk: Disk) -> None:
    disk.stall("stalled")
    with hinted(stalling, roots(ALL_NAMES)):
        disk.wait_for("stalled")
        check_others_can_be_read(stalling, OTHERS)
        with child(probes.read, stalling / "stalled") as reader:
            reader.ask_next()
            reader.wait_in_call(stalling / "stalled")
            assert not reader.has_answered()
            disk.go()
            assert reader.answer() == content("stalled")


@by_both
@pytest.mark.promise("S14", "S35")
def test_stalled_record_delays_no_other_record_read_in_order(stalling: Mount, disk: Disk) -> None:
    disk.stall("small12")
    check_others_can_be_read(stalling, SMALL_NAMES[:9])
    disk.wait_for("stalled")  # it is read ahead
    # All files but those that share a page of the disk with it.
    check_others_can_be_read(stalling, SMALL_NAMES[9:11] + SMALL_NAMES[14:])
    disk.go()
    assert stalling.ask(probes.read, "small12") == content("small12")


@by_both
@pytest.mark.promise("S14", "S32")
def test_stalled_records_leave_room_for_other_hints(stalling: Mount, disk: Disk) -> None:
    """This holds however many clients hint the record that stalls."""
    disk.stall("stalled")
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(hinted(stalling, roots(["stalled", "stalled"])))
        disk.wait_for("stalled")
        with hinted(stalling, roots(["cold", "colder"])):
            wait_until(lambda: figures(stalling)["prefetch.fetched"] == 2, "both were read ahead")
        check_others_can_be_read(stalling, OTHERS)
        disk.go()
    assert stalling.ask(probes.read, "stalled") == content("stalled")


@by_both
@pytest.mark.promise("S11", "S32")
def test_read_error_of_a_hinted_record_reaches_its_readers(stalling: Mount, disk: Disk) -> None:
    """The error is for a read, not for the hint; and the read can be tried again."""
    disk.fail("stalled")
    with hinted(stalling, roots(ALL_NAMES)):
        wait_until(lambda: figures(stalling)["prefetch.hinted"] == len(ALL_NAMES), "all are known")
        check_others_can_be_read(stalling, OTHERS)
        stalling.expect_log("cannot read stalled: .*Input/output error")
        assert stalling.ask(probes.errno_of, "stalled", "read") == errno.EIO
        disk.go()
        assert stalling.ask(probes.read, "stalled") == content("stalled")


@by_both
@pytest.mark.promise("S11", "S32")
def test_read_error_of_a_record_spares_readers_of_its_neighbours(
    stalling: Mount, disk: Disk
) -> None:
    """Readers of neighbours may be waiting for the same batch when it fails."""
    stalling.expect_log("cannot read small11: .*Input/output error")
    disk.stall("small11")
    with hinted(stalling, roots(SMALL_NAMES)), ExitStack() as stack:
        disk.wait_for("stalled")
        names = SMALL_NAMES[9:14]
        readers = {
            name: stack.enter_context(child(probes.errno_of, stalling / name, "read"))
            for name in names
        }
        for reader in readers.values():
            reader.ask_next()
        for name, reader in readers.items():
            reader.wait_in_call(stalling / name)
        disk.refuse()
        found = {name: reader.answer() for name, reader in readers.items()}
        assert found.pop("small11") == errno.EIO
        assert set(found.values()) == {0}
        wait_until(lambda: "cannot read small11" in stalling.log(), "the log says so")
        # The kernel may repeat a failed READ for a reader, but no READ may fail at all.
        assert re.findall(r"cannot read (\w+):", stalling.log()) == ["small11"]
        disk.go()
    check_others_can_be_read(stalling, SMALL_NAMES)


@pytest.mark.promise("S18", "S32")
@pytest.mark.parametrize("by", ["ffrfs umount", "signal"])
def test_unmounting_while_a_hinted_record_stalls(stalling: Mount, disk: Disk, by: str) -> None:
    """Nobody reads, so the mount ends at once; the daemon ends when the disk has answered."""
    disk.stall("stalled")
    with hinted(stalling, roots(["stalled", *OTHERS])):
        disk.wait_for("stalled")
        command = None if by == "signal" else start_ffrfs("umount", stalling.path)
        if command is None:
            stalling.signal(signal.SIGTERM)
        try:
            wait_until(lambda: not stalling.is_mounted, "the mount is gone")
            disk.go()
            assert command is None or command.wait(TIMEOUT_S) == 0
        finally:
            if command is not None:
                kill_group(command)
    check_nothing_left(stalling)


@pytest.mark.promise("S18", "S32")
def test_unmounting_while_hints_are_followed(new_mount: MakeMount, tmp_path: Path) -> None:
    pack = write_hinted_files(tmp_path)
    tree = new_mount(pack)
    for _ in range(ROUNDS):
        assert tree.mount().status == 0
        forget_pages(pack)
        tree.ask(probes.sizes, "d")
        with ExitStack() as stack:
            for client in range(4):
                stack.enter_context(hinted(tree, texts(shuffled(client))))
            wait_until(lambda: figures(tree)["prefetch.pushed"] > 0, "they are pushed")
            assert ffrfs("umount", tree.path).status == 0
        check_nothing_left(tree)


@pytest.mark.promise("S18", "S32", "S33")
def test_mount_that_is_detached_while_busy_ends_with_its_last_file(
    mount: MakeMount, tmp_path: Path
) -> None:
    """The mount does not wait for its last client."""
    tree = mount(write_hinted_files(tmp_path))
    forget_pages(tree.pack)
    name = "0007"
    with hinted(tree, texts(shuffled(1))), hinted(tree, texts(shuffled(2))):
        with child(probes.hold_open, tree / f"d/{name}") as holder:
            assert holder.next() == FILES[name][:1]
            assert "busy" in ffrfs("umount", tree.path).err
            assert not tree.is_mounted
            assert tree.is_served
            assert holder.next() == FILES[name][1:]
        check_nothing_left(tree)


# The daemon or its worker is killed.


def end_of_readers(tree: Mount, kill: Callable[[], None], delay_s: float) -> set[int]:
    """Kill a process while bytes are pushed and read; return the errnos that readers get."""
    with ExitStack() as stack:
        readers = []
        for serial in range(2):
            reader = child(probes.read_directly_until_it_fails, tree / "d", FILES, serial)
            readers.append(stack.enter_context(reader))
            assert readers[-1].next() == "going"
            readers[-1].ask_next()
        for client in range(4):
            stack.enter_context(hinted(tree, texts(shuffled(client))))
        wait_until(lambda: figures(tree)["prefetch.pushed"] > 0, "they are pushed")
        time.sleep(delay_s)
        kill()
        return {reader.answer() for reader in readers}


def kill_worker(tree: Mount) -> None:
    assert tree.worker is not None
    os.kill(tree.worker.pid, signal.SIGKILL)


def wait_for_more(count: Callable[[], int], before: int) -> None:
    wait_until(lambda: count() > before, "it goes on")


@pytest.mark.promise("S19")
@by_native
def test_worker_that_is_replaced_while_it_pushes(new_mount: MakeMount, tmp_path: Path) -> None:
    pack = write_hinted_files(tmp_path)
    tree = new_mount(pack)
    assert tree.mount().status == 0
    tree.expect_log("the worker was killed by SIGKILL")
    tree.ask(probes.sizes, "d")
    with child(probes.read_directly_until_it_fails, tree / "d", FILES, 0) as reader:
        assert reader.next() == "going"
        reader.ask_next()
        for serial in range(ROUNDS):
            forget_pages(pack)
            before = figures(tree)["prefetch.pushed"]
            with hinted(tree, texts(shuffled(serial))):
                wait_for_more(lambda: figures(tree)["prefetch.pushed"], before)
                time.sleep(random.Random(serial).random() / 100)
                os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
            # Another worker serves.
            wait_for_more(lambda: tree.requests_now()["read"], tree.requests_now()["read"] + 20)
        assert not reader.has_answered()
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@pytest.mark.promise("S19")
@pytest.mark.parametrize("engine", ["uring"], indirect=True)
def test_worker_that_is_killed_while_it_pushes(new_mount: MakeMount, tmp_path: Path) -> None:
    pack = write_hinted_files(tmp_path)
    tree = new_mount(pack)
    tree.expect_log("the worker was killed by SIGKILL")
    for serial in range(ROUNDS):
        assert tree.mount().status == 0
        forget_pages(pack)
        tree.ask(probes.sizes, "d")
        delay_s = random.Random(serial).random() / 100
        errors = end_of_readers(tree, partial(kill_worker, tree), delay_s)
        assert errors <= {*ENDED, errno.ENOENT}
        tree.wait_until_anew(2 * serial + 1)
        assert ffrfs("umount", tree.path).status == 0
        check_nothing_left(tree)


@pytest.mark.promise("S19")
def test_daemon_that_is_killed_while_bytes_are_pushed(new_mount: MakeMount, tmp_path: Path) -> None:
    pack = write_hinted_files(tmp_path)
    tree = new_mount(pack)
    for serial in range(ROUNDS):
        assert tree.mount().status == 0
        forget_pages(pack)
        tree.ask(probes.sizes, "d")
        delay_s = random.Random(serial).random() / 100
        assert end_of_readers(tree, tree.kill, delay_s) <= set(ENDED)
        tree.wait_for_daemon()
        assert tree.ask(probes.errno_of, "d/never asked for", "stat") in ENDED
        done = ffrfs("umount", tree.path)
        assert (done.status, done.err) == (0, "")
        check_nothing_left(tree)
