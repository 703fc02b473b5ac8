"""The worker of a native mount: how its death, and its daemon's, affect readers."""

from __future__ import annotations

import errno
import gc
import os
import random
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from ffrfs.errors import MountError
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.counter_page import CounterPage, Counters
from ffrfs.mount.engines.kept_engine import KeptProcess
from ffrfs.mount.engines.native_engine import NativeEngine
from ffrfs.mount.engines.worker import PATH_VARIABLE, Worker
from ffrfs.mount.engines.worker_deaths import UNSEEN
from ffrfs.mount.engines.worker_life import WorkerLife
from ffrfs.mount.kernel.options import TreeOptions
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import (
    ENDED,
    TIMEOUT_S,
    WAYS,
    Mount,
    check_nothing_left,
    ffrfs,
    is_worker,
    kill_group,
    start_ffrfs,
    stop,
    wait_until,
)
from tests.mount.disk import Disk
from tests.mount.makers import MakeMount, PackTree
from tests.mount.readers import READER_COUNT, reading

FILE_COUNT = 40
TREE = {f"{i:03d}": random.Random(i).randbytes(60_000 + 1000 * i) for i in range(FILE_COUNT)}
LARGE = random.Random("large").randbytes(6 << 20)
over_transports = pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)


@pytest.fixture
def tree(mount: MakeMount, pack_tree: PackTree) -> Mount:
    """A mount whose file "bad" is damaged."""
    pack = pack_tree({"d": dict(TREE), "large": LARGE, "bad": b"damaged"})
    offset, _ = record_extents(pack)[0]
    flip_byte(pack, offset)
    made: Mount = mount(pack, "--read-around", "off")  # so each first read takes a request
    return made


def kill_worker(tree: Mount, number: int) -> None:
    assert tree.worker is not None
    os.kill(tree.worker.pid, number)


# Over rings, where no other worker can take over.
only_uring = pytest.mark.parametrize("engine", ["uring"], indirect=True)
DEATHS = [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL]


@only_uring
@pytest.mark.promise("S19")
@pytest.mark.parametrize("number", DEATHS)
def test_mount_whose_idle_worker_dies_is_mounted_again(tree: Mount, number: signal.Signals) -> None:
    tree.expect_log("cannot read bad: ")
    assert tree.ask(probes.errno_of, "bad", "read") == errno.EIO
    tree.expect_log(rf"the worker was killed by {number.name}: cannot read bad: .*record 0")
    daemon = tree.process
    kill_worker(tree, number)
    tree.wait_until_anew()
    assert tree.ask(probes.read, "large") == LARGE
    assert len(re.findall(number.name, tree.log())) == 1
    tree.find_daemon()
    assert tree.process == daemon
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@only_uring
def test_unmounted_mount_is_not_mounted_again(tree: Mount) -> None:
    tree.expect_log("the worker was killed by SIGKILL")
    with child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        assert "busy" in ffrfs("umount", tree.path).err
        kill_worker(tree, signal.SIGKILL)
        tree.wait_for_daemon()
    assert not tree.is_mounted
    assert ": mounted at " not in tree.log().partition(": mounted at ")[2]
    check_nothing_left(tree)


@only_uring
@pytest.mark.promise("S19")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_worker_that_dies_under_readers_gives_them_an_error(
    tree: Mount, number: signal.Signals
) -> None:
    tree.expect_log(rf"the worker was killed by {number.name}: (it has logged nothing|slow )")
    with reading(tree, "d", TREE) as readers, child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        kill_worker(tree, number)
        for reader in readers:
            # ENOENT, as the path leads to an empty mount point for a moment.
            assert reader.answer() in (*ENDED, errno.ENOENT)
        with pytest.raises(OSError) as caught:
            holder.next()
        assert caught.value.errno in ENDED
        tree.wait_until_anew()
        assert tree.ask(probes.read, "large") == LARGE


@only_uring
@pytest.mark.long
@pytest.mark.promise("S19")
def test_worker_that_dies_while_a_read_waits_for_the_disk(new_mount: MakeMount, disk: Disk) -> None:
    tree = new_mount(disk.pack)
    assert tree.mount().status == 0
    tree.expect_log("killed by SIGKILL")
    disk.stall("stalled")
    with child(probes.errno_of, tree / "stalled", "read") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        kill_worker(tree, signal.SIGKILL)
        # A killed process keeps its files open until its disk has answered.
        disk.go()
        assert reader.answer() in ENDED
    tree.wait_until_anew()
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@over_transports
@pytest.mark.long
@pytest.mark.promise("S25")
def test_worker_ignores_signals_of_terminals_and_managers(tree: Mount) -> None:
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE]
    with reading(tree, "d", TREE) as readers:
        for number in numbers * 3:
            kill_worker(tree, number)
        assert tree.ask(probes.read, "large") == LARGE
        assert not any(reader.has_answered() for reader in readers)
    assert tree.is_mounted
    assert tree.is_served
    assert not any(number.name in tree.log() for number in numbers)


# The worker does not answer.


@contextmanager
def worker_stopped(tree: Mount) -> Iterator[None]:
    assert tree.worker is not None
    stop(tree.worker.pid)
    try:
        yield
    finally:
        if tree.worker.is_alive():
            kill_worker(tree, signal.SIGCONT)


@over_transports
def test_stopped_worker_does_not_delay_unmounting(tree: Mount) -> None:
    with worker_stopped(tree):
        tree.signal(signal.SIGTERM)
        wait_until(lambda: not tree.is_mounted, "unmounted")
        wait_until(lambda: not tree.path.exists(), "the mount point is gone")
    check_nothing_left(tree)


@over_transports
def test_second_signal_ends_a_stopped_worker_too(tree: Mount) -> None:
    with child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        with worker_stopped(tree):
            holder.ask_next()
            tree.expect_log("busy: detached")
            tree.expect_log("SIGTERM again")
            tree.signal(signal.SIGTERM)
            wait_until(lambda: "busy: detached" in tree.log(), "the first signal is obeyed")
            tree.signal(signal.SIGTERM)
            with pytest.raises(OSError) as caught:
                holder.answer()
            assert caught.value.errno in ENDED
            check_nothing_left(tree)


# The daemon dies, and no other one takes over.


@pytest.mark.promise("S19")
@pytest.mark.parametrize(
    ("engine", "both"),
    [*((way, False) for way in WAYS), ("native", True), ("uring", True)],
    indirect=["engine"],
)
def test_killed_daemon_under_load_gives_errors(tree: Mount, both: bool) -> None:
    with reading(tree, "d", TREE) as readers, child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        tree.kill()
        if both:
            with suppress(ProcessLookupError):  # it may have ended with its daemon
                kill_worker(tree, signal.SIGKILL)
        for reader in readers:
            assert reader.answer() in ENDED
        with pytest.raises(OSError) as caught:
            holder.next()
        assert caught.value.errno in ENDED
        tree.wait_for_daemon()  # and for the worker, which gets no message
        assert tree.is_mounted
        assert tree.ask(probes.errno_of, "d/000", "read") in ENDED
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@over_transports
@pytest.mark.promise("S19")
def test_killed_daemon_while_reads_wait_for_the_disk(new_mount: MakeMount, disk: Disk) -> None:
    tree = new_mount(disk.pack)
    assert tree.mount().status == 0
    disk.stall("stalled")
    with child(probes.errno_of, tree / "stalled", "read") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        tree.kill()
        assert reader.answer() in ENDED  # though the disk has not answered
        assert tree.ask(probes.errno_of, "cold", "read") in ENDED
        disk.go()
    tree.wait_for_daemon()
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@over_transports
@pytest.mark.promise("S19")
def test_daemon_that_is_killed_while_the_pack_opens_takes_its_worker_along(
    new_mount: MakeMount, disk: Disk
) -> None:
    tree = new_mount(disk.pack)
    disk.stall_all(12)  # behind the bytes that the daemon itself reads
    command = start_ffrfs(
        *("mount", *tree.engine_words, "--log-file", tree.log_file, tree.pack, tree.path)
    )
    try:
        disk.wait_for("stalled")
        (worker,) = [p for p in tree.processes() if is_worker(p)]
        for process in tree.processes():
            if process != worker:
                os.kill(process.pid, signal.SIGKILL)
        disk.go()
        assert worker.wait(TIMEOUT_S)
    finally:
        kill_group(command)
    assert not tree.is_mounted


# The mount ends in good order.


@pytest.mark.parametrize("engine", WAYS, indirect=True)
@pytest.mark.promise("S13", "S18")
@pytest.mark.parametrize("by", ["signal", "ffrfs umount"])
def test_unmounting_under_load_loses_no_byte(tree: Mount, by: str) -> None:
    with reading(tree, "d", TREE, probes.read_open_files) as readers:
        if by == "signal":
            tree.expect_log("busy: detached")
            tree.signal(signal.SIGTERM)
        else:
            assert "busy" in ffrfs("umount", tree.path).err
        wait_until(lambda: not tree.path.exists(), "the mount is gone")
        at_end = [reader.answer() for reader in readers]
        # Each has noticed that the paths have gone, and every byte was right until then.
        assert at_end == ["paths are gone"] * READER_COUNT
        assert tree.is_served
        for reader in readers:
            assert reader.next() == FILE_COUNT  # files that are open can still be read
        assert tree.is_served
    check_nothing_left(tree)


@over_transports
@pytest.mark.promise("S18", "S25")
def test_interrupt_from_the_terminal_unmounts(new_mount: MakeMount, pack_tree: PackTree) -> None:
    tree = new_mount(pack_tree({"d": dict(TREE)}))
    process = start_ffrfs("mount", "-f", *tree.engine_words, tree.pack, tree.path)
    try:
        wait_until(lambda: tree.is_mounted, "mounted")
        assert tree.ask(probes.digests, "d").keys() == TREE.keys()
        tree.find_daemon()
        assert tree.worker is not None
        os.kill(tree.worker.pid, signal.SIGINT)  # as a service manager does, to all
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
        _, err = process.communicate(timeout=60)
    finally:
        kill_group(process)
    assert process.returncode == 0
    check_nothing_left(tree)
    assert "SIGINT: unmounting" in err
    assert not re.search("WARNING|ERROR|Traceback", err)


def test_closed_engine_ignores_new_limits(pack_tree: PackTree) -> None:
    """The daemon's other tasks may run once more after the mount has ended."""
    packs = (str(pack_tree({"a": b"a"})),)
    engine = NativeEngine(MountRequest(packs=packs, mountpoint="/m", options=TreeOptions()))
    engine.close()
    engine.limit_pushed(1 << 20)
    engine.limit_cache(1 << 20)


def test_program_that_cannot_run_leaks_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "worker"
    program.write_bytes(b"\0")
    program.chmod(0o755)
    monkeypatch.setenv(PATH_VARIABLE, str(program))
    request = MountRequest(packs=("x.ffr",), mountpoint="/mnt", options=TreeOptions())
    page = CounterPage()
    gc.collect()
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="Exec format"):
        Worker(request, page)
    assert os.listdir("/proc/self/fd") == before
    page.close()


def test_worker_dropped_while_its_end_is_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptor number of its log belongs to another file by then."""
    monkeypatch.setenv(PATH_VARIABLE, "/bin/false")
    (tmp_path / "other").write_bytes(b"other")
    worker = Worker(
        MountRequest(packs=("x.ffr",), mountpoint="/mnt", options=TreeOptions()),
        CounterPage(),
    )
    number, reap = worker.log, worker.reap

    def reap_and_drop() -> int:
        status = reap()
        worker.drop()
        with open(tmp_path / "other", "rb") as file:
            os.dup2(file.fileno(), number)
        return status

    monkeypatch.setattr(worker, "reap", reap_and_drop)
    with pytest.raises(MountError, match=r"status 1 before the packs were open$"):
        worker.wait_for_packs()
    assert os.get_blocking(number)
    assert os.read(number, 10) == b"other"
    os.close(number)


def test_worker_reaped_between_two_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry in /proc stays only until its parent has reaped it."""
    process = subprocess.Popen("cat", stdin=subprocess.PIPE)
    pidfd = os.pidfd_open(process.pid)
    with WorkerLife(pidfd, process.pid, dict) as life:
        process.kill()
        process.communicate()
        looks = iter([[], [pidfd]])
        monkeypatch.setattr(life, "_ended", SimpleNamespace(poll=lambda _: next(looks)))
        assert trio.run(life.wait_for_end) is None
    os.close(pidfd)


def test_idle_worker_is_checked_rarely() -> None:
    """It is looked at often only while requests are in flight, or its counters change."""
    counted: list[Counters] = [
        *({"reads": [1]}, {"reads": [2]}, {"reads": [2]}),  # and no more from now on
        *({"reads": [2], "in_flight": [7, 1]}, {"reads": [2], "in_flight": [7, 1]}),
        *({"reads": [3], "in_flight": [0, 1]}, {"reads": [3], "in_flight": [0, 1]}),
    ]
    looks_s: list[float] = []

    async def main() -> None:
        with trio.CancelScope() as scope:

            def count() -> Counters:
                looks_s.append(trio.current_time())
                if len(looks_s) <= len(counted):
                    return counted[len(looks_s) - 1]
                scope.cancel()
                return {}

            with WorkerLife(pidfd, process.pid, count) as life:
                await life.wait_for_end()

    with subprocess.Popen("cat", stdin=subprocess.PIPE) as process:
        pidfd = os.pidfd_open(process.pid)
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        process.kill()
    os.close(pidfd)
    assert looks_s == pytest.approx([0, 0.5, 1, 2.5, 3, 3.5, 4, 5])


def test_killing_an_ended_worker_of_another_daemon_is_harmless() -> None:
    process = subprocess.Popen("cat", stdin=subprocess.PIPE)
    pidfd = os.pidfd_open(process.pid)
    kept = KeptProcess(pidfd)
    process.communicate()
    kept.kill()
    assert kept.wait() == UNSEEN
    os.close(pidfd)
