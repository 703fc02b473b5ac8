"""A daemon that is killed while it stores bytes in the kernel: one of its threads cannot end."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from ffrfs.mount.kernel import dead_mount, kernel_mount
from ffrfs.mount.kernel.mount_table import mount_at
from tests.mount import probes, stuck_probes
from tests.mount.child import child
from tests.mount.command import Mount, children, ffrfs, is_guardian, wait_until
from tests.mount.waiting import files_in_calls, states

pytestmark = pytest.mark.promise("S19")
TREE = {name: os.urandom(50_000) for name in "ab"}
OPTIONS = ("--read-around", "off")


def stores(daemon: int) -> bool:
    return "D" in states(daemon) and "/dev/fuse" in files_in_calls(daemon)


@pytest.mark.parametrize("engine", ["pyfuse3"], indirect=True)
def test_stuck_thread_does_not_keep_a_reader_waiting(tree: Mount, root_user: None) -> None:
    assert tree.process is not None
    assert tree.ask(probes.listdir, "") == ["a", "b"]
    daemon = tree.process.pid
    with (
        child(stuck_probes.hint_in_turn, str(tree.path), [b"/a", b"/b"]) as hints,
        child(stuck_probes.hold_loop, daemon) as holder,
        child(stuck_probes.open_and_read, tree / "b") as reader,
    ):
        assert hints.next() == b"/a"
        wait_until(lambda: tree.statistics()["prefetch"]["pushed"] == 1, "a is pushed")
        reader.next()
        holder.next()
        reader.ask_next()
        # Its READ locks the pages, and nobody answers.
        reader.wait_in_call(str(tree / "b"))
        wait_until(lambda: "D" in states(reader.pid), "the reader waits")
        assert hints.next() == b"/b"
        wait_until(lambda: stores(daemon), "a thread waits for the pages")
        os.kill(daemon, signal.SIGKILL)
        holder.kill()
        # The bytes, if the thread has stored the last ones before the reader looks again.
        assert reader.answer() in (errno.ENOTCONN, errno.ECONNABORTED, TREE["b"])
    tree.wait_for_daemon()


@pytest.mark.parametrize("engine", ["pyfuse3"], indirect=True)
def test_guardian_ends_with_the_daemon(tree: Mount) -> None:
    assert tree.process is not None
    (guardian,) = filter(is_guardian, children(tree.process))
    assert ffrfs("umount", tree.path).status == 0
    assert guardian.wait(20)


def test_aborting_a_connection_leaves_the_mount(tree: Mount, root_user: None) -> None:
    assert tree.process is not None
    there = mount_at(str(tree.path))
    assert there is not None
    process = os.pidfd_open(tree.process.pid)
    with tree.stopped():
        kernel_mount.abort_of(process, there)
        assert mount_at(str(tree.path)) == there
        assert dead_mount.is_dead(there)
    os.close(process)
    tree.expect_log("the connection was aborted; the mount is removed")
    tree.wait_for_daemon()
    assert mount_at(str(tree.path)) is None
