"""How a mount begins and ends: signals, busy mounts, dead daemons, the foreground."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.daemon.announcement import look_into
from ffrfs.mount.kernel import control_socket, kernel_mount, runtime_lock, state
from ffrfs.mount.kernel.mount_table import mount_at
from tests.interpreter import python
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import (
    ENDED,
    ENGINES,
    TIMEOUT_S,
    WAYS,
    Mount,
    check_nothing_left,
    ffrfs,
    kill_group,
    mount_command_fails,
    start_ffrfs,
    wait_until,
)
from tests.mount.makers import MakeMount, PackTree, by_all_ways, by_both
from tests.own_mounts import with_copy_of, with_own_mounts

TREE: dict[str, Any] = {"a": b"alpha" * 10_000, "d": {"b": b"beta"}}


@pytest.mark.promise("S18", "S49")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_unmounts(tree: Mount, number: signal.Signals) -> None:
    assert tree.ask(probes.read, "a") == TREE["a"]
    tree.signal(number)
    check_nothing_left(tree)
    assert f"{number.name}: unmounting" in tree.log()


@by_all_ways
def test_umount_returns_when_the_daemon_has_ended(tree: Mount) -> None:
    done = ffrfs("umount", tree.path)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert not tree.is_served
    check_nothing_left(tree)
    mount_command_fails(ffrfs("umount", tree.path), 1, str(tree.path), "not mounted")


@by_all_ways
def test_system_umount_ends_the_daemon_too(root_user: None, tree: Mount) -> None:
    subprocess.run(["umount", str(tree.path)], check=True, timeout=20)
    check_nothing_left(tree)


@pytest.mark.parametrize("command", ["restart", "stats"])
def test_command_during_an_unmount_names_it_in_the_error(tree: Mount, command: str) -> None:
    found = state.find(str(tree.path))
    assert found is not None
    path = state.socket_path(found[0], str(tree.path))

    def is_closed() -> bool:
        try:
            control_socket.connect(path, TIMEOUT_S).close()
        except ConnectionRefusedError:
            return True
        return False

    with runtime_lock.locked(found[0]):  # the daemon waits for the lock before it forgets the mount
        kernel_mount.detach(str(tree.path))
        wait_until(is_closed, "the daemon has closed its socket")
        tree.signal(signal.SIGSTOP)  # it would not wait for the lock for long
        mount_command_fails(ffrfs(command, tree.path), 1, "it has been unmounted, or is just about")
    tree.signal(signal.SIGCONT)
    check_nothing_left(tree)


@by_all_ways
@pytest.mark.promise("S18")
@pytest.mark.parametrize("by", ["signal", "ffrfs umount"])
def test_busy_mount_is_detached_and_served_until_its_file_closes(tree: Mount, by: str) -> None:
    with child(probes.hold_open, tree / "a") as reader:
        assert reader.next() == b"a"
        if by == "signal":
            tree.expect_log("busy: detached")
            tree.signal(signal.SIGTERM)
        else:
            done = ffrfs("umount", tree.path)
            assert done.status == 0
            assert "busy" in done.err
            assert len(done.err.splitlines()) == 1
        wait_until(lambda: not tree.path.exists(), "the mount is gone")
        assert not tree.is_mounted
        assert tree.is_served
        assert reader.next() == b"alpha"[1:] + TREE["a"][5:]
        assert tree.is_served
    check_nothing_left(tree)


def test_mount_point_is_reusable_while_the_old_mount_lingers(
    tree: Mount, new_mount: MakeMount
) -> None:
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        ffrfs("umount", tree.path)
        mount_command_fails(ffrfs("stats", tree.path), 1, "not mounted")
        again = new_mount(tree.pack, mountpoint=tree.path)
        assert again.mount().status == 0
        assert again.process not in (None, tree.process)
        assert again.process.pid == again.statistics()["daemon_pid"]
        assert again.ask(probes.read, "d/b") == b"beta"
        assert reader.next() == TREE["a"][1:]
    tree.wait_for_daemon()
    assert again.is_mounted
    assert again.process.pid == again.statistics()["daemon_pid"]
    assert again.ask(probes.read, "d/b") == b"beta"


@by_all_ways
def test_second_signal_ends_the_daemon_at_once(tree: Mount) -> None:
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        tree.expect_log("busy: detached")
        tree.expect_log("SIGTERM again")
        tree.signal(signal.SIGTERM)
        wait_until(lambda: "busy: detached" in tree.log(), "the first signal is obeyed")
        tree.signal(signal.SIGTERM)
        check_nothing_left(tree)


@by_all_ways
@pytest.mark.promise("S19")
def test_killed_daemon_gives_errors_and_umount_cleans_up(tree: Mount) -> None:
    # Direct reads, because the kernel's cache may outlive the daemon.
    contents = {"b": TREE["d"]["b"]}
    with child(probes.read_directly_until_it_fails, tree / "d", contents, 0) as reader:
        assert reader.next() == "going"
        reader.ask_next()
        tree.kill()
        tree.wait_for_daemon()
        assert reader.answer() in ENDED
    assert tree.is_mounted
    # With rings a request is aborted if it comes while they are taken down.
    wait_until(
        lambda: tree.ask(probes.errno_of, "a", "read") == errno.ENOTCONN, "the connection has ended"
    )
    done = ffrfs("umount", tree.path)
    assert (done.status, done.err) == (0, "")
    check_nothing_left(tree)
    assert tree.mount().status == 0


def test_cleanup_of_the_tests_forgets_a_killed_mount(tree: Mount) -> None:
    tree.kill()
    tree.close()
    assert state.find(str(tree.path)) is None


def test_umount_cleans_up_after_a_dead_daemon_whose_mount_is_gone(
    root_user: None, tree: Mount
) -> None:
    tree.kill()
    tree.wait_for_daemon()
    subprocess.run(["umount", str(tree.path)], check=True, timeout=20)
    assert tree.path.exists()
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


def test_umount_leaves_the_mount_of_another_namespace(root_user: None, tree: Mount) -> None:
    command = with_own_mounts(sys.executable, "-P", "-m", "ffrfs", "umount", str(tree.path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ffrfs: {tree.path}: mounted in another mount namespace")
    assert tree.is_mounted
    assert tree.statistics()["daemon_pid"] > 0
    assert ffrfs("umount", tree.path).status == 0


def test_umount_of_a_copy_leaves_the_mount(root_user: None, tree: Mount) -> None:
    """A service with PrivateTmp= sees a copy of the mount, and the same runtime directory."""
    umount = (sys.executable, "-P", "-m", "ffrfs", "umount", str(tree.path))
    command = with_copy_of(tree.path, '"$@" && ! grep -qF "$6" /proc/self/mounts', *umount)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree.is_mounted
    assert tree.statistics()["daemon_pid"] > 0
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


def test_signal_unmounts_a_mount_that_was_moved(new_mount: MakeMount, pack_tree: PackTree) -> None:
    """A directory above the mount point was renamed."""
    pack = pack_tree(TREE)
    above = pack.parent / "before"
    above.mkdir()
    tree = new_mount(pack, mountpoint=above / "mount")
    assert tree.mount().status == 0
    moved = above.rename(above.with_name("after")) / "mount"
    assert mount_at(str(moved)) is not None
    tree.signal(signal.SIGTERM)
    tree.wait_for_daemon()
    assert mount_at(str(moved)) is None
    assert state.find(str(tree.path)) is None


@by_all_ways
def test_signal_leaves_nothing_of_a_mount_whose_state_was_lost(tree: Mount) -> None:
    found = state.find(str(tree.path))
    assert found is not None
    Path(state._path(found[0], str(tree.path))).unlink()
    tree.signal(signal.SIGTERM)
    tree.wait_for_daemon()
    assert not tree.path.exists()


@by_all_ways
@pytest.mark.promise("S18")
def test_umount_does_not_wait_for_a_stopped_daemon(tree: Mount) -> None:
    with tree.stopped():
        began_s = time.monotonic()
        done = ffrfs("umount", tree.path)
        took_s = time.monotonic() - began_s
        assert (done.status, done.out) == (0, "")
        (line,) = done.err.splitlines()
        assert tree.process is not None
        assert f"{tree.path}: unmounted, but its daemon (process {tree.process.pid})" in line
        assert "is stopped" in line
        assert took_s < 20  # waiting for the daemon in vain would take 30 s
        assert not tree.is_mounted
        assert not tree.path.exists()
        assert state.find(str(tree.path)) is None
    check_nothing_left(tree)


def test_mount_point_is_reusable_while_the_old_daemon_is_stopped(
    tree: Mount, new_mount: MakeMount
) -> None:
    with tree.stopped():
        assert ffrfs("umount", tree.path).status == 0
        again = new_mount(tree.pack, mountpoint=tree.path)
        assert again.mount().status == 0
    tree.wait_for_daemon()
    assert again.is_mounted
    assert again.ask(probes.read, "d/b") == b"beta"
    assert ffrfs("umount", tree.path).err == ""
    check_nothing_left(again)


def test_stopped_daemon_leaves_a_folder_made_after_the_unmount(tree: Mount) -> None:
    with tree.stopped():
        assert ffrfs("umount", tree.path).status == 0
        tree.path.mkdir()  # a folder of somebody else
    tree.wait_for_daemon()
    tree.path.rmdir()


def test_umount_says_when_the_daemon_does_not_end(tree: Mount) -> None:
    with tree.stopped():
        notice = tree.ask(probes.unmount_within, "", 0.1)
        assert "has not ended within 0.1 s" in notice
        assert not tree.is_mounted
    check_nothing_left(tree)


@by_both
def test_foreground_serves_until_a_signal_and_logs_to_stderr(
    new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(TREE))
    process = start_ffrfs("mount", "-f", *tree.engine_words, tree.pack, tree.path)
    try:
        wait_until(lambda: tree.is_mounted, "mounted")
        assert tree.ask(probes.read, "a") == TREE["a"]
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        kill_group(process)
    assert process.returncode == 0
    assert not tree.is_mounted
    assert not tree.path.exists()
    assert f"mounted at {tree.path}" in err
    assert "SIGINT: unmounting" in err
    assert not re.search("WARNING|ERROR|Traceback", err)


@pytest.mark.promise("S47")
@pytest.mark.parametrize(
    ("engine", "is_unmounted", "status"),
    [*((way, False, 32) for way in WAYS), *((engine, True, 0) for engine in ENGINES)],
    indirect=["engine"],
)
def test_aborted_connection_is_a_failure_unless_unmounted(
    root_user: None, new_mount: MakeMount, pack_tree: PackTree, is_unmounted: bool, status: int
) -> None:
    """The abort is by fusectl or `umount -f`; a service manager restarts only failed services."""
    tree = new_mount(pack_tree(TREE))
    process = start_ffrfs("mount", "-f", *tree.engine_words, tree.pack, tree.path)
    try:
        assert process.stderr is not None
        assert f"mounted at {tree.path}" in process.stderr.readline()
        there = mount_at(str(tree.path))
        assert there is not None
        if is_unmounted:
            subprocess.run(["umount", "-f", str(tree.path)], check=True, timeout=20)
        else:
            daemon = os.pidfd_open(process.pid)
            kernel_mount.abort_of(daemon, there)
            os.close(daemon)
        _, err = process.communicate(timeout=60)
    finally:
        kill_group(process)
    assert process.returncode == status
    assert mount_at(str(tree.path)) is None
    assert not tree.path.exists()
    assert ("WARNING the connection was aborted; the mount is removed" in err) != is_unmounted


def test_foreground_mount_fails_like_a_background_mount(
    new_mount: MakeMount, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.ffr"
    bad.write_bytes(b"no pack at all")
    tree = new_mount(bad)
    mount_command_fails(tree.mount("-f"), 1, str(bad))
    assert not tree.path.exists()


@by_all_ways
def test_daemon_detaches_from_its_caller(tree: Mount) -> None:
    assert tree.process is not None
    proc = Path(f"/proc/{tree.process.pid}")
    assert os.readlink(proc / "cwd") == "/"
    for fd in range(3):
        assert os.readlink(proc / "fd" / str(fd)) == "/dev/null"
    assert os.getsid(tree.process.pid) not in (os.getsid(0), 0)


def test_worker_stays_in_its_callers_session_in_its_own_group(tree: Mount) -> None:
    """In that session the scheduler groups the worker with the readers (decision 028)."""
    assert tree.process is not None
    if tree.worker is None:
        return
    pid = tree.worker.pid
    assert os.getsid(pid) not in (pid, os.getsid(tree.process.pid), 0)
    assert os.getpgid(pid) == pid


@pytest.mark.promise("S19")
def test_caller_that_ignores_sigchld(new_mount: MakeMount, pack_tree: PackTree) -> None:
    """The daemon inherits that, and then the kernel gives it no status of its own children."""
    tree = new_mount(pack_tree(TREE))
    done = tree.mount(prefix=("sh", "-c", 'trap "" CHLD; exec "$@"', "sh"))
    assert (done.status, done.err) == (0, "")
    if tree.engine == "native":
        tree.expect_log("killed by SIGKILL")
        tree.replace_worker()
    assert tree.ask(probes.read, "a") == TREE["a"]


@by_all_ways
def test_descriptors_of_the_caller_are_closed(new_mount: MakeMount, pack_tree: PackTree) -> None:
    tree = new_mount(pack_tree(TREE))
    reading, writing = os.pipe()
    try:
        tree.mount(pass_fds=[writing])
    finally:
        os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read() == b""  # end of file: the daemon does not hold it
    assert tree.is_served


@pytest.mark.parametrize("as_stdin", [False, True])
def test_mount_lasts_while_the_owners_pipe_is_open(
    new_mount: MakeMount, pack_tree: PackTree, as_stdin: bool
) -> None:
    tree = new_mount(pack_tree(TREE))
    theirs, ours = os.pipe()
    try:
        if as_stdin:
            done = tree.mount("--while-open", "0", stdin=theirs)
        else:
            done = tree.mount("--while-open", str(theirs), pass_fds=[theirs])
        os.close(theirs)
        assert done.status == 0
        os.write(ours, b"bytes mean nothing")
        assert tree.ask(probes.read, "a") == TREE["a"]
        assert tree.is_served
    finally:
        os.close(ours)
    check_nothing_left(tree)


def test_default_log_is_beside_the_state_and_outlives_the_mount(
    new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(TREE))
    assert ffrfs("mount", *tree.engine_words, tree.pack, tree.path).status == 0
    tree.find_daemon()
    found = state.find(str(tree.path))
    assert found is not None
    directory, known = found
    assert known.log_file is not None
    log = Path(known.log_file)
    wait_until(lambda: f"mounted at {tree.path}" in log.read_text(), "it is logged")
    assert known.pack == str(tree.pack)
    assert ffrfs("umount", tree.path).status == 0
    assert "SIG" not in Path(known.log_file).read_text()  # the command unmounts, and no signal does
    tree.wait_for_daemon()
    assert f"{tree.path}: ended" in Path(known.log_file).read_text()
    assert state.load(directory, str(tree.path)) is None


NO_MEMORY_FOR_DAEMON = """
import sys

class Finder:
    def find_spec(self, name, *_):
        if name == "ffrfs.mount.daemon.daemon":
            raise MemoryError

sys.meta_path.insert(0, Finder())"""


@pytest.mark.promise("S16")
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; os.devnull = '/dev/absent'", "/dev/absent: No such file"),
        (
            "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))",
            "a file in memory for counters: File too large",
        ),
        (NO_MEMORY_FOR_DAEMON, "out of memory"),
    ],
)
def test_failed_mount_names_the_missing_resource(
    new_mount: MakeMount, pack_tree: PackTree, program: str, said: str
) -> None:
    tree = new_mount(pack_tree(TREE))
    program += "; import sys; from ffrfs.cli.main import main; sys.exit(main())"
    done = python("-c", program, "mount", tree.pack, tree.path)
    assert done.returncode != 0
    assert done.stderr.startswith(f"ffrfs: {said}")
    assert not tree.is_mounted


@pytest.mark.promise("S16")
def test_notice_that_cannot_be_written_is_no_failure(
    new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(TREE))
    with open("/dev/full", "wb") as full:
        done = tree.mount("-o", "rw", stderr=full)
    assert (done.status, done.out) == (0, "")
    assert tree.ask(probes.read, "a") == TREE["a"]


@pytest.mark.promise("S16")
@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ("ends", "ended before it was ready"),
        ("fails", "the engine failed: RuntimeError: out of order"),
        ("hangs", "does not answer: no answer within 1 s"),
    ],
)
def test_engine_that_does_not_serve_is_a_failed_mount(
    fuse: None, pack_tree: PackTree, places: Path, serving: str, words: str
) -> None:
    place = places / "mount"
    with child(probes.serve_badly, str(pack_tree(TREE)), str(place), serving) as daemon:
        kind, text = daemon.next()
    assert kind == "MountError"
    assert words in text
    assert str(place) in text
    assert not place.exists()


@pytest.mark.promise("S16")
def test_mount_point_whose_mount_has_ended_is_an_error(tmp_path: Path) -> None:
    """The mount has ended just before the command looks into the mount point."""
    found = tmp_path.stat().st_dev
    look_into(str(tmp_path), f"{os.major(found)}:{os.minor(found)}")
    with pytest.raises(MountError, match="is not mounted any more"):
        look_into(str(tmp_path), "0:99999")
