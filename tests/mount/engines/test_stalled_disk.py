"""One read that the disk does not answer holds up nobody but its reader."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ffrfs.mount.kernel import kernel_mount
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import ENDED, TIMEOUT_S, Mount, ffrfs, kill_group, start_ffrfs, wait_until
from tests.mount.disk import Disk
from tests.mount.disk_files import ALL_NAMES, FILE_SIZE, SMALL_NAMES, content
from tests.mount.makers import MakeMount


@pytest.mark.promise("S14")
def test_other_reads_continue(stalling: Mount, disk: Disk) -> None:
    assert stalling.ask(probes.read, "cached") == content("cached")
    disk.stall("stalled")
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(probes.read, stalling / "stalled")),
            stack.enter_context(child(probes.read_ranges, stalling / "stalled", [(100_000, 10)])),
        ]
        for reader in readers:
            reader.ask_next()
        disk.wait_for("stalled")
        assert stalling.ask(probes.read, "cached") == content("cached")
        assert stalling.ask(probes.read, "cold") == content("cold")
        assert sorted(stalling.ask(probes.listdir, "")) == ALL_NAMES
        assert stalling.ask(probes.errno_of, "absent", "stat") == errno.ENOENT
        assert stalling.ask(probes.read, "colder") == content("colder")
        assert not any(reader.has_answered() for reader in readers)
        disk.go()
        assert readers[0].answer() == content("stalled")
        assert readers[1].answer() == [content("stalled")[100_000:100_010]]


@pytest.fixture
def fusectl(root_user: None) -> Iterator[None]:
    """The kernel's control files of FUSE connections; some systems do not mount them."""
    place = kernel_mount.CONNECTIONS
    with open_directory(os.path.dirname(place)) as directory:
        fcntl.flock(directory, fcntl.LOCK_EX)  # one test at a time, over all test processes
        if os.path.ismount(place):
            yield
            return
        subprocess.run(["mount", "-t", "fusectl", "fusectl", place], check=True, timeout=20)
        yield
        # Daemons of other tests may have a file there open.
        subprocess.run(["umount", "--lazy", place], check=True, timeout=20)


@contextmanager
def open_directory(path: str) -> Iterator[int]:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield directory
    finally:
        os.close(directory)


@pytest.mark.promise("S14")
def test_many_stalled_readers_leave_room_for_others(
    fusectl: None, stalling: Mount, disk: Disk
) -> None:
    reader_count = 30
    step = FILE_SIZE // reader_count
    disk.stall("stalled")
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(probes.read_ranges, stalling / "stalled", [(i * step, 1)]))
            for i in range(reader_count)
        ]
        for reader in readers:
            reader.ask_next()
        disk.wait_for("stalled")
        assert stalling.ask(probes.read, "cold") == content("cold")
        disk.go()
        for i, reader in enumerate(readers):
            assert reader.answer() == [content("stalled")[i * step : i * step + 1]]


def test_failed_read_is_an_error_and_can_be_retried(stalling: Mount, disk: Disk) -> None:
    disk.fail("stalled")
    stalling.expect_log("cannot read stalled: .*Input/output error")
    assert stalling.ask(probes.errno_of, "stalled", "read") == errno.EIO
    assert stalling.ask(probes.read, "cold") == content("cold")
    disk.go()
    assert stalling.ask(probes.read, "stalled") == content("stalled")


def test_signal_while_a_read_stalls_loses_nothing(stalling: Mount, disk: Disk) -> None:
    disk.stall("stalled")
    with child(probes.read, stalling / "stalled") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        stalling.expect_log("busy: detached")
        stalling.signal(signal.SIGTERM)
        wait_until(lambda: not stalling.is_mounted, "the mount is detached")
        disk.go()
        assert reader.answer() == content("stalled")
    stalling.wait_for_daemon()


def test_second_signal_while_a_read_stalls_fails_the_read(stalling: Mount, disk: Disk) -> None:
    disk.stall("stalled")
    with child(probes.errno_of, stalling / "stalled", "read") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        stalling.expect_log("busy: detached")
        stalling.expect_log("SIGTERM again")
        stalling.signal(signal.SIGTERM)
        wait_until(lambda: "busy: detached" in stalling.log(), "the first signal is obeyed")
        stalling.signal(signal.SIGTERM)
        assert reader.answer() in ENDED
        disk.go()
        stalling.wait_for_daemon()


def test_killed_reader_does_not_delay_others(stalling: Mount, disk: Disk) -> None:
    disk.stall("stalled")
    with child(probes.read, stalling / "stalled") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        os.kill(reader.pid, signal.SIGKILL)
        assert stalling.ask(probes.read, "cold") == content("cold")
        disk.go()
    assert stalling.ask(probes.read, "stalled") == content("stalled")


@pytest.mark.long
@pytest.mark.promise("S14")
def test_killed_lookup_does_not_delay_a_waiting_read(stalling: Mount, disk: Disk) -> None:
    """The lookup's request is withdrawn, and no thread may then wait for a next request."""
    with child(probes.kill_in_lookups, stalling / "") as killer:
        killer.next()
        for name in reversed(SMALL_NAMES):  # in order they would be read ahead
            disk.stall(name)
            with child(probes.read, stalling / name) as reader:
                reader.ask_next()
                disk.wait_for("stalled")
                killer.next()
                disk.go()  # from here on there are no other requests
                assert reader.answer() == content(name)


def test_command_that_is_killed_while_the_pack_opens_leaves_no_mount(
    new_mount: MakeMount, disk: Disk
) -> None:
    tree = new_mount(disk.pack)
    disk.stall_all()
    command = start_ffrfs(
        *("mount", *tree.engine_words, "--log-file", tree.log_file, tree.pack, tree.path)
    )
    try:
        disk.wait_for("stalled")
    finally:
        kill_group(command)
    disk.go()
    wait_until(lambda: not tree.processes(), "the daemon has noticed")
    assert not tree.is_mounted
    assert not tree.path.exists()


def test_reader_that_waits_for_the_disk_lets_other_threads_run(disk: Disk) -> None:
    disk.stall("stalled")
    record = ALL_NAMES.index("stalled")
    with child(probes.take_turns_beside_a_reader, disk.pack, record, 10) as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        assert reader.answer() is None  # no answer if a thread held the interpreter's lock
        reader.ask_next()
        disk.go()
        assert reader.answer() == content("stalled")


@pytest.mark.promise("S14", "S75")
def test_stalled_neighbours_delay_no_reader(new_mount: MakeMount, disk: Disk) -> None:
    """The mount, too, ends at once; its daemon ends when the disk has answered."""
    tree = new_mount(disk.pack)
    assert tree.mount("--read-around", "on").status == 0
    wait_until(lambda: tree.statistics()["pushed_limit_bytes"] > 0, "what may be pushed")
    assert sorted(tree.ask(probes.listdir, "")) == ALL_NAMES
    # The worker knows this limit, too, once it has obeyed the daemon's next message.
    assert ffrfs("warm", tree.path, tree.path / SMALL_NAMES[1]).status == 0
    disk.stall(SMALL_NAMES[15])
    assert tree.ask(probes.read, SMALL_NAMES[0]) == content(SMALL_NAMES[0])
    disk.wait_for("stalled")  # by no reader of that file
    for name in ("cached", *SMALL_NAMES[2:12], *SMALL_NAMES[18:]):
        assert tree.ask(probes.read, name) == content(name)
    command = start_ffrfs("umount", tree.path)
    try:
        wait_until(lambda: not tree.is_mounted, "the mount is gone")
        disk.go()
        assert command.wait(TIMEOUT_S) == 0
    finally:
        kill_group(command)
    tree.wait_for_daemon()
