"""A test's own machine, as far as mount(8) can see: a mount namespace with our helpers in it.

Its /sbin has everything that the real one has, and mount.ffrfs and mount.fuse.ffrfs; its
/run and /etc/fstab are its own. Nobody else sees its mounts. close() leaves neither mount
nor process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.process import Process
from tests.checkout import CHECKOUT
from tests.mount.command import TIMEOUT_S, Done, is_worker, kill_group, wait_until, words_of
from tests.mount.preloaded import preloaded
from tests.own_mounts import DETACH_ALL, with_own_mounts

TEMPLATE = CHECKOUT / "systemd" / "mount.ffrfs"
HELPERS = ("mount.ffrfs", "mount.fuse.ffrfs")
FUSE_DEVICE = "/dev/fuse"


def helper_text(interpreter: str = sys.executable) -> str:
    """Return the text of the installed helper."""
    return TEMPLATE.read_text().replace("@PYTHON@", interpreter)


class Machine:
    """One mount namespace; its files are built in `folder`, which other users may enter."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder = subprocess.Popen(
            with_own_mounts("sh", "-c", "echo; exec cat"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if not self._holder.stdout.readline():
            kill_group(self._holder)
            pytest.skip("mount namespaces are not permitted here")

    @property
    def namespace(self) -> str:
        return f"/proc/{self._holder.pid}/ns/mnt"

    def install(self) -> None:
        self.admin("mount -t tmpfs tmpfs /run && mkdir /run/mount")
        sbin = os.path.realpath("/sbin")
        real, ours = self._folder / "sbin-real", self._folder / "sbin"
        real.mkdir()
        ours.mkdir()
        for name in os.listdir(sbin):
            (ours / name).symlink_to(real / name)
        for name in HELPERS:
            (ours / name).unlink(missing_ok=True)
            (ours / name).write_text(helper_text())
            (ours / name).chmod(0o755)
        self.admin(f"mount --bind {sbin} {real} && mount --bind {ours} {sbin}")

    def set_fstab(self, *lines: str) -> None:
        fstab = self._folder / "fstab"
        fstab.write_text("".join(line + "\n" for line in lines))
        self.admin(f"mount --bind {fstab} /etc/fstab")

    def open_to_all(self) -> None:
        """Let every user run our interpreter, and open /dev/fuse."""
        node = self._folder / "fuse"
        os.mknod(node, stat.S_IFCHR | 0o666, os.stat(FUSE_DEVICE).st_rdev)
        node.chmod(0o666)
        self.admin(f"mount --bind {node} {FUSE_DEVICE}")
        for path in (sys.executable, os.path.realpath(sys.executable), ffrfs.__file__):
            for above in reversed(Path(path).parents):
                self._open_folder(above)

    def _open_folder(self, folder: Path) -> None:
        """Cover a folder that users may not pass with another one that has the same subfolders."""
        if folder.stat().st_mode & stat.S_IXOTH or (self._folder / folder.name).exists():
            return
        old = self._folder / folder.name
        old.mkdir()
        script = [f"mount --bind {folder} {old}", f"mount -t tmpfs -o mode=755 tmpfs {folder}"]
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                script += [f"mkdir {folder / entry.name}"]
                script += [f"mount --bind {old / entry.name} {folder / entry.name}"]
        self.admin(" && ".join(script))

    def admin(self, script: str) -> None:
        done = self.run("sh", "-c", script)
        assert done.status == 0, (script, done.err)

    def run(
        self,
        *command: str | os.PathLike[str],
        user_id: int = 0,
        folder: Path | str = "/",
        environment: Sequence[str] = (),
    ) -> Done:
        """Run the command to its end, with no other variables in its environment."""
        user = str(user_id)
        become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--"]
        process = subprocess.Popen(
            [
                *("nsenter", f"--mount={self.namespace}", "--"),
                *(become if user_id else []),
                *("env", "-i", "-C", str(folder), *environment),
                *map(os.fspath, command),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            if process.poll() is None:
                kill_group(process)
        return Done(process.returncode, out, err)

    def mount(self, *arguments: str | os.PathLike[str], **more: Any) -> Done:
        """Run mount(8)."""
        return self.run("/usr/bin/mount", *arguments, **more)

    def umount(self, place: Path, **more: Any) -> Done:
        """Run umount(8)."""
        return self.run("/usr/bin/umount", place, **more)

    def ffrfs(
        self,
        *arguments: str | os.PathLike[str],
        user_id: int = 0,
        folder: Path | str = "/",
        environment: Sequence[str] = (),
    ) -> Done:
        words = [os.fspath(argument) for argument in arguments]
        only = dict(variable.split("=", 1) for variable in environment)
        where = {"namespace": self.namespace, "user_id": user_id, "directory": str(folder)}
        return Done(*preloaded().run(words, only, TIMEOUT_S, **where))

    def find(self, place: Path) -> dict[str, str] | None:
        """Return findmnt(8)'s columns for the place, or None if nothing is mounted there."""
        columns = "SOURCE,TARGET,FSTYPE,OPTIONS"
        done = self.run("/usr/bin/findmnt", "--json", "-o", columns, "--mountpoint", place)
        return json.loads(done.out)["filesystems"][0] if done.out else None

    def read(self, path: Path, **more: Any) -> bytes:
        done = self.run("cat", path, **more)
        assert done.status == 0, done.err
        return done.out.encode()

    def processes(self) -> list[Process]:
        """Return the daemons and workers in this namespace."""
        here = os.readlink(self.namespace)
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                program = (entry / "cmdline").read_bytes()
                if b"ffrfs" in program and os.readlink(entry / "ns" / "mnt") == here:
                    process = Process.of(int(entry.name))
                    found += [process] if process else []
        return found

    def worker_arguments(self) -> list[str]:
        """Return the arguments of the only worker."""
        (worker,) = filter(is_worker, self.processes())
        return words_of(worker)[1:-1]

    def check_nothing_left(self) -> None:
        """Check that no mount, process or state file is left."""
        wait_until(lambda: not self.processes(), "daemon and worker have ended")
        left = self.run("sh", "-c", "grep fuse.ffrfs /proc/self/mountinfo; ls /run/ffrfs; true")
        lines = [line for line in left.out.splitlines() if not line.endswith(state.KEPT)]
        assert not lines, lines

    def close(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.admin(DETACH_ALL)
        for process in self.processes():
            if not process.wait(5):
                os.kill(process.pid, signal.SIGKILL)
                process.wait(5)
        kill_group(self._holder)


@contextlib.contextmanager
def new_machine(folder: Path) -> Iterator[Machine]:
    folder.mkdir(mode=0o755)
    machine = Machine(folder)
    try:
        machine.install()
        yield machine
    finally:
        machine.close()
