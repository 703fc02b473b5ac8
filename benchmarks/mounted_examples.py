"""The pictures of a mounted TFRecord, beside the same files in a packed folder.

The packed folder is the mounted tree, packed: the same paths, the same bytes. Both are
page-cached, and each round has a fresh mount, by the native engine.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import contenders, measure, mounting, packers, page_cache
from benchmarks.contenders import NATIVE
from benchmarks.plan import Plan

TIMEOUT_S = 300
TFRECORD, PACKED_FOLDER = "TFRecord", "packed folder"


def first_touch(plan: Plan, examples: Path, checksums: list[int]) -> measure.Samples[float]:
    """Return microseconds a picture for both, for a random sample in random order.

    `checksums`: CRC-32 of the pictures in the file `examples`.
    """
    work = examples.parent
    mountpoint = work / "mnt"
    mountpoint.mkdir()
    stored = {TFRECORD: examples, PACKED_FOLDER: work / "tree.ffr"}
    with contenders.mounted(NATIVE, examples, mountpoint) as mount:
        names = _pictures(mount.root)
        packers.pack(packers.FFR, mount.root, stored[PACKED_FOLDER])
    listing = work / "listing.json"
    if len(names) != len(checksums):
        raise RuntimeError(f"{len(names)} pictures are mounted of {len(checksums)}")
    listing.write_text(json.dumps({"names": names, "checksums": checksums}))
    seeds = itertools.count()
    sessions = {
        name: partial(_session, path, mountpoint, listing, seeds, plan.large_sample)
        for name, path in stored.items()
    }
    return measure.interleave(sessions, plan.rounds)


def _pictures(root: Path) -> list[str]:
    """Return the names in the order of the records; a child lists them, as this is a mount."""
    command = ["find", root, "-path", "*/image/encoded.jpg", "-printf", r"%P\n"]
    return sorted(measure.run(command, TIMEOUT_S).splitlines())


def _session(
    stored: Path, mountpoint: Path, listing: Path, seeds: Iterator[int], sample: int
) -> float:
    page_cache.fill([stored])
    with contenders.mounted(NATIVE, stored, mountpoint) as mount:
        found = mounting.read_passes(mount.root, listing, next(seeds), sample, 1, "read", "check")
    return found["seconds"][0] / sample * 1e6
