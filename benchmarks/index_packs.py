"""The packs of the part `indexes`, whose files are on no disk, and the place to mount them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks import data, measure, packers
from benchmarks.plan import Plan

TIMEOUT_S = 300
TINY_BYTES = 8


@dataclass(frozen=True)
class Pack:
    """A packed folder of folders with data.FOLDER_FILES files each, or with all files in one."""

    path: Path
    count: int  # files

    @property
    def folder_count(self) -> int:
        """Return the number of entries of the root, except for the pack of one folder."""
        return -(-self.count // data.FOLDER_FILES)

    @property
    def sidecar(self) -> Path:
        return self.path.with_name(f"{self.path.name}.idx")


@dataclass(frozen=True)
class Packs:
    empty: Pack
    own: Pack
    vast: Pack
    wide: Pack  # all files in one folder
    reference: Pack  # no index but the pickle
    mountpoint: Path

    @classmethod
    def make(cls, plan: Plan, work: Path) -> Packs:
        mountpoint = work / "mnt"
        mountpoint.mkdir()
        empty = _packed(work / "empty.ffr", 0, plan.indexed_size)
        own = _packed(work / "own.ffr", plan.indexed_count, plan.indexed_size)
        vast = _packed(work / "vast.ffr", plan.vast_count, TINY_BYTES)
        wide = _packed(work / "wide.ffr", plan.indexed_count, TINY_BYTES, plan.indexed_count)
        reference = Pack(work / "reference.ffr", plan.indexed_count)
        data.write_reference_pack(reference.path, reference.count)
        os.sync()  # pending writes would slow the first measurement
        return cls(empty, own, vast, wide, reference, mountpoint)


def _packed(path: Path, count: int, size: int, folder_files: int = data.FOLDER_FILES) -> Pack:
    data.write_pack(path, count, size, folder_files)
    return Pack(path, count)


def write_sidecar(pack: Pack) -> None:
    """Write the index beside a pack that contains none."""
    measure.run([*packers.FFRFS, "index", "--quiet", pack.path], TIMEOUT_S)
    check_sidecar(pack)


def check_sidecar(pack: Pack) -> None:
    if not pack.sidecar.exists():
        raise RuntimeError(f"there is no index {pack.sidecar}")


def remove_sidecar(pack: Pack) -> None:
    with contextlib.suppress(FileNotFoundError):
        pack.sidecar.unlink()
