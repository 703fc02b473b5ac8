"""Mounting and unmounting: a daemon that stays in the foreground, or the kernel by itself.

Only children with a time limit touch a mount (reader.py, streamer.py, find), and never this
process: it would hang with a mount that hangs. In any case, a mount is unmounted, lazily if
need be, and its daemon is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure

TIMEOUT_S = 120  # the kernel forgets ten million inodes at unmounting
READ_ONLY = 1 | 2 | 4  # mount(2): MS_RDONLY, MS_NOSUID, MS_NODEV


@dataclass(frozen=True)
class Mount:
    root: Path
    daemon: int | None = None  # its process; None: the kernel serves by itself


@contextlib.contextmanager
def served(command: Sequence[str | Path], mountpoint: Path) -> Iterator[Mount]:
    """Mount with a program that serves until it is unmounted.

    The program gets SIGTERM, and so unmounts, also when this process is killed.
    """
    with tempfile.TemporaryFile("w+") as complaints:
        daemon = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            process_group=0,
        )
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not is_mounted(mountpoint):
                if daemon.poll() is not None or time.monotonic() > deadline:
                    complaints.seek(0)
                    said = complaints.read().strip().splitlines() or ["no reason given"]
                    raise RuntimeError(f"it did not mount: {said[-1]}")
                time.sleep(0.005)
            yield Mount(mountpoint, daemon.pid)
        finally:
            try:
                unmount(mountpoint)
                # It would go on if another mount namespace (unshare, a container) had a copy.
                daemon.terminate()
                daemon.wait(TIMEOUT_S)
            finally:
                with contextlib.suppress(ProcessLookupError):  # it has ended with its children
                    os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait(TIMEOUT_S)


@contextlib.contextmanager
def by_kernel(kind: str, image: Path, mountpoint: Path) -> Iterator[Mount]:
    """Mount an image directly from the file (EROFS, since Linux 6.12), or by a loop device.

    It tries mount(2) first, since mount(8) makes a loop device for every file.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    flags = ctypes.c_ulong(READ_ONLY)
    try:
        if libc.mount(os.fsencode(image), os.fsencode(mountpoint), kind.encode(), flags, None):
            number = ctypes.get_errno()
            if number != errno.ENOTBLK:
                raise RuntimeError(f"mount(2) of {kind}: {os.strerror(number)}")
            command: list[str | Path] = ["mount", "-t", kind, "-o", "ro,loop"]
            measure.run([*command, image, mountpoint], TIMEOUT_S)
        yield Mount(mountpoint)
    finally:
        unmount(mountpoint)


def is_mounted(mountpoint: Path) -> bool:
    """Return whether the mount table has it: a look at the mount itself could hang."""
    table = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    return any(line.split()[4] == str(mountpoint) for line in table)


def unmount(mountpoint: Path) -> None:
    """Unmount, even if the mount is busy; do nothing if nothing is mounted there."""
    program = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
    for options in ([], ["-l" if os.geteuid() == 0 else "-z"]):
        if not is_mounted(mountpoint):
            return
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            measure.run([*program, *options, mountpoint], TIMEOUT_S)
    if is_mounted(mountpoint):
        raise RuntimeError(f"{mountpoint} is still mounted")
