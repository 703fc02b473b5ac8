"""The data of the part `prefetching`: generated files, packed into files on a slow disk."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import contenders, data, packers, page_cache
from benchmarks.contenders import FOLDER, NATIVE, served_by
from benchmarks.mounts import Mount
from benchmarks.plan import Plan
from benchmarks.slow_disk import SlowDisk
from ffrfs import FileReader


@dataclass(frozen=True)
class Order:
    """Files in the order in which they are read."""

    names: list[str]
    listing: Path  # of these and their checksums, for reader.py
    size_bytes: int  # of all of them

    @property
    def count(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class SlowFiles:
    source: data.Folder
    disk: SlowDisk
    mountpoint: Path  # of a contender, on the slow disk or not
    whole: Order  # all files, shuffled
    shuffled: Order  # some of them
    in_order: Order  # as they lie in the packed file

    @classmethod
    def make(cls, plan: Plan, work: Path) -> SlowFiles:
        """Packed files are made later, by the first call of stored()."""
        source = data.write_folder(work / "source", plan.slow_count, plan.large_size)
        for name in ("packed", "slow", "mnt"):
            (work / name).mkdir()
        pick = random.Random(plan.slow_count)
        everything = pick.sample(range(plan.slow_count), plan.slow_count)
        chosen = pick.sample(range(plan.slow_count), plan.slow_sample)
        return cls(
            source,
            SlowDisk(work / "slow_disk", work / "packed", work / "slow"),
            work / "mnt",
            _order(source, everything, plan.large_size, work / "whole.json"),
            _order(source, chosen, plan.large_size, work / "shuffled.json"),
            _order(source, range(plan.slow_sample), plan.large_size, work / "in-order.json"),
        )

    def stored(self, name: str) -> Path:
        """Return the packed file that this contender reads."""
        packer = packers.EXT4 if name == FOLDER else contenders.PACKERS[served_by(name)]
        return contenders.store(packer, self.source.root, self.disk.folder)

    @contextlib.contextmanager
    def slow(self, name: str) -> Iterator[Path]:
        """Yield that file on the slow disk, with no page of it cached."""
        stored = self.stored(name)
        page_cache.fill([stored])
        with self.disk.mounted() as root:
            yield root / stored.name

    @contextlib.contextmanager
    def mounted(self, name: str) -> Iterator[Mount]:
        """Yield this contender's mount of that file."""
        with (
            self.slow(name) as stored,
            contenders.mounted(served_by(name), stored, self.mountpoint) as mount,
        ):
            yield mount

    def write_extents(self, order: Order, path: Path) -> None:
        """Write where the files of `order` are in our packed file, for aio_batches.c.

        The packer's order is that of the names, so record i is file i.
        """
        number_of = {name: number for number, name in enumerate(self.source.names)}
        numbers = [number_of[name] for name in order.names]
        with FileReader(self.stored(NATIVE)) as reader:
            offsets = reader.get_offsets(0)
        begins, ends = offsets[:-1][numbers], offsets[1:][numbers]
        np.stack([begins, ends - begins], axis=1).astype(np.uint64).tofile(path)


def _order(source: data.Folder, indices: Sequence[int], size: int, listing: Path) -> Order:
    names = [source.names[index] for index in indices]
    checksums = [source.checksums[index] for index in indices]
    listing.write_text(json.dumps({"names": names, "checksums": checksums}))
    return Order(names, listing, len(names) * size)
