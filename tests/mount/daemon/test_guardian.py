"""A daemon that dies is replaced by another one, which goes on with its mount."""

from __future__ import annotations

import fcntl
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.engines.worker import beside_native, worker_path
from ffrfs.mount.kernel import runtime_lock, state
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.process import Process
from tests.checkout import CHECKOUT
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import (
    TIMEOUT_S,
    Mount,
    ffrfs,
    kill_for_good,
    mount_command_fails,
    stop,
    wait_until,
)
from tests.mount.makers import MakeMount, PackTree
from tests.mount.preloaded import preloaded
from tests.mount.readers import readers_at_work, wait_for_reads

TREE = {f"{i:03d}": random.Random(i).randbytes(20_000 + 5000 * i) for i in range(20)}
LARGE = random.Random("large").randbytes(6 << 20)
OPTIONS = ("--read-around", "off")  # a file that nobody has read takes a request
REPLACED = "the daemon before this one"
RESIDENT_KB_MAX = 1000

pytestmark = pytest.mark.promise("S19")
lasting = pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)


@pytest.fixture
def pack(pack_tree: PackTree) -> Path:
    return pack_tree({"d": dict(TREE), "large": LARGE})


def state_of(tree: Mount) -> str:
    lines = ffrfs("ps").out.splitlines()
    (line,) = [line for line in lines if str(tree.path) in line]
    return line.split()[0]


@lasting
def test_readers_do_not_notice_the_death_of_a_daemon(tree: Mount) -> None:
    tree.expect_log(REPLACED)
    worker = tree.statistics()["worker_pid"]
    with (
        readers_at_work(tree, "d", TREE),
        child(probes.hold_open, tree / "large") as holder,
        child(probes.work_inside, tree / "d") as inside,
    ):
        assert holder.next() == LARGE[:1]
        assert inside.next() == tree / "d"
        for count in (1, 2):
            tree.replace_daemon()
            wait_for_reads(tree)
            assert tree.statistics()["daemon_starts"] == count
        assert holder.next() == LARGE[1:]
    found = tree.statistics()
    assert found["worker_pid"] == worker
    assert found["worker"]["deaths"] == 0
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()


def test_daemon_and_worker_killed_at_once(tree: Mount) -> None:
    tree.expect_log(REPLACED)
    tree.expect_log("the worker has ended")
    with readers_at_work(tree, "d", TREE), child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        for count in (1, 2):
            tree.replace_daemon(with_worker=True)
            wait_for_reads(tree)
            assert tree.statistics()["worker"]["deaths"] == count
        assert holder.next() == LARGE[1:]
    tree.replace_worker()
    tree.expect_log("killed by SIGKILL")
    assert tree.statistics()["worker"]["causes"] == {"unknown": 2, "SIGKILL": 1}


def replace_guardian(tree: Mount) -> None:
    """Kill the guardian, and wait until another one guards."""
    before = tree.guardian
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    wait_for_guardian(tree, before)


def wait_for_guardian(tree: Mount, before: Process) -> None:
    def is_guarded() -> bool:
        tree.find_daemon()
        return tree.guardian not in (None, before)

    wait_until(is_guarded, "another one guards")


def test_guardian_that_dies_is_replaced(tree: Mount) -> None:
    tree.expect_log("the guardian has died; another one begins")
    tree.expect_log(REPLACED)
    for _ in range(2):
        replace_guardian(tree)
        with readers_at_work(tree, "d", TREE):
            tree.replace_daemon()
        tree.find_daemon()


def test_failed_start_of_a_guardian_is_retried(tree: Mount) -> None:
    """The daemon has no descriptor for another guardian at first, and has one later."""
    tree.expect_log("the guardian has died; another one begins")
    tree.expect_log("Too many open files")  # also from accept(), when a command asks all mounts
    tree.statistics()  # now the daemon has imported its modules
    assert tree.process is not None
    before = tree.guardian
    assert before is not None
    daemon = tree.process.pid
    limits = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    # Descriptors 0 to 2 are in use. With a lower limit poll(2) would refuse open ones, too.
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        os.kill(before.pid, signal.SIGKILL)
        wait_until(lambda: "no guardian: " in tree.log(), "it has been tried")
    finally:
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, limits)
    wait_for_guardian(tree, before)


@pytest.mark.long
def test_guardian_does_not_give_up(tmp_path: Path) -> None:
    """Eleven daemons fail to begin in half a minute, as if the machine had no process left."""
    starts = tmp_path / "starts"
    program = Path(worker_path() or "").with_name("ffrfs-guardian")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection, end = os.pipe()
    with subprocess.Popen("cat", stdin=subprocess.PIPE) as daemon:
        fds = (theirs.fileno(), os.pidfd_open(daemon.pid))
        words = ["/bin/sh", "-c", 'echo >>"$0"; exit 7', starts]
        guardian = subprocess.Popen([program, *map(str, fds), *words], pass_fds=fds)
        socket.send_fds(ours, [b"connection"], [connection])
    for one in (ours, theirs):
        one.close()
    for fd in (fds[1], connection):
        os.close(fd)
    try:
        wait_until(lambda: starts.exists() and starts.stat().st_size == 11, "it starts another")
        assert guardian.poll() is None
    finally:
        os.close(end)
        assert guardian.wait(TIMEOUT_S) == 0


def test_guardian_without_descriptors_keeps_its_mount(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    program = Path(worker_path() or "").with_name("ffrfs-guardian")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection, end = os.pipe()

    def send(names: str) -> None:
        socket.send_fds(ours, [names.encode()], [connection] * len(names.split(":")))
        wait_until(lambda: not any(fcntl.ioctl(ours, termios.TIOCOUTQ, bytes(4))), "it has come")

    with ours, theirs, subprocess.Popen("cat", stdin=subprocess.PIPE) as daemon:
        fds = (theirs.fileno(), os.pidfd_open(daemon.pid))
        words = ["/bin/sh", "-c", 'echo "$LISTEN_FDS $LISTEN_FDNAMES" >>"$0"; exit 7', begun]
        guardian = subprocess.Popen([program, *map(str, fds), *words], pass_fds=fds)
        send("connection")
        used = {int(fd) for fd in os.listdir(f"/proc/{guardian.pid}/fd")}
        free = min({*range(len(used) + 1)} - used)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        before = resource.prlimit(guardian.pid, resource.RLIMIT_NOFILE, (free + 1, most))
        send("connection:page:worker")
        resource.prlimit(guardian.pid, resource.RLIMIT_NOFILE, before)
    for fd in (fds[1], connection):
        os.close(fd)
    try:
        wait_until(lambda: begun.exists() and begun.read_text(), "another daemon begins")
        assert begun.read_text().splitlines()[0] == "2 connection:guardian"
    finally:
        os.close(end)
        assert guardian.wait(TIMEOUT_S) == 0


def test_guardian_takes_little_memory(tree: Mount) -> None:
    assert tree.guardian is not None
    status = Path(f"/proc/{tree.guardian.pid}/status").read_text()
    (resident_kb,) = re.findall(r"VmRSS:\s*(\d+) kB", status)
    assert int(resident_kb) < RESIDENT_KB_MAX


def test_commands_wait_for_the_next_daemon(tree: Mount) -> None:
    tree.expect_log(REPLACED)
    tree.signal_daemon(signal.SIGKILL)
    assert tree.statistics()["daemon_starts"] == 1  # the answer may take a while on a busy machine
    wait_until(lambda: state_of(tree) == "live", "it is live")
    mount_command_fails(tree.mount(), 32, str(tree.path), "already")


def test_guardian_is_recorded_although_others_use_the_lock(
    new_mount: MakeMount, pack: Path
) -> None:
    """Others mount and unmount in the same runtime directory meanwhile."""
    directory = state.runtime_directory()
    ended = threading.Event()

    def hold_often() -> None:
        while not ended.wait(0.005):
            with runtime_lock.locked(directory):
                ended.wait(0.05)

    others = threading.Thread(target=hold_often)
    others.start()
    try:
        tree = new_mount(pack)
        assert tree.mount().status == 0
        known = state.find(str(tree.path))
    finally:
        ended.set()
        others.join()
    assert known is not None
    assert known[1].guardian is not None


def test_commands_wait_if_the_guardian_was_replaced_too(
    tree: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command still uses a state that it read while the dead processes lived."""
    before = state.find(str(tree.path))
    assert before is not None
    replace_guardian(tree)
    tree.signal_daemon(signal.SIGKILL)
    tree.expect_log(f"{REPLACED}|the guardian has died")
    found = [before]
    find = control_client._find
    monkeypatch.setattr(
        control_client, "_find", lambda place: found.pop() if found else find(place)
    )
    assert control_client.stats(str(tree.path))["daemon_starts"] == 1
    assert not found


def test_command_reaches_a_next_daemon_that_is_not_recorded(
    tree: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is out of date (the disk is full), and the daemon ends during the request."""
    found = state.find(str(tree.path))
    assert found is not None
    stale = replace(found[1], process=Process(1, 1), guardian=Process(1, 1))
    monkeypatch.setattr(state, "find", lambda _: (found[0], stale))
    converse, ends = control_client._converse, [ConnectionResetError()]

    def end_once(*arguments: Any) -> object:
        if ends:
            raise ends.pop()
        return converse(*arguments)

    monkeypatch.setattr(control_client, "_converse", end_once)
    assert control_client.stats(str(tree.path))["daemon_starts"] == 0
    assert not ends
    with pytest.raises(MountError, match="answers: "):  # an error from the daemon is final
        control_client.ask(str(tree.path), "fill")
    monkeypatch.undo()


@pytest.mark.promise("S59")
def test_check_warns_until_the_next_daemon_serves(tree: Mount) -> None:
    tree.expect_log(REPLACED)
    assert tree.process is not None
    assert tree.guardian is not None
    stop(tree.guardian.pid)  # as if the guardian paused after several deaths
    try:
        tree.signal_daemon(signal.SIGKILL)
        daemon = f"its daemon (process {tree.process.pid})"
        line = tree.checked(1, f"{daemon} has died; its guardian starts another one")
        assert "umount" not in line
    finally:
        os.kill(tree.guardian.pid, signal.SIGCONT)
    tree.wait_until_anew()
    tree.checked(0)


def test_mount_without_a_daemon_can_be_unmounted(tree: Mount) -> None:
    with child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        tree.expect_log(REPLACED)
        tree.signal_daemon(signal.SIGKILL)
        done = ffrfs("umount", tree.path)
        assert done.status == 0
        assert "busy" in done.err
        assert not tree.is_mounted
        tree.wait_until_anew()  # the next daemon serves the open files
        assert holder.next() == LARGE[1:]


def test_mount_of_a_program_ends_with_the_program(pack: Path, tmp_path: Path) -> None:
    program = (
        "import sys, time, ffrfs\n"
        "with ffrfs.mounted(sys.argv[1], sys.argv[2]) as root:\n"
        "    print(root, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    place = tmp_path / "mount"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(pack), str(place)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    tree = Mount("native", [pack], place, tmp_path / "log")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(place)
        tree.find_daemon()
        tree.replace_daemon()
        assert mount_at(str(place)) is not None
        process.kill()
        wait_until(lambda: not place.exists(), "mount and mount point are gone")
    finally:
        process.kill()
        process.communicate()
        tree.close()


def test_log_file_that_can_no_longer_be_opened(new_mount: MakeMount, pack: Path) -> None:
    """The next daemon writes to a log of its own."""
    tree = new_mount(pack)
    folder = tree.log_file.parent / "logs"
    folder.mkdir()
    tree.log_file = folder / "log"
    assert tree.mount().status == 0
    shutil.rmtree(folder)
    tree.replace_daemon()
    tree.find_daemon()
    assert tree.ask(probes.read, "d/000") == TREE["000"]
    assert f"the log goes on elsewhere: {folder / 'log'}" in ffrfs("log", tree.path).out
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()


def test_next_daemon_needs_neither_metrics_nor_the_list_of_files(
    new_mount: MakeMount, tmp_path: Path
) -> None:
    """The TFDS directory has been removed, and the metrics file is somebody else's by now."""
    prepared = shutil.copytree(CHECKOUT / "tests/golden/tfds/1.0.0", tmp_path / "1.0.0")
    metrics = tmp_path / "metrics"
    tree = new_mount(prepared)
    assert tree.mount("--metrics-file", metrics).status == 0
    wait_until(metrics.exists, "metrics are written")
    shutil.rmtree(prepared)
    metrics.write_text("somebody else's")
    tree.expect_log(REPLACED)
    tree.expect_log("metrics are not written")
    tree.replace_daemon()
    tree.find_daemon()
    wait_until(lambda: "metrics are not written" in tree.log(), "metrics are tried")
    assert tree.ask(probes.listdir, "")
    assert metrics.read_text() == "somebody else's"


def test_killed_daemon_without_a_guardian_leaves_a_dead_mount(tree: Mount) -> None:
    assert tree.process is not None
    kill_for_good(tree.process.pid)
    tree.wait_for_daemon()
    assert state_of(tree) == "dead"
    assert ffrfs("umount", tree.path).status == 0


FAILING = """
import sys
from ffrfs.cli.main import main
from ffrfs.mount.daemon.server import Server
from ffrfs.mount.engines.native_engine import NativeEngine

async def task_fails(server):
    await server._is_ready.wait()
    raise ZeroDivisionError("of a test")

async def engine_fails(engine, connection):
    raise ZeroDivisionError("of a test")

if sys.argv.pop(1) == "task":
    Server._tell_of_large_hints = task_fails
else:
    NativeEngine._replace = engine_fails
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("part", ["task", "engine"])
def test_daemon_that_fails_is_replaced(part: str, new_mount: MakeMount, pack: Path) -> None:
    tree: Mount = new_mount(pack)
    words = ["mount", "--log-file", tree.log_file, "--", pack, tree.path]
    subprocess.run([sys.executable, "-c", FAILING, part, *words], check=True, timeout=60)
    tree.find_daemon()
    if part == "engine":
        assert tree.worker is not None
        os.kill(tree.worker.pid, signal.SIGKILL)
    wait_until(lambda: tree.statistics()["daemon_starts"] == 1, "another daemon serves")
    assert tree.ask(probes.read, "large") == LARGE
    tree.expect_log("failed; the next one goes on|killed by SIGKILL|Traceback")
    tree.expect_log(f"{REPLACED}|the worker has ended")
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()


# The log's threads can start: a real shortage may leave room for them, too.
WITHOUT_THREADS = """
import os, threading

start = threading.Thread.start

def start_or_fail(thread):
    if not thread.name.startswith("ffrfs-") and os.path.exists(os.environ["SHORT"]):
        raise RuntimeError("can't start new thread")
    start(thread)

threading.Thread.start = start_or_fail
"""


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file exists, new processes of ffrfs cannot start a thread."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_THREADS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SHORT", str(tmp_path / "short"))
    return tmp_path / "short"


@pytest.mark.promise("S18")
def test_signal_unmounts_once_a_thread_can_be_started(
    short: Path, new_mount: MakeMount, pack: Path
) -> None:
    tree: Mount = new_mount(pack)
    assert tree.mount().status == 0
    tree.expect_log("not unmounted yet: cannot start a thread|busy: detached")
    with child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        short.touch()
        tree.signal(signal.SIGTERM)
        wait_until(lambda: "not unmounted yet" in tree.log(), "it has been tried")
        assert tree.is_mounted
        short.unlink()
        wait_until(lambda: not tree.is_mounted, "it is unmounted")
        assert holder.next() == LARGE[1:]
    tree.wait_for_daemon()


def test_daemon_that_fails_to_start_leaves_the_mount_to_the_next(
    short: Path, new_mount: MakeMount, pack: Path
) -> None:
    tree: Mount = new_mount(pack)
    assert tree.mount().status == 0
    assert tree.process is not None
    short.touch()
    os.kill(tree.process.pid, signal.SIGKILL)
    wait_until(lambda: "the daemon cannot begin" in tree.log(), "the next daemon has failed")
    assert tree.ask(probes.read, "large") == LARGE
    short.unlink()
    wait_until(lambda: tree.statistics()["daemon_starts"] >= 1, "another daemon serves")
    tree.expect_log("the daemon cannot begin|Traceback")
    tree.expect_log(REPLACED)


@pytest.mark.parametrize(("message", "runs"), [(b"", True), (b"-", False)])
def test_guardian_runs_a_command_when_a_mount_is_left_and_not_unmounted(
    message: bytes, runs: bool, tmp_path: Path
) -> None:
    guardian, ran = beside_native("ffrfs-guardian"), tmp_path / "ran"
    assert guardian is not None
    theirs, ours = os.pipe()
    command = [guardian, "--when-left", str(theirs), "/usr/bin/touch", str(ran)]
    process = subprocess.Popen(command, pass_fds=[theirs])
    os.close(theirs)
    os.write(ours, message)
    os.close(ours)
    assert process.wait(TIMEOUT_S) == 0
    assert ran.exists() == runs


SET_BACK = """
import os, time

now_s = time.time
time.time = lambda: now_s() - 86400 * os.path.exists(os.environ["SET_BACK"])
"""


def test_age_is_right_whatever_the_clock_is_set_to(
    new_mount: MakeMount, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preloaded()  # if it began here, all later tests would have that clock
    (tmp_path / "sitecustomize.py").write_text(SET_BACK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SET_BACK", str(tmp_path / "set back"))
    tree: Mount = new_mount(pack)
    assert tree.mount().status == 0
    before_s = tree.statistics()["age_s"]
    (tmp_path / "set back").touch()
    tree.expect_log(REPLACED)
    tree.replace_daemon()
    assert before_s < tree.statistics()["age_s"] < 600
