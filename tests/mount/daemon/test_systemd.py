"""The units of systemd/ under a real systemd, with everything that confines a mount."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.checkout import CHECKOUT
from tests.mount.command import ffrfs, wait_until
from tests.mount.pid_one import SYSTEMD, PidOne, new_pid_one

TREE = {"a": b"alpha" * 50_000, "b": b"beta"}
PLACE = "/mnt/data"
CONFIGURED = f'packs = "/srv/data.ffr"\nmountpoint = "{PLACE}"\n'
# DAC_OVERRIDE, SETPCAP, SYS_ADMIN
CAPABILITIES = 1 << 1 | 1 << 8 | 1 << 21


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pack")
    source = folder / "source"
    source.mkdir()
    for name, content in TREE.items():
        (source / name).write_bytes(content)
    pack_folder(source, folder / "data.ffr")
    return folder / "data.ffr"


@pytest.fixture(scope="module")
def pid_one(tmp_path_factory: pytest.TempPathFactory, pack: Path, fuse: None) -> Iterator[PidOne]:
    """Yield one systemd for all tests; each test leaves it as it was."""
    if os.geteuid() != 0:
        pytest.skip("only root can be process 1")
    if not os.path.exists(SYSTEMD):
        pytest.skip("there is no systemd here (apt-get install systemd)")
    folder = tmp_path_factory.mktemp("systemd")
    installed = folder / "installed"
    done = ffrfs("install-units", "--destdir", installed)
    assert (done.status, done.err) == (0, "")
    with new_pid_one(folder, installed) as made:
        shutil.copy(pack, made.srv / "data.ffr")
        yield made


@pytest.fixture
def service(pid_one: PidOne) -> Iterator[str]:
    """Start ffrfs@data.service and yield its name; then stop it, and check that nothing is left."""
    unit = "ffrfs@data.service"
    pid_one.forget_log()
    pid_one.write_configuration("data", CONFIGURED)
    done = pid_one.systemctl("start", unit)
    assert done.status == 0, (done.err, pid_one.log())
    yield unit
    print(pid_one.log())  # shown if the test fails
    pid_one.systemctl("stop", unit)
    check_nothing_left(pid_one)
    pid_one.systemctl("reset-failed")


def start_with(pid_one: PidOne, name: str, drop_in: str) -> str:
    """Start a service that a drop-in changes; return its unit."""
    unit = f"ffrfs@{name}.service"
    pid_one.add_drop_in(unit, drop_in)
    pid_one.write_configuration(name, CONFIGURED)
    pid_one.systemctl("daemon-reload")
    assert pid_one.systemctl("start", unit).status == 0, pid_one.log()
    return unit


def check_nothing_left(pid_one: PidOne) -> None:
    wait_until(lambda: not pid_one.processes(), "daemon and worker have ended")
    assert pid_one.mounts() == []
    assert list(pid_one.mnt.iterdir()) == []


def check_stops(pid_one: PidOne, unit: str) -> None:
    assert pid_one.systemctl("stop", unit).status == 0
    check_nothing_left(pid_one)


def check_served(pid_one: PidOne) -> None:
    """Check that the mount serves process 1, and so everybody."""
    assert (PLACE, "fuse.ffrfs") in pid_one.mounts()
    assert pid_one.run("cat", f"{PLACE}/a", f"{PLACE}/b").out.encode() == TREE["a"] + TREE["b"]


def no_warning(pid_one: PidOne) -> bool:
    log = pid_one.log()
    return not any(word in log for word in ("WARNING", "ERROR", "Traceback"))


@pytest.mark.promise("S46")
def test_started_service_answers_and_stop_leaves_nothing(pid_one: PidOne, service: str) -> None:
    """Daemon and worker are confined while they serve."""
    check_served(pid_one)
    told = pid_one.show(service, "ActiveState", "SubState", "StatusText")
    assert told[:2] == ["active", "running"]
    assert "/srv/data.ffr" in told[2]
    assert no_warning(pid_one)
    assert ".conf" not in pid_one.log()
    for pid in pid_one.daemon_and_worker():
        proc = Path(f"/proc/{pid}")
        status = dict(re.findall(r"^(\w+):\s*(.*)$", (proc / "status").read_text(), re.MULTILINE))
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert int(status["CapBnd"], 16) & ~CAPABILITIES == 0
        assert re.search(r"^Max core file size +0 ", (proc / "limits").read_text(), re.MULTILINE)
        assert os.readlink(proc / "ns/mnt") == pid_one.mount_namespace
    check_stops(pid_one, service)
    assert pid_one.show(service, "ActiveState", "Result") == ["inactive", "success"]


@pytest.mark.promise("S46")
def test_operations_denied_to_a_service(pid_one: PidOne) -> None:
    unit, probe = "ffrfs@probed.service", CHECKOUT / "tests/mount" / "confined_probe.py"
    command = f'"{sys.executable}" -I "{probe}" /srv/answer'
    pid_one.add_drop_in(unit, f"[Service]\nExecStartPost={command}\n")
    pid_one.write_configuration("probed", CONFIGURED)
    pid_one.systemctl("daemon-reload")
    assert pid_one.systemctl("start", unit).status == 0
    check_stops(pid_one, unit)
    found = json.loads((pid_one.srv / "answer").read_text())
    assert {name: errno.errorcode.get(number, "") for name, number in found.items()} == {
        "the FUSE device": "",
        "another device": "EPERM",
        "a socket of the network": "EAFNOSUPPORT",
        "a socket of this machine": "",
        "a namespace": "EPERM",
        "another user": "EPERM",
        "another owner": "EPERM",
        "set-uid": "EPERM",
        "code in data": "EPERM",
    }


@pytest.mark.promise("S46")
def test_reload_applies_the_changed_configuration(pid_one: PidOne) -> None:
    """All settings are in the TOML file; there is no environment file."""
    unit = "ffrfs@toml.service"
    pid_one.forget_log()
    pid_one.write_configuration("toml", f"{CONFIGURED}cache_mb = 64\n")
    assert pid_one.systemctl("start", unit).status == 0
    assert cache_limit_bytes(pid_one) == 64 << 20
    before = pid_one.show(unit, "MainPID")
    pid_one.write_configuration("toml", f"{CONFIGURED}cache_mb = 32\n")
    assert pid_one.systemctl("reload", unit).status == 0
    wait_until(lambda: cache_limit_bytes(pid_one) == 32 << 20, "applied")
    wait_until(lambda: pid_one.is_in_state(unit, "active", "running"), "reloaded")
    assert pid_one.show(unit, "MainPID") == before
    check_served(pid_one)
    check_stops(pid_one, unit)
    assert no_warning(pid_one)


@pytest.mark.promise("S46")
def test_environment_file_wins_over_toml(pid_one: PidOne) -> None:
    """The file wins as a command line wins over --config; it still works, but with a warning."""
    unit = "ffrfs@both.service"
    pid_one.forget_log()
    pid_one.write_configuration(
        "both", 'packs = "/srv/absent.ffr"\nmountpoint = "/mnt/other"\ncache_mb = 64\nthreads = 1'
    )
    pid_one.write_settings(
        "both",
        PACKS="/srv/data.ffr",
        MOUNTPOINT=PLACE,
        OPTIONS="--cache-mb 32 --config /etc/ffrfs/both.toml",
    )
    assert pid_one.systemctl("start", unit).status == 0
    check_served(pid_one)
    assert cache_limit_bytes(pid_one) == 32 << 20
    check_stops(pid_one, unit)
    assert no_warning(pid_one)
    assert (
        "/etc/ffrfs/both.conf: a later version ignores this file; write its PACKS, MOUNTPOINT and "
        "OPTIONS into /etc/ffrfs/both.toml (ffrfs.conf(5))\n"
    ) in pid_one.log()


def test_stop_removes_the_mount_of_a_hanging_daemon(pid_one: PidOne) -> None:
    unit = start_with(pid_one, "hanging", "")
    daemon, _ = pid_one.daemon_and_worker()
    os.kill(daemon, signal.SIGSTOP)
    assert pid_one.systemctl("stop", "--no-block", unit).status == 0
    wait_until(lambda: pid_one.mounts() == [], "nothing is mounted")
    os.kill(daemon, signal.SIGKILL)  # as systemd does after TimeoutStopSec
    wait_until(lambda: not pid_one.processes(), "daemon and worker have ended")
    pid_one.systemctl("reset-failed")


def test_missing_configuration_is_an_error_that_names_the_file(pid_one: PidOne) -> None:
    unit = "ffrfs@nowhere.service"
    pid_one.forget_log()
    assert pid_one.systemctl("start", unit).status == 1
    assert pid_one.show(unit, "ActiveState", "ExecMainStatus") == ["failed", "1"]
    assert "/etc/ffrfs/nowhere.toml: no packs: name them there" in pid_one.log()
    check_nothing_left(pid_one)
    pid_one.systemctl("reset-failed")


def cache_limit_bytes(pid_one: PidOne) -> int:
    done = pid_one.run(sys.executable, "-P", "-m", "ffrfs", "stats", "--json", PLACE)
    assert done.status == 0, done.err
    size_bytes: int = json.loads(done.out)["cache_limit_bytes"]
    return size_bytes


@pytest.mark.promise("S19", "S46")
def test_killed_worker_is_replaced(pid_one: PidOne, service: str) -> None:
    daemon, worker = pid_one.daemon_and_worker()
    with pid_one.open_file(f"{PLACE}/a"):
        os.kill(worker, signal.SIGKILL)
        check_served(pid_one)
        now = pid_one.daemon_and_worker()
        assert now[0] == daemon
        assert now[1] != worker
    assert pid_one.show(service, "NRestarts") == ["0"]


@pytest.mark.promise("S19", "S46")
def test_killed_daemon_is_replaced(pid_one: PidOne, service: str) -> None:
    mounts = pid_one.mounts()
    with pid_one.open_file(f"{PLACE}/a") as opened:
        for count in ("1", "2"):
            os.kill(pid_one.daemon_and_worker()[0], signal.SIGKILL)
            wait_until(lambda count=count: pid_one.show(service, "NRestarts") == [count], "restart")
            wait_until(lambda: pid_one.is_in_state(service, "active", "running"), "it serves")
            check_served(pid_one)
        assert pid_one.mounts() == mounts
        assert pid_one.show(service, "RestartUSec") == ["0"], "a stop meanwhile leaves a dead mount"
        past_the_cache = ["dd", f"if={opened}", "iflag=direct"]
        done = subprocess.run(past_the_cache, capture_output=True, timeout=60, check=False)
        assert done.stdout == TREE["a"]


@pytest.mark.promise("S19", "S46")
def test_restart_command_waits_for_the_next_daemon(pid_one: PidOne, service: str) -> None:
    before = pid_one.daemon_and_worker()
    done = pid_one.run(sys.executable, "-P", "-m", "ffrfs", "restart", PLACE)
    assert (done.status, done.out, done.err) == (0, "", "")
    assert not {*before} & {*pid_one.daemon_and_worker()}
    check_served(pid_one)


def test_check_while_the_next_daemon_is_awaited(pid_one: PidOne) -> None:
    unit = start_with(pid_one, "awaited", "[Service]\nRestartSec=1h\n")
    command = (sys.executable, "-P", "-m", "ffrfs")
    os.kill(pid_one.daemon_and_worker()[0], signal.SIGKILL)
    wait_until(lambda: pid_one.is_in_state(unit, "activating", "auto-restart"), "it waits")
    try:
        check_served(pid_one)
        done = pid_one.run(*command, "check", PLACE)
        assert done.status == 1
        said = "has died; the service manager starts another one; if it does not: ffrfs umount "
        assert re.fullmatch(rf"WARNING {PLACE}: its daemon .* {said}{PLACE}\n", done.out)
    finally:
        assert pid_one.run(*command, "umount", PLACE).status == 0
        check_stops(pid_one, unit)


@pytest.mark.promise("S46")
def test_stop_while_the_next_daemon_is_awaited_leaves_nothing(pid_one: PidOne) -> None:
    """This is rare, as systemd does not wait without the drop-in."""
    unit = start_with(pid_one, "stopped", "[Service]\nRestartSec=1h\n")
    os.kill(pid_one.daemon_and_worker()[0], signal.SIGKILL)
    wait_until(lambda: pid_one.is_in_state(unit, "activating", "auto-restart"), "it waits")
    check_stops(pid_one, unit)


@pytest.mark.promise("S46")
def test_service_that_is_not_started_again_leaves_nothing(pid_one: PidOne) -> None:
    """The second death is that of a daemon that has gone on with the mount."""
    unit = start_with(pid_one, "failing", "[Unit]\nStartLimitBurst=2\n")
    os.kill(pid_one.daemon_and_worker()[0], signal.SIGKILL)
    wait_until(lambda: pid_one.show(unit, "NRestarts") == ["1"], "restarted")
    wait_until(lambda: pid_one.is_in_state(unit, "active", "running"), "it serves")
    os.kill(pid_one.daemon_and_worker()[0], signal.SIGKILL)
    wait_until(lambda: pid_one.is_in_state(unit, "failed", "failed"), "systemd gives up")
    check_nothing_left(pid_one)
    pid_one.systemctl("reset-failed")


@pytest.mark.promise("S19", "S46")
def test_killed_daemon_is_replaced_while_its_probe_hangs(pid_one: PidOne) -> None:
    """No signal ends a process that waits for the mount, so nobody may wait for its end."""
    unit = start_with(pid_one, "looking", "[Service]\nWatchdogSec=5s\nWatchdogSignal=SIGCONT\n")
    daemon, worker = pid_one.daemon_and_worker()
    wait_until(lambda: "pipe_read" in look_at_the_tree(pid_one)[1], "it has looked once")
    os.kill(worker, signal.SIGSTOP)
    try:
        wait_until(lambda: waits_for_the_mount(*look_at_the_tree(pid_one)), "it waits")
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: pid_one.show(unit, "NRestarts") == ["1"], "restarted")
    finally:
        os.kill(worker, signal.SIGCONT)
    wait_until(lambda: pid_one.is_in_state(unit, "active", "running"), "it serves")
    check_served(pid_one)
    assert pid_one.daemon_and_worker()[1] == worker, "it has served on"
    check_stops(pid_one, unit)


def look_at_the_tree(pid_one: PidOne) -> tuple[str, str]:
    """Return the state of the watchdog's probe of the tree, and where in the kernel it waits."""
    for process in pid_one.processes():
        with contextlib.suppress(OSError):  # the process has ended
            if b"tree_probe" in (process / "cmdline").read_bytes():
                state = (process / "stat").read_text().rpartition(") ")[2][0]
                return state, (process / "wchan").read_text()
    return "", ""


def waits_for_the_mount(state: str, place: str) -> bool:
    """Return whether it waits for a page of a READ, or for a LOOKUP if caches were dropped."""
    return state == "D" or place == "request_wait_answer"


def test_next_daemon_mounts_the_pack_that_is_configured_by_then(
    pid_one: PidOne, service: str
) -> None:
    """The next daemon mounts the pack that the file names then, and gives up the old mount."""
    shutil.copy(pid_one.srv / "data.ffr", pid_one.srv / "later.ffr")
    pid_one.write_configuration("data", f'packs = "/srv/later.ffr"\nmountpoint = "{PLACE}"\n')
    with pid_one.open_file(f"{PLACE}/a"):  # the mount is busy
        os.kill(pid_one.daemon_and_worker()[0], signal.SIGKILL)
        wait_until(lambda: pid_one.show(service, "NRestarts") == ["1"], "restarted")
        wait_until(lambda: pid_one.is_in_state(service, "active", "running"), "it serves")
        check_served(pid_one)
        assert len(pid_one.mounts()) == 1
        worker = pid_one.daemon_and_worker()[1]
        assert "--pack=/srv/later.ffr" in Path(f"/proc/{worker}/cmdline").read_text().split("\0")


def test_restart_of_a_busy_service_mounts_again(pid_one: PidOne) -> None:
    unit = start_with(pid_one, "busy", "")
    with pid_one.open_file(f"{PLACE}/a"):
        daemon, _ = pid_one.daemon_and_worker()
        assert pid_one.systemctl("restart", "--no-block", unit).status == 0
        kept = "NFileDescriptorStore"
        wait_until(lambda: pid_one.show(unit, kept) == ["0"], "nothing is kept for the next one")
        os.kill(daemon, signal.SIGKILL)  # as systemd does after TimeoutStopSec
        wait_until(lambda: pid_one.is_in_state(unit, "active", "running"), "it serves again")
        check_served(pid_one)
        assert len(pid_one.mounts()) == 1
    check_stops(pid_one, unit)


def test_daemon_that_hangs_is_replaced(pid_one: PidOne) -> None:
    """systemd waits five seconds for a message of the daemon."""
    unit = start_with(pid_one, "watched", "[Service]\nWatchdogSec=5s\n")
    os.kill(pid_one.daemon_and_worker()[0], signal.SIGSTOP)
    wait_until(lambda: pid_one.show(unit, "NRestarts") != ["0"], "restarted")
    wait_until(lambda: pid_one.is_in_state(unit, "active", "running"), "mounted again")
    check_served(pid_one)
    check_stops(pid_one, unit)


def test_pyfuse3_engine_serves_in_the_same_unit(pid_one: PidOne) -> None:
    unit = "ffrfs@python.service"
    pid_one.forget_log()
    pid_one.write_configuration("python", f'{CONFIGURED}engine = "pyfuse3"\n')
    assert pid_one.systemctl("start", unit).status == 0
    check_served(pid_one)
    check_stops(pid_one, unit)
    assert no_warning(pid_one)


def test_umount_by_hand_ends_the_service(pid_one: PidOne, service: str) -> None:
    # The watchdog's reads make the mount busy for a moment.
    wait_until(lambda: pid_one.run("umount", PLACE).status == 0, "unmounted")
    wait_until(lambda: pid_one.is_in_state(service, "inactive", "dead"), "ended")
    assert pid_one.show(service, "Result", "NRestarts") == ["success", "0"]
    check_nothing_left(pid_one)


def test_service_with_a_missing_pack_is_not_retried(pid_one: PidOne) -> None:
    unit = "ffrfs@absent.service"
    pid_one.write_configuration("absent", f'packs = "/srv/absent.ffr"\nmountpoint = "{PLACE}"\n')
    assert pid_one.systemctl("start", unit).status == 1
    assert pid_one.show(unit, "ActiveState", "ExecMainStatus") == ["failed", "1"]
    assert "/srv/absent.ffr: cannot open: No such file or directory" in pid_one.log()
    check_nothing_left(pid_one)
    pid_one.systemctl("reset-failed")


def test_second_service_leaves_a_live_mount_alone(pid_one: PidOne, service: str) -> None:
    pid_one.write_configuration("second", CONFIGURED)
    assert pid_one.systemctl("start", "ffrfs@second.service").status == 1
    pid_one.systemctl("stop", "ffrfs@second.service")
    assert "is already mounted there" in pid_one.log()
    assert pid_one.show(service, "ActiveState", "NRestarts") == ["active", "0"]
    check_served(pid_one)


@pytest.mark.promise("S46")
def test_mount_unit(pid_one: PidOne) -> None:
    assert pid_one.systemctl("start", "mnt-data.mount").status == 0
    check_served(pid_one)
    assert pid_one.systemctl("stop", "mnt-data.mount").status == 0
    (pid_one.mnt / "data").rmdir()  # systemd made it
    check_nothing_left(pid_one)


@pytest.mark.promise("S46")
def test_automount_unit(pid_one: PidOne) -> None:
    if "autofs" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("the kernel has no autofs")
    pid_one.add_drop_in("mnt-data.automount", "[Automount]\nTimeoutIdleSec=1s\n")
    pid_one.systemctl("daemon-reload")
    assert pid_one.systemctl("start", "mnt-data.automount").status == 0
    for _ in range(2):
        assert pid_one.mounts() == [(PLACE, "autofs")]
        assert pid_one.run("cat", f"{PLACE}/b").out.encode() == TREE["b"]
        wait_until(lambda: not pid_one.processes(), "unmounted when nobody looked any more")
    assert pid_one.systemctl("stop", "mnt-data.automount", "mnt-data.mount").status == 0
    (pid_one.mnt / "data").rmdir()  # systemd made it
    check_nothing_left(pid_one)


def test_target_starts_and_stops_enabled_services(pid_one: PidOne) -> None:
    unit = "ffrfs@enabled.service"
    pid_one.write_configuration("enabled", CONFIGURED)
    pid_one.enable("ffrfs@.service", unit)
    assert pid_one.systemctl("start", "ffrfs.target").status == 0
    wait_until(lambda: pid_one.is_in_state(unit, "active", "running"), "started with it")
    check_served(pid_one)
    assert pid_one.systemctl("stop", "ffrfs.target").status == 0
    # It also stops mnt-data.mount, to systemd the same mount: the order does not matter.
    wait_until(lambda: pid_one.is_in_state(unit, "inactive", "dead"), "stopped with it")
    assert pid_one.show(unit, "Result") == ["success"]
    check_nothing_left(pid_one)
