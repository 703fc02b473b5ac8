"""The mounts that are compared: each a context manager that yields the root of its tree.

The mount is never touched from here, only from reader.py: a mount that hangs hangs whoever
touches it. A daemon is ended by unmounting, lazily if need be.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure

MOUNT_TIMEOUT_S = 30
IMAGE_TIMEOUT_S = 600


def why_not_mount() -> str:
    """What is missing for a comparison; "" if nothing is."""
    programs = ("squashfuse_ll", "mksquashfs", "fusermount3")
    missing = [program for program in programs if not shutil.which(program)]
    if not os.path.exists("/dev/fuse"):
        missing.append("/dev/fuse")
    return f"there is no {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def mounted_ffrfs(pack: Path, mountpoint: Path) -> Iterator[Path]:
    """`ffrfs mount`, which returns once the tree can be read."""
    ffrfs = [sys.executable, "-m", "ffrfs"]
    watched, held = os.pipe()
    try:
        # The daemon unmounts by itself if this process ends without having done so.
        mount = [*ffrfs, "mount", "--while-open", str(watched)]
        measure.run([*mount, str(pack), str(mountpoint)], MOUNT_TIMEOUT_S, pass_fds=[watched])
        yield mountpoint
        measure.run([*ffrfs, "umount", str(mountpoint)], MOUNT_TIMEOUT_S)
    finally:
        _unmount(mountpoint)
        os.close(watched)
        os.close(held)


def make_squashfs(root: Path, image: Path) -> Path:
    """An image without compression, of anything."""
    plain = ["-noI", "-noD", "-noF", "-noX", "-no-progress", "-quiet"]
    measure.run(["mksquashfs", root, image, *plain], IMAGE_TIMEOUT_S)
    return image


@contextlib.contextmanager
def mounted_squashfuse(image: Path, mountpoint: Path) -> Iterator[Path]:
    daemon = subprocess.Popen(
        ["squashfuse_ll", "-f", str(image), str(mountpoint)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + MOUNT_TIMEOUT_S
        while not _is_mounted(mountpoint):
            if daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"squashfuse_ll did not mount {image}")
            time.sleep(0.01)
        yield mountpoint
    finally:
        _unmount(mountpoint)
        try:
            daemon.wait(MOUNT_TIMEOUT_S)
        finally:
            if daemon.poll() is None:
                daemon.kill()


def _is_mounted(mountpoint: Path) -> bool:
    """From the mount table: looking at the mount itself could hang."""
    table = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == str(mountpoint) for line in table)


def _unmount(mountpoint: Path) -> None:
    for options in ("-u", "-uz"):
        if not _is_mounted(mountpoint):
            return
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            measure.run(["fusermount3", options, mountpoint], MOUNT_TIMEOUT_S)
    if _is_mounted(mountpoint):
        raise RuntimeError(f"{mountpoint} is still mounted; end it with: fusermount3 -uz")
