"""Commands in namespaces of their own, as in containers, which share the runtime directory."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ffrfs.mount.kernel import state
from tests.mount import probes
from tests.mount.command import Done, Mount, check_nothing_left, ffrfs, wait_until
from tests.own_mounts import with_copy_of, with_own_mounts

TREE = {"a": b"alpha"}
# With a PID namespace, too: a command in it does not see that the daemon lives.
CONTAINER = ("--pid", "--fork", "--mount-proc")
FFRFS = (sys.executable, "-P", "-m", "ffrfs")


@pytest.fixture
def engine(fuse: None) -> str:
    """One engine: commands see the same of the daemon with both."""
    return "native"


def run(command: Sequence[str]) -> Done:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def inside(*words: str | Path, options: Sequence[str] = ()) -> Done:
    """Run the command in a namespace of its own, which does not have the mount."""
    return run(with_own_mounts(*FFRFS, *map(str, words), options=options))


def check_serves(tree: Mount) -> None:
    assert tree.is_mounted
    assert tree.ask(probes.read, "a") == TREE["a"]
    assert tree.statistics()["daemon_pid"] > 0


@pytest.mark.promise("S51")
def test_umount_in_a_container_leaves_the_mount(root_user: None, tree: Mount) -> None:
    done = inside("umount", "--dead", tree.path, options=CONTAINER)
    assert (done.status, done.err) == (0, "")
    done = inside("umount", tree.path, options=CONTAINER)
    assert done.status == 1
    assert f"{tree.path}: mounted in another PID namespace" in done.err
    check_serves(tree)


@pytest.mark.parametrize("options", [(), CONTAINER], ids=["mounts", "processes too"])
def test_mount_in_a_container_leaves_the_mount(
    root_user: None, tree: Mount, options: Sequence[str]
) -> None:
    for words in (("mount",), ("mount", "--check")):
        done = inside(*words, tree.pack, tree.path, options=options)
        assert done.status == 32
        (line,) = done.err.splitlines()
        assert line.startswith(f"ffrfs: {tree.path}: already mounted in another ")
        assert "choose another mount point; " in line
    check_serves(tree)


def test_check_in_a_container_queries_the_daemon(root_user: None, tree: Mount) -> None:
    def is_live() -> bool:  # on a busy machine an answer may be late
        script = 'exec unshare --pid --fork --mount-proc "$@"'
        done = run(with_copy_of(tree.path, script, *FFRFS, "check", str(tree.path)))
        assert "died" not in done.out
        return done.status == 0

    wait_until(is_live, "it answers")


def test_umount_of_a_copy_in_a_container_leaves_the_mount(root_user: None, tree: Mount) -> None:
    script = 'exec unshare --pid --fork --mount-proc "$@"'
    done = run(with_copy_of(tree.path, script, *FFRFS, "umount", str(tree.path)))
    assert (done.status, done.err) == (0, "")
    check_serves(tree)
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@pytest.mark.promise("S18")
def test_signal_unmounts_a_mount_recorded_for_another_daemon(tree: Mount) -> None:
    """Daemons of earlier versions did this in another mount namespace."""
    found = state.find(str(tree.path))
    assert found is not None
    directory, known = found
    other = replace(known, began_s=1.0)
    state.save(directory, other)
    tree.signal(signal.SIGTERM)
    tree.wait_for_daemon()
    assert not tree.is_mounted
    assert state.load(directory, str(tree.path)) == other
    state.withdraw(directory, other)
