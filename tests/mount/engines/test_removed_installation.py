"""A mount whose installation of ffrfs is removed or moved away while it is served."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from tests.mount import probes
from tests.mount.command import ENGINES, Mount, ffrfs, wait_until
from tests.mount.installation import Installation
from tests.mount.makers import MakeMount, by_native

SERVED_BY = ENGINES
TREE = {"file": b"content", "other": b"other content"}


@pytest.fixture
def orphan(new_mount: MakeMount, pack: Path, engine: str, tmp_path: Path) -> Mount:
    """A mount whose daemon has no file of ffrfs any more."""
    installation = Installation(tmp_path)
    installation.add("removed", {})
    installation.install("removed")
    tree = new_mount(pack)
    installation.run(
        *("mount", "--read-around", "off", "--log-file", tree.log_file),
        *(*tree.engine_words, "--", pack, tree.path),
    )
    tree.find_daemon()
    tree.statistics()  # a daemon that answers has imported its modules
    installation.remove()
    return tree


def check_unmounts(tree: Mount) -> None:
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()


def test_mount_of_a_removed_installation_keeps_serving(orphan: Mount) -> None:
    assert orphan.ask(probes.contents, "") == TREE
    check_unmounts(orphan)


@pytest.mark.promise("S19")
@by_native
def test_reads_fail_after_the_worker_has_died(orphan: Mount) -> None:
    for text in ("killed by SIGKILL", "no other worker", "no worker can begin"):
        orphan.expect_log(text)
    os.kill(orphan.statistics()["worker_pid"], signal.SIGKILL)
    assert orphan.ask(probes.errno_of, "file", "read") == errno.EIO
    check_unmounts(orphan)


@pytest.mark.promise("S19")
@by_native
def test_mount_keeps_serving_without_a_guardian(orphan: Mount) -> None:
    orphan.expect_log("the guardian has died")
    orphan.expect_log("no guardian: if this daemon dies, the mount ends: ")
    assert orphan.guardian is not None
    os.kill(orphan.guardian.pid, signal.SIGKILL)
    wait_until(lambda: "no guardian" in orphan.log(), "it cannot be replaced")
    assert orphan.ask(probes.contents, "") == TREE
    check_unmounts(orphan)
