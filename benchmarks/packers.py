"""Packs a folder into one file, in each of the formats that are compared.

Nothing is compressed. Each packer is the program that its users call, so that the time of all
includes their start. `ffrfs pack` ends with its file on the disk; after the others comes a `sync`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import measure

TIMEOUT_S = 900
PROGRAM_VARIABLE = "FFRFS_BENCHMARKS_PROGRAM"  # names the `ffrfs` of another checkout
FFRFS = (
    [os.environ[PROGRAM_VARIABLE]]
    if PROGRAM_VARIABLE in os.environ
    else [sys.executable, "-m", "ffrfs"]
)
FFR, EROFS, SQUASHFS, TAR = "ffrfs pack", "mkfs.erofs", "mksquashfs", "tar cf"
EXT4 = "mkfs.ext4"  # an image of the folder as it is
PROGRAMS = {EROFS: "mkfs.erofs", SQUASHFS: "mksquashfs", TAR: "tar"}


def pack(
    packer: str, root: Path, output: Path, watch: Callable[[int], object] | None = None
) -> None:
    """Pack `root` into `output`, which must not exist. `watch` is as for measure.run()."""
    commands: dict[str, list[str | Path]] = {
        FFR: [*FFRFS, "pack", root, output],
        EROFS: ["mkfs.erofs", "--quiet", output, root],
        SQUASHFS: [
            *("mksquashfs", root, output),
            *("-noI", "-noD", "-noF", "-noX", "-no-progress", "-quiet"),
            "-no-duplicates",  # else it compares each file with all others of its size
        ],
        TAR: ["tar", "cf", output, "-C", root, "."],
        EXT4: [
            *("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-d", root, output),
            f"{_ext4_size(root) >> 10}k",
        ],
    }
    measure.run(commands[packer], TIMEOUT_S, watch)
    if packer != FFR:
        measure.run(["sync", output], TIMEOUT_S)


def _ext4_size(root: Path) -> int:
    """Return room for all below `root`: blocks of 4 KiB, inodes, and the rest."""
    sizes = [path.lstat().st_size for path in root.rglob("*")]
    return sum(size + 8192 for size in sizes) * 11 // 10 + (64 << 20)


def available() -> list[str]:
    programs = {FFR: FFRFS[0], **PROGRAMS}
    return [packer for packer, program in programs.items() if shutil.which(program)]
