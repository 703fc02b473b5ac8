"""A daemon that may open few files: it mounts and serves, or leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.mount.engines.worker_deaths import IN_ROW_MAX
from ffrfs.mount.kernel import state
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs, mount_command_fails, wait_until
from tests.mount.makers import MakeMount, PackTree, by_both, by_native

TREE = {"a": b"alpha" * 1000}


def mount_with(tree: Mount, limit: int, *options: str) -> int:
    done = tree.mount(*options, prefix=["prlimit", f"--nofile={limit}:{limit}"])
    if done.status != 0:
        mount_command_fails(done, done.status, "Too many open files; a process may have ")
        assert f"may have {limit} here: raise that limit (ulimit -n" in done.err
        assert "Group" not in done.err
        assert "Errno" not in done.err
    return done.status


@by_both
@pytest.mark.long
@pytest.mark.promise("S16")
def test_mount_with_any_limit_works_or_leaves_nothing(
    new_mount: MakeMount, pack_tree: PackTree
) -> None:
    """This tries every eighth limit, from a random first one."""
    tree = new_mount(pack_tree(TREE))
    statuses = []
    for limit in range(8 + random.randrange(8), 72, 8):
        statuses.append(mount_with(tree, limit))
        if statuses[-1] == 0:
            assert tree.ask(probes.read, "a") == TREE["a"]
            assert ffrfs("umount", tree.path).status == 0
            tree.wait_for_daemon()
            if statuses[-2:] == [0, 0]:
                break
        assert not tree.is_mounted, limit
        assert not tree.path.exists(), limit
        assert state.find(str(tree.path)) is None, limit
    assert statuses[0] != 0
    assert statuses[-1] == 0
    if tree.log_file.exists():
        tree.log_file.unlink()  # its warnings are about the limits that were too low


@by_native
@pytest.mark.promise("S16")
def test_packs_that_leave_too_few_descriptors_are_refused(
    new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path
) -> None:
    """The worker has opened all packs, but then lacks the descriptors to serve them."""
    pack = pack_tree(TREE).read_bytes()
    packs = [tmp_path / f"{number:02d}.ffr" for number in range(20)]
    for path in packs:
        path.write_bytes(pack)
    tree = new_mount(*packs)
    limit = 40  # two for each pack
    while (status := mount_with(tree, limit, "--on-conflict=first")) != 0:
        assert not tree.is_mounted, limit
        limit += 1
    assert status == 0
    assert tree.ask(probes.read, "a") == TREE["a"]


@contextlib.contextmanager
def no_descriptor_left(tree: Mount) -> Iterator[None]:
    """Let the daemon get no more descriptors, and let idle clients take its free ones."""
    assert tree.process is not None
    pid = tree.process.pid
    assert ffrfs("stats", tree.path).status == 0  # its loop runs, and all its files are open
    opened = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = max(opened) + 1
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, most))
    found = state.find(str(tree.path))
    assert found is not None
    directory, known = found
    with contextlib.ExitStack() as clients:

        def connect() -> bool:
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(state.socket_path(directory, known.mountpoint))
            return len(os.listdir(f"/proc/{pid}/fd")) == limit

        wait_until(connect, "all are taken")
        connect()  # this client gets none
        tree.expect_log(r"accept returned EMFILE \(Too many open files\)")
        wait_until(lambda: "accept returned EMFILE" in tree.log(), "it has none left")
        yield


def times_woken(tree: Mount) -> int:
    assert tree.process is not None
    status = Path(f"/proc/{tree.process.pid}/status").read_text()
    (count,) = re.findall(r"^voluntary_ctxt_switches:\s+(\d+)$", status, re.MULTILINE)
    return int(count)


@by_both
def test_daemon_without_descriptors_serves(mount: MakeMount, pack_tree: PackTree) -> None:
    """The daemon's work of every second needs no new descriptor."""
    tree = mount(pack_tree(TREE))
    with no_descriptor_left(tree):
        before = times_woken(tree)
        # Each second it tries to accept ten times, and looks twice whether its worker lives.
        wait_until(lambda: times_woken(tree) > before + 15, "its clock has struck")
        assert tree.ask(probes.read, "a") == TREE["a"]
    assert tree.is_mounted


@by_native
@pytest.mark.promise("S19")
def test_reader_waits_until_there_are_descriptors_for_a_worker(
    mount: MakeMount, pack_tree: PackTree
) -> None:
    """After so many deaths reads would fail, but not here; five attempts take eight seconds."""
    tree = mount(pack_tree(TREE))
    assert tree.process is not None
    assert tree.worker is not None
    tree.expect_log("killed by SIGKILL")
    tree.expect_log("Too many open files")
    assert ffrfs("stats", tree.path).status == 0  # its loop runs, and all its files are open
    limits = resource.prlimit(tree.process.pid, resource.RLIMIT_NOFILE)
    with child(probes.read, tree / "a") as reader:
        # The daemon keeps its descriptors, and gets no others.
        resource.prlimit(tree.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(tree.worker.pid, signal.SIGKILL)
        reader.ask_next()
        tries = "no other worker"
        wait_until(lambda: tree.log().count(tries) >= IN_ROW_MAX, "it tries again and again")
        assert not reader.has_answered()
        resource.prlimit(tree.process.pid, resource.RLIMIT_NOFILE, limits)
        assert reader.answer() == TREE["a"]


@by_both
def test_daemon_without_descriptors_unmounts(mount: MakeMount, pack_tree: PackTree) -> None:
    """The daemon has descriptors for this, whatever has taken the others."""
    tree = mount(pack_tree(TREE))
    with no_descriptor_left(tree):
        assert ffrfs("umount", tree.path).status == 0
        tree.wait_for_daemon()
    assert not tree.path.exists()


@by_both
@pytest.mark.promise("S38")
def test_allow_missing_does_not_skip_packs_for_lack_of_descriptors(
    new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path
) -> None:
    pack = pack_tree(TREE).read_bytes()
    packs = [tmp_path / f"{number:02d}.ffr" for number in range(64)]
    for path in packs:
        path.write_bytes(pack)
    tree = new_mount(*packs)
    done = tree.mount(
        "--allow-missing",
        "--on-conflict=first",
        prefix=["prlimit", "--nofile=48:48"],
    )
    mount_command_fails(done, done.status, "Too many open files; a process may have 48 here")
    assert done.status != 0
    assert not tree.is_mounted
    assert not tree.path.exists()


@by_native
@pytest.mark.promise("S19")
@pytest.mark.parametrize("limit", [48, 64, 70])
def test_daemon_with_few_descriptors_is_replaced(
    new_mount: MakeMount, pack_tree: PackTree, limit: int
) -> None:
    tree = new_mount(pack_tree(TREE))
    assert mount_with(tree, limit) == 0
    tree.expect_log("the daemon before this one")
    tree.replace_daemon()
    assert ffrfs("restart", tree.path).status == 0
    assert tree.statistics()["daemon_starts"] == 2
    assert tree.ask(probes.read, "a") == TREE["a"]
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
