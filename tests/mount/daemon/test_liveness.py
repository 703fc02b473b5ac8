"""A worker that does not answer is replaced, but not one that a disk blocks.

Each test takes the 15 seconds that a worker has to answer.
"""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs, stop, wait_until
from tests.mount.disk import Disk
from tests.mount.disk_files import content
from tests.mount.makers import MakeMount, PackTree

PATIENCE_S = 15.0

pytestmark = pytest.mark.promise("S19")


def test_stopped_worker_is_replaced(mount: MakeMount, pack_tree: PackTree) -> None:
    tree: Mount = mount(pack_tree({"a": b"alpha" * 1000}))
    tree.expect_log("the worker answers nothing; it is killed|killed by SIGKILL")
    assert tree.worker is not None
    stop(tree.worker.pid)
    with child(probes.read, tree / "a") as reader:
        reader.ask_next()
        assert reader.answer() == b"alpha" * 1000
    wait_until(lambda: tree.statistics()["worker"]["starts"] == 1, "another one serves")
    assert tree.statistics()["worker"]["causes"] == {"no answer": 1}


@pytest.mark.parametrize("what", ["detached", "covered"])
def test_stopped_worker_of_a_detached_or_covered_mount_is_replaced(
    root_user: None, mount: MakeMount, pack_tree: PackTree, what: str
) -> None:
    whole = b"alpha" * 1_000_000
    tree: Mount = mount(pack_tree({"a": whole}))
    tree.expect_log("the worker answers nothing; it is killed|killed by SIGKILL")
    assert tree.worker is not None
    with child(probes.hold_open, tree / "a") as reader:
        assert reader.next() == whole[:1]
        if what == "detached":
            assert ffrfs("umount", tree.path).status == 0
        else:
            subprocess.run(["mount", "-t", "tmpfs", "none", tree.path], check=True, timeout=60)
        stop(tree.worker.pid)
        assert reader.next() == whole[1:]


@pytest.mark.parametrize("is_detached", [False, True])
def test_worker_blocked_by_a_disk_is_kept(stalling: Mount, disk: Disk, is_detached: bool) -> None:
    disk.stall("stalled")
    with child(probes.read, stalling / "stalled") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        if is_detached:
            assert "busy" in ffrfs("umount", stalling.path).err
        time.sleep(PATIENCE_S + 5)
        assert not reader.has_answered()
        disk.go()
        assert reader.answer() == content("stalled")
    assert "is killed" not in stalling.log()
