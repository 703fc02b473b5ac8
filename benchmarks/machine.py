"""The machine and the programs of a measurement."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from benchmarks import packers, ratarmount

TIMEOUT_S = 60
PACKAGES = ("protobuf", "tfrecord")  # from PyPI; ffrfs is compared with them
_VERSION = re.compile(r"\d+\.\d+[\w.]*")


def describe(folder: Path) -> dict[str, str | int | float]:
    """Describe the machine; `folder` has the data."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 0,
        "memory_gb": round(memory_bytes / 1e9, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": file_system(folder),
        "disk": _disk(folder),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def file_system(folder: Path) -> str:
    """Return the type of the file system that `folder` is on: "ext4", "tmpfs"."""
    return _mount_entry(folder)[0]


def _disk(folder: Path) -> str:
    """Return the block device below `folder`, and its model if it has one."""
    name = Path(_mount_entry(folder)[1]).name
    model = Path(f"/sys/class/block/{name}/device/model")
    return f"{name} ({model.read_text().strip()})" if model.exists() else name


def _mount_entry(folder: Path) -> tuple[str, str]:
    """Return type and source of the file system that `folder` is on."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = ("unknown", "unknown")
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        mount, _, rest = line.partition(" - ")
        if mount.split()[2] == wanted:
            kind, source = rest.split()[:2]
            found = (kind, source)
    return found


def versions() -> dict[str, str]:
    """Return the versions of the installed programs, and of the packages."""
    commands: dict[str, list[str | Path]] = {
        "ffrfs": [*packers.FFRFS, "--version"],
        "mkfs.erofs": ["mkfs.erofs", "--version"],
        "squashfuse_ll": ["squashfuse_ll", "--help"],
        "mksquashfs": ["mksquashfs", "-version"],
        "mkfs.ext4": ["mkfs.ext4", "-V"],
        "tar": ["tar", "--version"],
        "ratarmount": [ratarmount.PROGRAM, "--version"],
        "fusermount3": ["fusermount3", "--version"],
        "find": ["find", "--version"],
    }
    return {
        **{name: _version(line) for name, line in commands.items() if shutil.which(str(line[0]))},
        **{f"{name} (PyPI)": metadata.version(name) for name in PACKAGES},
    }


def _version(command: list[str | Path]) -> str:
    """Return the first version in the program's output; some programs exit with an error then."""
    result = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = _VERSION.search(result.stdout)
    return found[0] if found else "unknown"
