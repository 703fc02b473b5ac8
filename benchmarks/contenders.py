"""The contenders, each with the packed file that it reads and with its way of mounting.

A trial finds the contenders that cannot take part here: it packs, mounts and reads one small
file. All outputs name the failure as the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure, mounts, packers, ratarmount
from tests import uring_switch

FOLDER, EROFS, SQUASHFS = "plain directory", "EROFS", "squashfs"
SQUASHFUSE = "squashfuse_ll"
RATARMOUNT, PYFUSE3, NATIVE = "ratarmount", "ffrfs with pyfuse3", "ffrfs"
URING = "ffrfs over io_uring"
# In the order of tables and plots: each contender with the packer whose file it mounts.
PACKERS = {
    FOLDER: "",
    EROFS: packers.EROFS,
    SQUASHFS: packers.SQUASHFS,
    SQUASHFUSE: packers.SQUASHFS,
    RATARMOUNT: packers.TAR,
    PYFUSE3: packers.FFR,
    NATIVE: packers.FFR,
    URING: packers.FFR,
}
PROGRAMS = {SQUASHFUSE: "squashfuse_ll", RATARMOUNT: str(ratarmount.PROGRAM)}
# Options of `ffrfs mount`.
ENGINES = {
    PYFUSE3: ["--engine", "pyfuse3"],
    NATIVE: ["--engine", "native", "--transport", "dev"],
    URING: ["--engine", "native", "--transport", "uring"],
}
# Only in the part `epoch`: NATIVE's mount after `ffrfs warm`, and without read-around.
WARMED, ALONE = "ffrfs, warmed", "ffrfs --read-around off"
ENGINES |= {WARMED: ENGINES[NATIVE], ALONE: [*ENGINES[NATIVE], "--read-around", "off"]}
# Only in the part `prefetching`: NATIVE's mount with hints, and a program that needs no mount.
HINTS, AIO = "ffrfs with hints", "AIO batches"
# Only in the part `streaming`: the most that a server of /dev/fuse can reach.
CEILING = "unverified server"
# File systems that the kernel serves by itself.
KERNEL_TYPES = {EROFS: "erofs", SQUASHFS: "squashfs"}
TIMEOUT_S = 60


@dataclass(frozen=True)
class Field:
    """All contenders: those that take part, and why the others do not."""

    names: list[str]
    missing: dict[str, str]


def mounted(name: str, stored: Path, mountpoint: Path) -> AbstractContextManager[mounts.Mount]:
    """Mount `stored`: the packed file; for FOLDER, the directory itself or an ext4 image of it."""
    if name == FOLDER:
        if stored.is_file():
            return mounts.by_kernel("ext4", stored, mountpoint)
        return nullcontext(mounts.Mount(stored))
    if name in KERNEL_TYPES:
        return mounts.by_kernel(KERNEL_TYPES[name], stored, mountpoint)
    return mounts.served(_command(name, stored, mountpoint), mountpoint)


def served_by(name: str) -> str:
    """Return the contender whose packed file and mount this one reads."""
    return NATIVE if name in (HINTS, AIO, WARMED, ALONE) else name


def _command(name: str, stored: Path, place: Path) -> list[str | Path]:
    if name == SQUASHFUSE:
        return ["squashfuse_ll", "-f", stored, place]
    if name == RATARMOUNT:
        index = ratarmount.index_of(stored)
        return [ratarmount.PROGRAM, "-f", "--index-file", index, stored, place]
    return [*packers.FFRFS, "mount", "-f", *ENGINES[name], stored, place]


def find(folder: Path) -> Field:
    """Try all contenders, below `folder`."""
    root = folder / "trial"
    (root / "source").mkdir(parents=True)
    (root / "mnt").mkdir()
    (root / "source" / "file").write_bytes(b"content")
    try:
        missing = {name: _why_missing(name, root) for name in PACKERS}
    finally:
        shutil.rmtree(root)
    missing = {name: reason for name, reason in missing.items() if reason}
    return Field([name for name in PACKERS if name not in missing], missing)


def _why_missing(name: str, root: Path) -> str:
    packer = PACKERS[name]
    for program in (packers.PROGRAMS.get(packer), PROGRAMS.get(name)):
        if program and not shutil.which(program):
            return f"there is no {Path(program).name}"
    if name in KERNEL_TYPES and os.geteuid() != 0:
        return "mounting a kernel's file system needs root"
    if name != FOLDER and name not in KERNEL_TYPES and not os.path.exists("/dev/fuse"):
        return "there is no /dev/fuse"
    if name == URING and (reason := uring_switch.why_not()):
        return reason
    try:
        stored = store(packer, root / "source", root) if packer else root / "source"
        with mounted(name, stored, root / "mnt") as mount:
            read = measure.run(["cat", mount.root / "file"], TIMEOUT_S)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return str(error).replace(f"{root}/", "")
    return "" if read == "content" else f"it gives {read!r} for 'content'"


def store(packer: str, source: Path, folder: Path) -> Path:
    """Return the packed file of `source` in `folder`, ready to mount; make it unless it exists."""
    stored = folder / f"{packer.replace(' ', '-')}.packed"
    if not stored.exists():
        packers.pack(packer, source, stored)
        if packer == packers.TAR and ratarmount.PROGRAM.exists():
            ratarmount.write_index(stored)
    return stored
