"""The daemon feeds the watchdog only as long as its loop, the engine and the disk answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from ffrfs.mount.daemon import tree_probe
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.process import Process
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import (
    TIMEOUT_S,
    Mount,
    check_nothing_left,
    children,
    ffrfs,
    stop,
    wait_until,
)
from tests.mount.disk import Disk
from tests.mount.makers import MakeMount, PackTree, StartService, by_both
from tests.mount.notify_socket import Service, ServiceManager

TREE = {"d": {"a": b"alpha" * 1000}, "large": bytes(5 << 20)}
INTERVAL_S = 0.15
USEC = str(round(2 * INTERVAL_S * 1e6))
# In this time the daemon feeds the watchdog several times, or not at all.
SILENCE_S = 5 * INTERVAL_S


@pytest.fixture
def service(start_service: StartService, pack_tree: PackTree) -> Service:
    made: Service = start_service(pack_tree(TREE), WATCHDOG_USEC=USEC)
    made.wait_until_ready()
    return made


@pytest.fixture
def stalling_service(disk: Disk, start_service: StartService) -> Iterator[Service]:
    made: Service = start_service(disk.pack, WATCHDOG_USEC=USEC)
    made.wait_until_ready()
    yield made
    disk.go()
    made.tree.close()


def wait_until_fed(manager: ServiceManager, count: int = 1) -> None:
    for _ in range(count):
        manager.wait_for("WATCHDOG")


def check_not_fed(manager: ServiceManager) -> None:
    """Wait until no message comes: on a busy machine one may still be under way."""
    while "WATCHDOG" in manager.heard_within(SILENCE_S):
        pass


def probe_of(tree: Mount) -> Process:
    assert tree.process is not None
    found: list[Process] = []

    def is_found() -> bool:
        found[:] = [child for child in children(tree.process) if "tree_probe" in command(child)]
        return len(found) == 1

    wait_until(is_found, "there is one probe")
    return found[0]


def command(process: Process) -> str:
    return Path(f"/proc/{process.pid}/cmdline").read_text()


@contextmanager
def stopped(process: Process) -> Iterator[None]:
    stop(process.pid)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@by_both
@pytest.mark.promise("S48")
def test_fed_by_reads_that_the_engine_answers(service: Service, manager: ServiceManager) -> None:
    wait_until_fed(manager)
    before = service.tree.requests()["read"]
    manager.heard_within(0)
    wait_until_fed(manager, 6)
    # The first read may be counted above, and the last one not yet.
    assert service.tree.requests_now()["read"] >= before + 4
    times_s = [at_s for message, _, at_s in manager.messages if "WATCHDOG" in message]
    assert times_s[-1] - times_s[0] > (len(times_s) - 2) * INTERVAL_S  # the first one may be late


def test_probe_does_not_read_a_mount_that_covers_its_own(
    root_user: None, new_mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    """A mount that covers this one may hang."""
    tree = new_mount(pack_tree(TREE), mountpoint=places / "a b\\c\n")
    assert tree.mount().status == 0
    entry = mount_at(str(tree.path))
    assert entry is not None
    program = [sys.executable, "-I", "-S", tree_probe.__file__, tree.path, entry.device]

    def answers() -> bytes:
        questions = tree_probe.READ + tree_probe.SIZE
        return subprocess.run(program, input=questions, stdout=PIPE, timeout=20, check=True).stdout

    assert answers() == 2 * tree_probe.ANSWERED
    subprocess.run(["mount", "-t", "tmpfs", "none", tree.path], check=True, timeout=20)
    try:
        assert answers() == 2 * tree_probe.ELSEWHERE
    finally:
        subprocess.run(["umount", "--internal-only", tree.path], check=True, timeout=20)


@pytest.mark.promise("S48")
def test_not_fed_while_the_daemon_is_stopped(service: Service, manager: ServiceManager) -> None:
    wait_until_fed(manager)
    assert service.tree.process is not None
    with stopped(service.tree.process):
        check_not_fed(manager)
    wait_until_fed(manager, 2)


@pytest.mark.promise("S48")
def test_not_fed_while_the_worker_is_stopped(service: Service, manager: ServiceManager) -> None:
    wait_until_fed(manager)
    assert service.tree.worker is not None
    with stopped(service.tree.worker):
        check_not_fed(manager)
    wait_until_fed(manager, 2)


@by_both
@pytest.mark.promise("S48")
def test_not_fed_while_the_disk_stalls(
    stalling_service: Service, disk: Disk, manager: ServiceManager
) -> None:
    wait_until_fed(manager)
    disk.stall_all()
    disk.wait_for("stalled")
    check_not_fed(manager)
    disk.go()
    wait_until_fed(manager, 2)


@pytest.mark.promise("S19", "S48")
def test_waiting_probe_does_not_delay_sigabrt(
    stalling_service: Service, disk: Disk, manager: ServiceManager
) -> None:
    """SIGABRT is the signal by which a service manager ends a service that it gives up."""
    tree = stalling_service.tree
    wait_until_fed(manager)
    disk.stall_all()
    disk.wait_for("stalled")
    tree.signal(signal.SIGABRT)
    assert stalling_service.end() == -signal.SIGABRT
    assert ffrfs("umount", tree.path).status == 0
    assert not tree.is_mounted
    disk.go()  # the worker's threads that read cannot end before
    assert tree.worker is not None
    assert tree.worker.wait(TIMEOUT_S)


@by_both
@pytest.mark.promise("S48")
def test_waiting_probe_does_not_delay_unmounting(
    stalling_service: Service, disk: Disk, manager: ServiceManager
) -> None:
    tree = stalling_service.tree
    tree.expect_log("busy: detached")
    wait_until_fed(manager)
    disk.stall_all()
    disk.wait_for("stalled")
    tree.signal(signal.SIGTERM)
    wait_until(lambda: not tree.is_mounted, "unmounted")
    disk.go()
    assert stalling_service.end() == 0


def test_probe_that_dies_is_replaced(service: Service, manager: ServiceManager) -> None:
    wait_until_fed(manager)
    before = probe_of(service.tree)
    os.kill(before.pid, signal.SIGKILL)
    assert before.wait(TIMEOUT_S)
    wait_until_fed(manager, 3)
    assert probe_of(service.tree).pid != before.pid
    times_s = [at_s for message, _, at_s in manager.messages if "WATCHDOG" in message]
    assert len(times_s) >= 4


def test_probe_ends_with_the_service(service: Service, manager: ServiceManager) -> None:
    wait_until_fed(manager)
    probe = probe_of(service.tree)
    service.tree.signal(signal.SIGTERM)
    assert service.end() == 0
    assert probe.wait(TIMEOUT_S)
    check_nothing_left(service.tree)


# The questions of the probe.


@pytest.mark.parametrize(
    "tree", [{}, {"empty": b""}, {"large": bytes(5 << 20)}], ids=["nothing", "empty", "large"]
)
def test_tree_without_a_small_file_is_probed_by_statfs(
    start_service: StartService,
    manager: ServiceManager,
    pack_tree: PackTree,
    tree: dict[str, bytes],
) -> None:
    service = start_service(pack_tree(tree), WATCHDOG_USEC=USEC)
    service.wait_until_ready()
    before = service.tree.requests()
    wait_until_fed(manager, 3)
    after = service.tree.requests()
    assert after["statfs"] > before["statfs"]
    assert after["read"] == before["read"] == 0


@pytest.mark.promise("S48")
def test_damaged_files_do_not_stop_the_feeding(
    start_service: StartService, manager: ServiceManager, pack_tree: PackTree
) -> None:
    pack = pack_tree({"a": b"first", "b": b"second", "c": b"third"})
    for offset, _ in record_extents(pack)[:2]:
        flip_byte(pack, offset)
    service = start_service(pack, WATCHDOG_USEC=USEC)
    service.tree.expect_log("cannot read a: ")
    service.tree.expect_log("cannot read b: ")
    service.wait_until_ready()
    wait_until_fed(manager, 5)
    wait_until(lambda: service.tree.log().count("cannot read") >= 2, "both are logged")
    assert service.tree.log().count("cannot read") == 2


def test_tree_unreadable_for_its_owner_is_probed_by_statfs(
    start_service: StartService, manager: ServiceManager, pack_tree: PackTree
) -> None:
    service = start_service(
        pack_tree(TREE), "-o", "uid=12345,gid=12345,umask=0777", WATCHDOG_USEC=USEC
    )
    service.wait_until_ready()
    wait_until_fed(manager, 3)


@by_both
@pytest.mark.promise("S48")
def test_fed_while_a_detached_mount_serves_its_open_files(
    root_user: None, service: Service, manager: ServiceManager
) -> None:
    with child(probes.hold_open, service.tree / "d/a") as reader:
        reader.next()
        subprocess.run(["umount", "-l", str(service.tree.path)], check=True, timeout=20)
        manager.heard_within(2 * INTERVAL_S)
        wait_until_fed(manager, 3)
        assert reader.next() == TREE["d"]["a"][1:]
    assert service.end() == 0


def test_background_daemon_feeds_the_watchdog_of_its_command(
    manager: ServiceManager, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(TREE))
    # WATCHDOG_PID is the command's process number: the shell becomes the command.
    prefix = ["sh", "-c", 'WATCHDOG_PID=$$ exec "$0" "$@"']
    done = tree.mount(prefix=prefix, env=manager.environment(WATCHDOG_USEC=USEC))
    assert done.status == 0
    wait_until_fed(manager, 3)
