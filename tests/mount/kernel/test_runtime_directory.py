"""The runtime directory is full, read-only, taken or removed: commands say so, or still mount.

The tests have a mount namespace of their own, since root's directory is /run/ffrfs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.kernel import runtime_lock, state
from ffrfs.mount.kernel.process import Process
from tests.mount.command import (
    ENGINES,
    Done,
    children,
    is_guardian,
    is_worker,
    kill_for_good,
    stop,
    wait_until,
)
from tests.mount.machine import Machine
from tests.mount.makers import ORDINARY_USER_ID, PackTree

CONTENT = "content"
DIRECTORY = "/run/ffrfs"


class Place:
    """A pack and a mount point of a user, on a machine whose /run holds 256 KiB."""

    def __init__(self, machine: Machine, folder: Path, pack: Path, user_id: int) -> None:
        self.machine = machine
        self.user_id = user_id
        self.home = folder / "home"
        self.home.mkdir()
        os.chown(self.home, user_id, user_id)
        self.pack = folder / "pack.ffr"
        shutil.copyfile(pack, self.pack)
        self.mountpoint = self.home / "mount"
        # A user's directory is below XDG_RUNTIME_DIR; root's, too, if /run/ffrfs cannot be used.
        self.environment = ["PATH=/usr/bin:/bin", f"XDG_RUNTIME_DIR={self.home}"]
        machine.admin("mount -t tmpfs -o mode=755,size=256k tmpfs /run")
        if user_id != 0:
            machine.open_to_all()

    def ffrfs(
        self, *arguments: str | Path, environment: Sequence[str] = (), user_id: int | None = None
    ) -> Done:
        return self.machine.ffrfs(
            *arguments,
            user_id=self.user_id if user_id is None else user_id,
            environment=environment or self.environment,
        )

    def mount(self, *arguments: str, **more: Any) -> Done:
        return self.ffrfs("mount", *arguments, self.pack, self.mountpoint, **more)

    def read(self) -> str:
        path = self.mountpoint / "a"
        return self.machine.run("cat", path, user_id=self.user_id).out

    def listed(self, **more: Any) -> dict[str, Any]:
        """Return the mount's entry in `ffrfs ps`, once its daemon has answered.

        There may be mounts of the same user from other tests.
        """
        found: dict[str, Any] = {}

        def has_answered() -> bool:
            done = self.ffrfs("ps", "--json", **more)
            assert (done.status, done.err) == (0, "")
            place = str(self.mountpoint)
            (mount,) = (one for one in json.loads(done.out) if one["mountpoint"] == place)
            found.clear()
            found.update(mount)
            return bool(mount["state"] != "not answering")

        wait_until(has_answered, "it has answered")
        return found

    def figures(self) -> dict[str, Any]:
        """Return its daemon's answer to `ffrfs stats`."""
        done = self.ffrfs("stats", "--json", self.mountpoint)
        assert done.status == 0, done
        found: dict[str, Any] = json.loads(done.out)
        return found

    @staticmethod
    def kill(daemon: Process) -> None:
        """Kill the daemon and its worker."""
        stop(daemon.pid)  # otherwise it would replace the worker itself
        for one in children(daemon):
            if is_worker(one):
                os.kill(one.pid, signal.SIGKILL)
        os.kill(daemon.pid, signal.SIGKILL)

    def seen(self, path: str) -> str:
        """Return a path of the machine as the test sees it."""
        return self.machine.namespace.removesuffix("ns/mnt") + "root" + path

    def runtime_files(self) -> list[str]:
        """Return the files in it, without those that are kept for a while."""
        done = self.machine.run("find", DIRECTORY, str(self.home), "-mindepth", "1")
        return [path for path in done.out.split() if not path.endswith(state.KEPT)]

    def fill(self) -> None:
        """Leave no room below /run."""
        assert self.machine.run("dd", "if=/dev/zero", "of=/run/filling", "bs=4k").status == 1


@pytest.fixture
def as_root(machine: Machine, places: Path, pack_tree: PackTree) -> Place:
    return Place(machine, places, pack_tree({"a": CONTENT.encode()}), 0)


@pytest.fixture
def as_user(machine: Machine, places: Path, pack_tree: PackTree) -> Place:
    return Place(machine, places, pack_tree({"a": CONTENT.encode()}), ORDINARY_USER_ID)


def fails(done: Done, status: int, *words: str) -> None:
    assert done.status == status, done
    (line,) = done.err.splitlines()
    assert line.startswith("ffrfs: ")
    for word in words:
        assert word in line


@pytest.mark.promise("S16")
def test_full_runtime_directory(as_root: Place) -> None:
    as_root.fill()
    for arguments in ([], ["--foreground"], ["--check"]):
        done = as_root.mount(*arguments)
        fails(done, 2, f"{DIRECTORY}: No space left on device", "make room there")
        assert not as_root.mountpoint.exists()
    assert as_root.runtime_files() == []


@pytest.mark.parametrize("engine", ENGINES)
def test_runtime_directory_that_fills_up_while_mounted(as_root: Place, engine: str) -> None:
    assert as_root.mount("--engine", engine).status == 0
    as_root.fill()
    assert as_root.listed()["state"] == "live"
    assert as_root.ffrfs("stats", as_root.mountpoint).status == 0
    assert as_root.read() == CONTENT
    done = as_root.ffrfs("umount", as_root.mountpoint)
    assert (done.status, done.err) == (0, "")
    assert as_root.runtime_files() == []


@pytest.mark.promise("S19")
def test_full_runtime_directory_when_the_next_daemon_starts(as_root: Place) -> None:
    assert as_root.mount("--engine", "native").status == 0
    as_root.fill()
    as_root.kill(Process(as_root.listed()["pid"], 0))
    assert as_root.read() == CONTENT
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0
    wait_until(lambda: as_root.machine.processes() == [], "the daemon has ended")
    assert as_root.runtime_files() == []


@pytest.mark.promise("S19")
@pytest.mark.parametrize("is_alone", [True, False])
def test_unusable_runtime_directory_when_the_next_daemon_starts(
    as_root: Place, is_alone: bool
) -> None:
    """The first runtime directory, or each of them, cannot be used."""
    log_file = as_root.home / "log"
    assert as_root.mount("--engine", "native", "--log-file", str(log_file)).status == 0
    others = [] if is_alone else [as_root.home / "ffrfs", Path("/tmp/ffrfs-0")]
    for path in others:
        as_root.machine.admin(f"mkdir -p {path} && mount -t tmpfs -o mode=755 tmpfs {path}")
    as_root.machine.admin(f"chmod 755 {DIRECTORY}")
    as_root.kill(Process(as_root.listed()["pid"], 0))
    assert as_root.read() == CONTENT
    reason = "must be closed to other users"
    wait_until(lambda: log_file.read_text().count(reason) == 1 + len(others), "it is logged")
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0
    wait_until(lambda: as_root.machine.processes() == [], "the daemon has ended")


def test_state_is_written_once_there_is_room(as_root: Place) -> None:
    assert as_root.mount("--engine", "native").status == 0
    as_root.fill()
    os.kill(as_root.listed()["pid"], signal.SIGKILL)
    found = as_root.figures()
    assert found["daemon_starts"] == 1
    as_root.machine.admin("rm /run/filling")
    wait_until(lambda: as_root.listed()["pid"] == found["daemon_pid"], "it is recorded")
    done = as_root.ffrfs("restart", as_root.mountpoint)
    assert (done.status, done.err) == (0, "")
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0
    assert as_root.runtime_files() == []


@pytest.mark.promise("S22")
def test_commands_find_a_daemon_that_changes_its_directory(as_root: Place) -> None:
    assert as_root.mount("--engine", "native").status == 0
    as_root.machine.admin(
        f"mount --bind {DIRECTORY} {DIRECTORY} && mount -o remount,bind,ro {DIRECTORY}"
    )
    for starts in (1, 2):
        os.kill(as_root.listed()["pid"], signal.SIGKILL)
        wait_until(
            lambda: as_root.ffrfs("check", as_root.mountpoint).status == 0, "another one serves"
        )
        found = as_root.figures()
        assert found["daemon_starts"] == starts
        assert found["daemon_pid"] == as_root.listed()["pid"]
        if starts == 1:
            as_root.machine.admin(f"umount {DIRECTORY}")
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0
    assert as_root.runtime_files() == [str(as_root.home / "ffrfs")]


@pytest.mark.promise("S19")
def test_log_that_cannot_be_opened_when_the_next_daemon_starts(as_root: Place) -> None:
    assert as_root.mount("--engine", "native").status == 0
    log_path = state.log_path(DIRECTORY, str(as_root.mountpoint))
    as_root.machine.admin(f"rm {log_path} && mkdir {log_path}")
    as_root.kill(Process(as_root.listed()["pid"], 0))
    assert as_root.read() == CONTENT
    assert as_root.figures()["daemon_starts"] == 1
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0
    as_root.machine.admin(f"rmdir {log_path}")


@pytest.mark.long
@pytest.mark.promise("S19")
def test_lock_held_by_another_process(as_root: Place) -> None:
    """A command hangs; `ffrfs umount`, the next daemon and its end wait 5 seconds each."""
    assert as_root.mount("--engine", "native").status == 0
    daemon = Process(as_root.listed()["pid"], 0)
    (guardian,) = filter(is_guardian, children(daemon))
    with runtime_lock.locked(as_root.seen(DIRECTORY)) as is_held:
        assert is_held
        os.kill(guardian.pid, signal.SIGKILL)
        wait_until(
            lambda: any(is_guardian(one) and one != guardian for one in children(daemon)),
            "another one guards",
        )
        assert as_root.figures()["daemon_pid"] == daemon.pid
        kept = f"{DIRECTORY}: another process has kept its lock for 5 s"
        fails(as_root.ffrfs("umount", as_root.mountpoint), 1, kept)
        as_root.kill(daemon)
        assert as_root.read() == CONTENT
        os.kill(as_root.figures()["daemon_pid"], signal.SIGTERM)
        wait_until(lambda: as_root.machine.processes() == [], "the daemon has ended")
    assert as_root.runtime_files() == []


def test_state_is_written_once_the_lock_is_free(as_root: Place) -> None:
    assert as_root.mount("--engine", "native").status == 0
    directory, daemon = as_root.seen(DIRECTORY), Process(as_root.listed()["pid"], 0)
    (guardian,) = filter(is_guardian, children(daemon))

    def others() -> list[Process]:
        return [one for one in children(daemon) if is_guardian(one) and one != guardian]

    def recorded() -> Process | None:
        known = state.load(directory, str(as_root.mountpoint))
        return None if known is None else known.guardian

    with runtime_lock.locked(directory):
        os.kill(guardian.pid, signal.SIGKILL)
        wait_until(others, "another one guards")
        assert as_root.figures()["daemon_pid"] == daemon.pid
        assert recorded() == guardian
    wait_until(lambda: [recorded()] == others(), "it is recorded")
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0


@pytest.mark.promise("S19")
def test_restart_waits_until_the_new_guardian_is_recorded(as_root: Place) -> None:
    """Otherwise commands would take the mount for dead until the next daemon answers."""
    log = as_root.home / "log"
    assert as_root.mount("--engine", "native", "--log-file", str(log)).status == 0
    daemon = Process(as_root.listed()["pid"], 0)
    (guardian,) = filter(is_guardian, children(daemon))
    with ThreadPoolExecutor(1) as threads:
        with runtime_lock.locked(as_root.seen(DIRECTORY)):
            os.kill(guardian.pid, signal.SIGKILL)
            restarting = threads.submit(as_root.ffrfs, "restart", as_root.mountpoint)
            wait_until(lambda: "the next daemon begins" in log.read_text(), "it is about to end")
        done = restarting.result()
    assert (done.status, done.err) == (0, "")
    assert as_root.figures()["daemon_pid"] != daemon.pid
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0


def test_read_only_runtime_directory(as_root: Place) -> None:
    as_root.machine.admin(
        f"mkdir -m 700 {DIRECTORY} && mount --bind {DIRECTORY} {DIRECTORY} && "
        f"mount -o remount,bind,ro {DIRECTORY}"
    )
    assert as_root.mount("--check").status == 0
    assert as_root.mount().status == 0
    assert as_root.listed()["state"] == "live"
    assert as_root.ffrfs("stats", as_root.mountpoint).status == 0
    assert as_root.ffrfs("umount", as_root.mountpoint).status == 0
    assert as_root.runtime_files() == [str(as_root.home / "ffrfs")]


def test_wrong_file_or_mode_at_the_path_of_the_directory(as_root: Place) -> None:
    refused = "must be a directory of user 0; remove it, or set XDG_RUNTIME_DIR to"
    for make, reason in {
        f"touch {DIRECTORY}": refused,
        f"ln -s {as_root.home} {DIRECTORY}": refused,
        f"mkdir -m 755 {DIRECTORY}": "must be closed to other users; run: chmod 700",
    }.items():
        as_root.machine.admin(make)
        fails(as_root.mount(), 32, f"{DIRECTORY}: {reason}")
        assert as_root.ffrfs("ps").status == 0
        as_root.machine.admin(f"rm -r {DIRECTORY}")
    assert as_root.runtime_files() == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.promise("S18")
def test_runtime_directory_removed_while_mounted(as_user: Place, engine: str) -> None:
    for end in ("umount", "SIGTERM"):
        assert as_user.mount("--engine", engine).status == 0
        pid = as_user.listed()["pid"]
        shutil.rmtree(as_user.home / "ffrfs")
        assert as_user.read() == CONTENT
        assert as_user.listed()["state"] == "unknown"
        fails(as_user.ffrfs("stats", as_user.mountpoint), 1, "runtime directory was removed")
        if end == "umount":
            done = as_user.ffrfs("umount", as_user.mountpoint)
            assert (done.status, done.err) == (0, "")
        else:
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: as_user.machine.processes() == [], "the daemon has ended")
        assert as_user.machine.find(as_user.mountpoint) is None
        assert not as_user.mountpoint.exists()


@pytest.mark.promise("S18", "S22")
def test_files_survive_a_program_that_removes_old_files(as_user: Place) -> None:
    """Old files may be removed, as in /tmp; files that were removed anyway are made again."""
    assert as_user.mount().status == 0
    files = list((as_user.home / "ffrfs").iterdir())
    assert sorted(path.suffix for path in files) == [".json", ".log", ".sock"]
    began_s = time.time()
    for path in files:
        os.utime(path, (0, 0))
    wait_until(lambda: all(path.stat().st_mtime > began_s - 60 for path in files), "are touched")
    (known,) = (path for path in files if path.suffix == ".json")
    before = known.read_bytes()
    known.unlink()
    wait_until(known.exists, "the state is there again")
    assert known.read_bytes() == before
    (control,) = (path for path in files if path.suffix == ".sock")
    control.unlink()
    wait_until(control.exists, "the socket is there again")
    assert as_user.figures()["daemon_starts"] == 0
    assert as_user.ffrfs("umount", as_user.mountpoint).status == 0
    assert not control.exists()
    assert not as_user.mountpoint.exists()


def test_daemon_is_found_from_outside_of_the_session(as_user: Place) -> None:
    session = f"/run/user/{ORDINARY_USER_ID}"
    as_user.machine.admin(f"install -d -m 700 -o {ORDINARY_USER_ID} {session}")
    as_user.environment[1] = f"XDG_RUNTIME_DIR={session}"
    assert as_user.mount().status == 0
    outside = as_user.environment[:1]
    assert as_user.listed(environment=outside)["state"] == "live"
    assert as_user.ffrfs("umount", as_user.mountpoint, environment=outside).status == 0
    assert not as_user.mountpoint.exists()


def test_log_of_another_sessions_mount_is_not_shown(as_user: Place) -> None:
    other = as_user.home / "other"
    other.mkdir()
    shutil.chown(other, ORDINARY_USER_ID)
    elsewhere = [as_user.environment[0], f"XDG_RUNTIME_DIR={other}"]
    place = as_user.mountpoint
    assert as_user.mount().status == 0
    assert as_user.ffrfs("umount", place).status == 0
    assert "mounted at" in as_user.ffrfs("log", place).out
    assert as_user.mount(environment=elsewhere).status == 0
    fails(as_user.ffrfs("log", place), 1, f"{place}: its daemon cannot be found: ", "XDG_RUNTIME")
    assert "mounted at" in as_user.ffrfs("log", place, environment=elsewhere).out
    assert as_user.ffrfs("umount", place, environment=elsewhere).status == 0
    assert "mounted at" in as_user.ffrfs("log", place).out


def test_check_over_a_dead_mount(as_user: Place) -> None:
    assert as_user.mount().status == 0
    kill_for_good(as_user.listed()["pid"])
    wait_until(lambda: as_user.listed()["state"] == "dead", "it is dead")
    wait_until(lambda: as_user.machine.processes() == [], "its worker has ended")
    done = as_user.mount("--check")
    assert (done.status, done.err) == (0, "")
    assert as_user.mount().status == 0
    assert as_user.read() == CONTENT
    assert as_user.ffrfs("umount", as_user.mountpoint).status == 0


def test_process_number_of_a_dead_daemon_reused_by_another_user(as_user: Place) -> None:
    """The files of that process in /proc are closed (hidepid=)."""
    as_user.machine.admin("mount -t proc -o hidepid=1 proc /proc")
    assert as_user.mount().status == 0
    kill_for_good(as_user.listed()["pid"])
    wait_until(lambda: as_user.machine.processes() == [], "its worker has ended")
    (path,) = (as_user.home / "ffrfs").glob("*.json")
    known = json.loads(path.read_text())
    known["process"]["pid"] = known["guardian"]["pid"] = os.getpid()
    path.write_text(json.dumps(known))
    assert as_user.listed()["state"] == "dead"
    fails(as_user.ffrfs("stats", as_user.mountpoint), 1, "has died; remove the mount with")
    assert as_user.mount().status == 0
    assert as_user.read() == CONTENT
    assert as_user.ffrfs("umount", as_user.mountpoint).status == 0


def test_statistics_if_the_fetcher_is_hidden_in_proc(as_user: Place) -> None:
    """As no user may look into the fetcher, /proc with hidepid= hides it."""
    as_user.machine.admin("mount -t proc -o hidepid=1 proc /proc")
    url = f"file://{as_user.pack}"
    assert as_user.ffrfs("mount", "--cache-mode=stream", url, as_user.mountpoint).status == 0
    done = as_user.ffrfs("stats", "--json", as_user.mountpoint)
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["fetcher_resident_bytes"] is None
    assert as_user.ffrfs("umount", as_user.mountpoint).status == 0


IN_A_NAMESPACE = """
set -e
ffrfs() { python -P -m ffrfs "$@"; }
ffrfs mount --check "$pack" "$place"
ffrfs mount --engine "$engine" "$pack" "$place"
cat "$place/a"
ffrfs ps
ffrfs stats "$place" > "$home/stats"
ffrfs prefetch "$place" a
ffrfs umount "$place"
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_root_of_a_user_namespace(as_user: Place, engine: str) -> None:
    """The real root's directory exists, and belongs to another user."""
    as_user.machine.admin(f"mkdir -m 700 {DIRECTORY}")
    script = as_user.home / "script"
    script.write_text(IN_A_NAMESPACE)
    python = os.path.dirname(sys.executable)
    done = as_user.machine.run(
        *("unshare", "--user", "--map-root-user", "--mount", "sh", script),
        user_id=ORDINARY_USER_ID,
        environment=[
            *(f"PATH={python}:/usr/bin:/bin", f"XDG_RUNTIME_DIR={as_user.home}"),
            *(f"pack={as_user.pack}", f"place={as_user.mountpoint}", f"home={as_user.home}"),
            f"engine={engine}",
        ],
    )
    if "unshare failed" in done.err:
        pytest.skip("user namespaces are not permitted here")
    assert (done.status, done.err) == (0, "")
    assert CONTENT in done.out
    assert "\nlive " in done.out


def test_users_of_namespaces_have_directories_of_their_own(as_user: Place) -> None:
    program = (
        "import os; from ffrfs.mount.kernel import runtime_lock, state; "
        "print(state.runtime_directories()[-1], os.geteuid())"
    )
    for user_id in (ORDINARY_USER_ID, ORDINARY_USER_ID - 1):
        done = as_user.machine.run(
            *("unshare", "--user", "--map-root-user", sys.executable, "-P", "-c", program),
            user_id=user_id,
            environment=["PATH=/usr/bin:/bin"],
        )
        if "unshare failed" in done.err:
            pytest.skip("user namespaces are not permitted here")
        assert (done.out, done.err) == (f"/tmp/ffrfs-{user_id} 0\n", "")
