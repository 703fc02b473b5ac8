"""What a mount tells a service manager: messages of sd_notify, and exit statuses."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from ffrfs.mount.daemon.notify import SEND_TIMEOUT_S, Notifier
from ffrfs.mount.engines.worker import PATH_VARIABLE
from tests.checkout import CHECKOUT
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import check_nothing_left, ffrfs, wait_until
from tests.mount.disk import Disk
from tests.mount.disk_files import content
from tests.mount.makers import MakeMount, PackTree, StartService, by_both
from tests.mount.notify_socket import Service, ServiceManager
from tests.mount.waiting import waited_s

TREE = {"a": b"alpha" * 10_000, "d": {"b": b"beta"}}


@pytest.fixture
def service(start_service: StartService, pack_tree: PackTree) -> Service:
    made: Service = start_service(pack_tree(TREE))
    made.wait_until_ready()
    return made


@pytest.mark.promise("S47")
@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
def test_ready_message_names_the_pack_and_the_mount_point(
    new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path, is_abstract: bool
) -> None:
    tree = new_mount(pack_tree(TREE))
    manager = ServiceManager(None if is_abstract else tmp_path / "notify")
    service = Service(tree, manager)
    try:
        message = service.wait_until_ready()
        assert tree.ask(probes.read, "a") == TREE["a"]
        engine = f"engine {tree.engine}, transport dev"
        assert message["STATUS"] == f"{tree.pack} at {tree.path}, {engine}, 4 entries"
        assert "MAINPID" not in message  # the daemon is the process that was started
        tree.signal(signal.SIGTERM)
        manager.wait_for("STOPPING")
        assert service.end() == 0
        assert {pid for _, pid, _ in manager.messages} == {service.process.pid}
    finally:
        tree.close()
        service.close()
        manager.close()
    check_nothing_left(tree)


@by_both
@pytest.mark.promise("S47")
def test_not_ready_while_the_disk_stalls(
    disk: Disk, start_service: StartService, manager: ServiceManager
) -> None:
    disk.stall_all()
    service = start_service(disk.pack)
    disk.wait_for("stalled")
    assert manager.heard_within(0.5) == []
    disk.go()
    service.wait_until_ready()
    assert service.tree.ask(probes.read, "cold") == content("cold")


@pytest.mark.promise("S47")
def test_not_ready_while_the_tree_does_not_answer(
    start_service: StartService, manager: ServiceManager, pack_tree: PackTree, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    worker = tmp_path / "worker"
    worker.write_text(
        # The first line of a script cannot have an interpreter's path with a blank.
        f"#!/bin/sh\n'''exec' '{sys.executable}' \"$0\" \"$@\"\n' '''\n"
        f"import os, sys, time; sys.path.insert(0, {str(CHECKOUT)!r})\n"
        "from tests.mount import holding_worker\n"
        "def serve(connection, serve=holding_worker.serve):\n"
        f"    while not os.path.exists({str(go)!r}):\n"
        "        time.sleep(0.02)\n"
        "    serve(connection)\n"
        "holding_worker.serve = serve\n"
        "holding_worker.main()\n"
    )
    worker.chmod(0o755)
    service = start_service(pack_tree(TREE), **{PATH_VARIABLE: str(worker)})
    wait_until(lambda: service.tree.is_mounted, "mounted")
    assert "READY" not in manager.heard_within(0.5)
    go.touch()
    service.wait_until_ready()


@by_both
@pytest.mark.promise("S47")
def test_stopping_message_comes_before_the_end(service: Service, manager: ServiceManager) -> None:
    tree = service.tree
    tree.expect_log("busy: detached")
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        tree.signal(signal.SIGTERM)
        manager.wait_for("STOPPING")
        wait_until(lambda: "busy: detached" in tree.log(), "it is taken away")
        assert reader.next() == TREE["a"][1:]
        assert service.process.poll() is None
    assert service.end() == 0
    assert [m for m, _, _ in manager.messages if "STOPPING" in m] == [{"STOPPING": "1"}]


@pytest.mark.promise("S18", "S47")
def test_signal_before_readiness_ends_the_service_with_status_0(
    start_service: StartService, manager: ServiceManager, pack_tree: PackTree
) -> None:
    service = start_service(pack_tree(TREE))
    wait_until(lambda: service.tree.is_mounted, "mounted")
    service.process.send_signal(signal.SIGTERM)
    assert service.end() == 0
    manager.wait_for("STOPPING")
    assert not service.tree.is_mounted
    assert not service.tree.path.exists()


@pytest.mark.promise("S47")
def test_service_survives_the_death_of_its_worker(
    service: Service, manager: ServiceManager
) -> None:
    tree = service.tree
    tree.expect_log("killed by SIGKILL")
    os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
    wait_until(lambda: tree.statistics()["worker"]["starts"] == 1, "another one serves")
    assert ffrfs("umount", tree.path).status == 0
    manager.wait_for("STOPPING")
    assert service.end() == 0


@pytest.mark.promise("S47")
@pytest.mark.parametrize("engine", ["uring"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_mount_made_again_is_ready_again(
    service: Service, manager: ServiceManager, number: signal.Signals
) -> None:
    tree = service.tree
    tree.expect_log(f"killed by {number.name}")
    assert tree.worker is not None
    os.kill(tree.worker.pid, number)
    tree.wait_until_anew()
    manager.wait_for("READY")
    assert tree.ask(probes.read, "a") == TREE["a"]
    assert not any("STOPPING" in message for message, _, _ in manager.messages)
    tree.signal(signal.SIGTERM)
    manager.wait_for("STOPPING")
    assert service.end() == 0


def test_pack_that_cannot_be_opened_is_never_ready(
    start_service: StartService, manager: ServiceManager, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.ffr"
    bad.write_bytes(b"no pack at all")
    service = start_service(bad)
    assert service.end() == 1
    assert manager.heard_within(0) == []


def test_children_do_not_inherit_the_notify_socket(service: Service) -> None:
    own = Path(f"/proc/{service.process.pid}/cmdline").read_bytes()
    programs = 0
    for process in service.tree.processes():
        # A child that looks at the mount for the daemon may have ended.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # Until a child executes its program, /proc shows the daemon's line and environment.
            if Path(f"/proc/{process.pid}/cmdline").read_bytes() != own:
                assert b"NOTIFY_SOCKET" not in Path(f"/proc/{process.pid}/environ").read_bytes()
                programs += 1
    assert programs > 0  # the worker


@pytest.mark.promise("S47")
def test_names_cannot_forge_a_message(
    start_service: StartService, manager: ServiceManager, pack_tree: PackTree, tmp_path: Path
) -> None:
    pack = tmp_path / "a\nMAINPID=1\nb\x1b.ffr"
    pack_tree(TREE).rename(pack)
    message = start_service(pack).wait_until_ready()
    assert message.keys() == {"READY", "STATUS"}
    assert message["STATUS"].startswith(f"{tmp_path}/a\\nMAINPID=1\\nb\\x1b.ffr at ")


# Daemons in the background.


@pytest.mark.promise("S47")
def test_background_daemon_sends_its_process_number(
    manager: ServiceManager, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(TREE))
    assert tree.mount(env=manager.environment()).status == 0
    returned_s = time.time()
    assert tree.process is not None
    message = manager.wait_for("READY")
    said_s = next(at_s for names, _, at_s in manager.messages if "READY" in names)
    assert said_s <= returned_s  # the kernel's timestamp of the message
    assert message["MAINPID"] == str(tree.process.pid)
    assert ffrfs("umount", tree.path).status == 0
    manager.wait_for("STOPPING")


def test_background_daemon_of_a_script_is_not_the_main_process(
    manager: ServiceManager, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    """The manager has started a script, which mounts; so a guardian replaces the daemon."""
    tree = new_mount(pack_tree(TREE))
    environment = manager.environment(SYSTEMD_EXEC_PID=str(os.getpid()), FDSTORE="16")
    assert tree.mount(env=environment).status == 0
    assert "MAINPID" not in manager.wait_for("READY")
    assert "FDSTORE" not in manager.heard_within(0)
    tree.expect_log("the daemon before this one")
    tree.replace_daemon()
    assert tree.ask(probes.read, "a") == TREE["a"]


def test_mount_of_a_program_sends_no_notifications(
    manager: ServiceManager, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(TREE))
    theirs, ours = os.pipe()
    try:
        tree.mount("--while-open", str(theirs), pass_fds=[theirs], env=manager.environment())
        assert tree.is_served
    finally:
        os.close(theirs)
        os.close(ours)
    check_nothing_left(tree)
    assert manager.heard_within(0) == []


# Sockets without a working manager.


def test_missing_service_manager_gives_one_warning(
    start_service: StartService, manager: ServiceManager, pack_tree: PackTree
) -> None:
    os.unlink(manager.address)
    tree = start_service(pack_tree(TREE), WATCHDOG_USEC="200000").tree
    told = "No such file or directory: the service manager gets no notifications"
    tree.expect_log(told)
    wait_until(lambda: told in tree.log(), "it was tried")
    assert tree.ask(probes.read, "a") == TREE["a"]
    assert ffrfs("umount", tree.path).status == 0
    assert tree.log().count(told) == 1


@pytest.mark.parametrize("address", ["vsock:2:1234", "relative", ""])
def test_invalid_notify_socket_is_ignored(address: str, caplog: pytest.LogCaptureFixture) -> None:
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000", "FDSTORE": "16"}
    notifier = Notifier.from_environment(environment)
    assert environment == {"FDSTORE": "16"}
    assert not (notifier.is_active or notifier.keeps_descriptors)
    notifier.ready("nobody hears")
    assert caplog.messages == [
        f"NOTIFY_SOCKET={address}: neither a path nor an abstract name: ignored"
    ]


@pytest.mark.parametrize(
    ("usec", "pid", "interval_s"),
    [
        ("2000000", None, 1.0),
        ("2000000", "ours", 1.0),
        ("2000000", "1", None),
        ("0", None, None),
        ("-5", None, None),
        ("9" * 30, None, None),
        ("soon", None, None),
    ],
)
def test_watchdog_interval_comes_from_the_environment(
    usec: str, pid: str | None, interval_s: float | None
) -> None:
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": usec}
    if pid is not None:
        environment["WATCHDOG_PID"] = str(os.getpid()) if pid == "ours" else pid
    assert Notifier.from_environment(environment).watchdog_interval_s == interval_s
    assert environment == {}


def test_nothing_is_sent_after_stopping(manager: ServiceManager) -> None:
    notifier = Notifier(manager.address)
    notifier.status("well")
    notifier.stopping()
    notifier.stopping()
    notifier.ready("late")
    notifier.feed()
    assert manager.heard_within(0.1) == ["STATUS", "STOPPING"]


def test_manager_that_reads_nothing_causes_only_a_short_delay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier(str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind(str(tmp_path / "notify"))
        while not caplog.messages:
            notifier.feed()  # until the socket's queue is full
        begin_s = waited_s()
        notifier.feed()
        assert waited_s() - begin_s < SEND_TIMEOUT_S / 2
        notifier.status("late")
        assert waited_s() - begin_s < 2 * SEND_TIMEOUT_S
    assert len(caplog.messages) == 1
