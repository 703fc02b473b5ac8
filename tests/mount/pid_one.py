"""A test's own systemd, which is process 1 of namespaces that end with it.

It sees the machine's files, and our installed ones in their places; its /run, /srv and /mnt are
its own, and so is its tree of control groups. It knows the installed units, and an empty version
of each target that every unit needs. close() leaves nothing behind: when process 1 ends, the
kernel kills all processes of its namespace, and the mounts end with their namespace.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.mount.daemon.pressure import WATCH_VARIABLE
from tests.checkout import CHECKOUT
from tests.mount.command import TIMEOUT_S, Done, kill_group, wait_until
from tests.own_mounts import with_own_mounts
from tests.unit import Unit

SYSTEMD = "/lib/systemd/systemd"
UNIT_FOLDER = "usr/local/lib/systemd/system"
_TARGETS = ("sysinit", "basic", "shutdown", "umount", "local-fs-pre", "local-fs", "remote-fs")
_TARGET = "[Unit]\nDescription=Nothing, at once\nDefaultDependencies=no\n"
# There is no journal. As in tests/conftest.py, memory pressure of the machine shrinks no cache.
_LOG = f"""[Service]
StandardOutput=append:{{log}}
StandardError=append:{{log}}
Environment={WATCH_VARIABLE}={os.devnull}
"""

# $1: the installed files; $2: the folder of /srv and /mnt; $3: the unit path; $4: the checkout
_BEGIN = f"""set -e
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for folder in /etc "$(realpath /sbin)"; do
  mount -t overlay -o "lowerdir=$1$folder:$folder" overlay "$folder"
done
# The programs are in the checkout, which may be below one of the two.
case "$4" in /srv/* | /mnt/*)
  mkdir -p "$2$4"
  mount --bind "$4" "$2$4"
esac
mount --rbind "$2/srv" /srv
mount --rbind "$2/mnt" /mnt
# In a container it leaves the machine's own affairs alone, its clock and kernel settings.
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH="$3" \\
  {SYSTEMD} --system --unit=basic.target --log-target=console --show-status=no
"""


class PidOne:
    """`installed` is the root folder into which `ffrfs install-units` has written."""

    def __init__(self, folder: Path, installed: Path) -> None:
        self.srv, self.mnt = folder / "srv", folder / "mnt"
        self.log_file, self._console = folder / "log", folder / "console"
        self._installed = installed
        self._etc = installed / "etc" / "ffrfs"
        self._units = folder / "units"
        for path in (self.srv, self.mnt, self._etc, self._units):
            path.mkdir(parents=True)
        for name in _TARGETS:
            (self._units / f"{name}.target").write_text(_TARGET)
        self.add_drop_in("ffrfs@.service", _LOG.format(log=self.log_file))
        shutil.copy(installed / "usr/local/share/doc/ffrfs/mnt-data.mount", self._units)
        shutil.copy(installed / "usr/local/share/doc/ffrfs/mnt-data.automount", self._units)
        self._control_group = _new_control_group()
        self._process = self._start(
            str(installed),
            str(folder),
            f"{installed / UNIT_FOLDER}:{self._units}",
            str(CHECKOUT),
        )

    def wait_for_begin(self) -> None:
        """Wait until it takes commands; skip the test if it may not run here."""
        wait_until(self._has_begun, "systemd has begun")

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        spaces = ("--pid", "--mount-proc", "--cgroup", "--uts", "--ipc")
        enter = 'echo $$ >"$0" && exec "$@"'
        with self._console.open("wb") as console:
            return subprocess.Popen(
                [
                    *("sh", "-c", enter, str(self._control_group / "cgroup.procs")),
                    *with_own_mounts(
                        *("sh", "-c", _BEGIN, "sh", *arguments),
                        options=("--fork", "--kill-child", *spaces),
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def _has_begun(self) -> bool:
        if self._process.poll() is not None:
            pytest.skip(f"no systemd of our own here: {self._console.read_text()}")
        return bool(self._first_child()) and self.systemctl("list-units").status == 0

    def _first_child(self) -> str:
        pid = self._process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()

    def write_settings(self, instance: str, **variables: str) -> None:
        """Write its /etc/ffrfs/INSTANCE.conf, an environment file."""
        lines = (f'{name}="{value}"\n' for name, value in variables.items())
        (self._etc / f"{instance}.conf").write_text("".join(lines))

    def write_configuration(self, name: str, text: str) -> None:
        """Write its /etc/ffrfs/NAME.toml."""
        (self._etc / f"{name}.toml").write_text(text)

    def add_drop_in(self, unit: str, text: str) -> None:
        folder = self._units / f"{unit}.d"
        folder.mkdir()
        (folder / "test.conf").write_text(text)

    def enable(self, template: str, unit: str) -> None:
        """Enable a unit here, as `systemctl enable` may not write into our /etc."""
        wanted_by = Unit.load(self._installed / UNIT_FOLDER / template).setting(
            "WantedBy", "Install"
        )
        folder = self._units / f"{wanted_by}.wants"
        folder.mkdir()
        (folder / unit).symlink_to(self._installed / UNIT_FOLDER / template)
        assert self.systemctl("daemon-reload").status == 0

    def forget_log(self) -> None:
        if self.log_file.exists():
            os.truncate(self.log_file, 0)

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def run(self, *command: str) -> Done:
        """Run a command in the namespaces of this systemd."""
        process = self._enter(*command)
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            if process.poll() is None:
                kill_group(process)
        return Done(process.returncode, out, err)

    def _enter(self, *command: str) -> subprocess.Popen[str]:
        namespaces = ("--mount", "--pid", "--cgroup", "--uts", "--ipc")
        return subprocess.Popen(
            ["nsenter", "--target", self._first_child(), *namespaces, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def systemctl(self, *arguments: str) -> Done:
        return self.run("systemctl", "--no-pager", *arguments)

    def show(self, unit: str, *names: str) -> list[str]:
        """Return properties of a unit, in this order."""
        found = dict(
            line.split("=", 1)
            for line in self.systemctl("show", unit, f"--property={','.join(names)}").out.split(
                "\n"
            )
            if line
        )
        return [found[name] for name in names]

    def is_in_state(self, unit: str, active: str, sub: str) -> bool:
        return self.show(unit, "ActiveState", "SubState") == [active, sub]

    @property
    def mount_namespace(self) -> str:
        return os.readlink(f"/proc/{self._first_child()}/ns/mnt")

    def mounts(self) -> list[tuple[str, str]]:
        """Return (place, type) of our mounts, as process 1 sees them."""
        text = Path(f"/proc/{self._first_child()}/mountinfo").read_text(errors="surrogateescape")
        rows = [line.split() for line in text.splitlines()]
        found = [(row[4], row[row.index("-") + 1]) for row in rows]
        return [(place, fstype) for place, fstype in found if fstype in ("fuse.ffrfs", "autofs")]

    def processes(self) -> list[Path]:
        """Return our processes in there, as their folders in our /proc."""
        here = os.readlink(f"/proc/{self._first_child()}/ns/pid")
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                program = (folder / "cmdline").read_bytes()
                if b"ffrfs" in program and os.readlink(folder / "ns/pid") == here:
                    found.append(folder)
        return found

    def daemon_and_worker(self) -> tuple[int, int]:
        """Return their process numbers out here; there must be only one mount."""
        words: dict[int, list[bytes]] = {}
        parents: dict[int, int] = {}
        for folder in self.processes():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                pid, stat = int(folder.name), (folder / "stat").read_text()
                parents[pid] = int(stat.rpartition(") ")[2].split()[1])
                words[pid] = (folder / "cmdline").read_bytes().split(b"\0")
        (worker,) = (pid for pid in words if words[pid][0].endswith(b"/ffrfs-worker"))
        named = {pid for pid in words if words[pid][3:6] == [b"ffrfs", b"mount", b"-f"]}
        # A child of the daemon has the daemon's command line until it executes its own program.
        (daemon,) = (pid for pid in named if parents[pid] not in named)
        return daemon, worker

    @contextlib.contextmanager
    def open_file(self, path: str) -> Iterator[str]:
        """Hold the file open in a process in there; yield the descriptor's path in our /proc."""
        process = self._enter("sh", "-c", f"exec 9<{path}; echo; exec sleep 60")
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
            (inside,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield f"/proc/{inside}/fd/9"
        finally:
            kill_group(process)

    def close(self) -> None:
        self._process.send_signal(signal.SIGKILL)  # --kill-child makes process 1 die with it
        self._process.wait(TIMEOUT_S)
        self._remove_control_group()

    def _remove_control_group(self) -> None:
        """Remove the group and those in it; each is in use until its last process has ended."""
        deadline_s = time.monotonic() + 10
        while self._control_group.exists() and time.monotonic() < deadline_s:
            with contextlib.suppress(OSError):
                for folder, _, _ in os.walk(self._control_group, topdown=False):
                    os.rmdir(folder)
            time.sleep(0.02)


def _new_control_group() -> Path:
    """Make a control group inside the one of this process."""
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        mount, _, source = line.partition(" - ")
        if source.startswith("cgroup2 "):
            break
    else:
        pytest.skip("there are no control groups of the second version here")
    (own,) = re.findall(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    path = Path(mount.split()[4]) / own / f"ffrfs-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group of our own here: {error}")
    return path


@contextlib.contextmanager
def new_pid_one(folder: Path, installed: Path) -> Iterator[PidOne]:
    pid_one = PidOne(folder, installed)
    try:
        pid_one.wait_for_begin()
        yield pid_one
    finally:
        pid_one.close()
