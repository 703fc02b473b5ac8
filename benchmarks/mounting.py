"""Folders of small files, mounted by every contender.

Each "first" is on a fresh mount. Cached: the packed file is in the page cache, the mount's own
caches are empty. Uncached: nothing is in the page cache, not even the packed file. Again: the
same files in the same order, with whatever the kernel has kept.

Timed passes read a random sample; an untimed one reads and checks every file.

The plain directory has no mount: its "first" is with its files cached, its first walk with the
names dropped from the kernel's caches.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import contenders, data, measure, memory, page_cache
from benchmarks.contenders import EROFS, FOLDER, NATIVE, PYFUSE3, SQUASHFS, SQUASHFUSE, URING
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.plan import Plan

TIMEOUT_S = 900
READERS = (1, 2, 4)
Values = dict[str, float]  # the results of a session, by the name of the comparison
FIRST, AGAIN, UNCACHED = "first touch, cached", "again", "first touch, uncached"
STAT = "stat of names not listed"
CPU = "CPU of server and reader, first touch"
WALK, WALK_AGAIN = "find -size +0, first", "find -size +0, again"
PAGES, MEMORY = "page cache after reading all uncached", "memory of the daemon after all"
FILE_UNIT, RATE_UNIT = "µs a file", "files/s"


def run(plan: Plan) -> Findings:
    found = [
        _compare(plan, plan.large_count, plan.large_size, plan.large_sample),
        _compare(plan, plan.small_count, plan.small_size, plan.small_sample),
    ]
    figures = [*_large_figures(found[0]), *_small_figures(found[1])]
    for by_name, (count, size) in zip(found, plan.sets(), strict=True):
        # With every contender, the last page of a file takes a whole page of memory.
        pages = -(-size // page_cache.PAGE_BYTES)
        data_mb = count * pages * page_cache.PAGE_BYTES / 1e6
        figures.append(by_name[PAGES].of(NATIVE, "x the data", data_mb, at_most=1.1))
    return Findings(figures, [value for by_name in found for value in by_name.values()])


def _large_figures(found: dict[str, Comparison]) -> list[Figure]:
    return [
        found[FIRST].versus(PYFUSE3, SQUASHFUSE, at_most=1.5),
        found[AGAIN].versus(PYFUSE3, SQUASHFUSE, at_most=1.7),
        found[AGAIN].versus(NATIVE, FOLDER, at_most=1.08),
        found[AGAIN].versus(NATIVE, EROFS, at_most=1.08),
        found[AGAIN].versus(SQUASHFUSE, NATIVE, at_least=3),
        found[FIRST].versus(NATIVE, EROFS, at_most=0.95),
        found[FIRST].versus(URING, EROFS, at_most=0.75),
        found[FIRST].versus(NATIVE, SQUASHFUSE, at_most=0.65),
        found[FIRST].versus(NATIVE, SQUASHFS, at_most=1),
    ]


def _small_figures(found: dict[str, Comparison]) -> list[Figure]:
    return [
        found[AGAIN].versus(NATIVE, FOLDER, at_most=1.3),
        found[AGAIN].versus(NATIVE, EROFS, at_most=1.3),
        found[AGAIN].versus(SQUASHFUSE, NATIVE, at_least=6),
        found[FIRST].versus(URING, EROFS, at_most=0.45),
        found[FIRST].versus(NATIVE, EROFS, at_most=0.75),
        found[STAT].versus(URING, EROFS, at_most=0.3),
        *(found[rate_name(n, FIRST)].versus(URING, EROFS, at_least=1.2) for n in READERS[1:]),
        found[FIRST].versus(NATIVE, SQUASHFUSE, at_most=0.5),
        found[FIRST].versus(NATIVE, SQUASHFS, at_most=1),
        found[WALK].versus(NATIVE, SQUASHFUSE, at_most=0.15),
        found[WALK_AGAIN].versus(NATIVE, FOLDER, at_most=1.1),
        found[MEMORY].of(NATIVE, "MB", at_most=100),
    ]


@dataclass(frozen=True)
class Tree:
    """One generated folder, and its packed files."""

    source: data.Folder
    sample: int  # files of a timed pass
    work: Path
    listing: Path
    mountpoint: Path
    seeds: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def count(self) -> int:
        return len(self.source.names)

    def stored(self, name: str) -> Path:
        packer = contenders.PACKERS[name]
        return contenders.store(packer, self.source.root, self.work) if packer else self.source.root

    def stored_files(self, name: str) -> list[Path]:
        if name == FOLDER:
            return [self.source.root / file for file in self.source.names]
        return [self.stored(name)]


def _compare(plan: Plan, count: int, size: int, sample: int) -> dict[str, Comparison]:
    """Measure everything for one size of files."""
    work = plan.folder / f"mount-{size}"
    work.mkdir()
    try:
        tree = _make(work, count, size, sample)
        for name in plan.field.names:
            tree.stored(name)
        samples = _sessions(plan, tree)
    finally:
        shutil.rmtree(work)
    label = f"{count:,} files of {size / 1000:g} KB"
    return {
        name: Comparison(label, name, unit, samples.get(name, {}), _missing(plan, name))
        for name, unit in _measures().items()
    }


def _make(work: Path, count: int, size: int, sample: int) -> Tree:
    source = data.write_folder(work / "source", count, size)
    listing = work / "listing.json"
    listing.write_text(json.dumps({"names": source.names, "checksums": source.checksums}))
    mountpoint = work / "mnt"
    mountpoint.mkdir()
    return Tree(source, sample, work, listing, mountpoint)


def _measures() -> dict[str, str]:
    """Return all comparisons of one tree, with their units, in the order of the table."""
    rates = [rate_name(readers, key) for key in (FIRST, AGAIN) for readers in READERS]
    return {
        **dict.fromkeys((FIRST, UNCACHED, AGAIN, STAT, CPU), FILE_UNIT),
        **dict.fromkeys((WALK, WALK_AGAIN), "s"),
        **dict.fromkeys(rates, RATE_UNIT),
        **dict.fromkeys((PAGES, MEMORY), "MB"),
    }


def rate_name(readers: int, key: str) -> str:
    return f"{key}, {readers} reader{'s' if readers > 1 else ''}"


def _missing(plan: Plan, name: str) -> dict[str, str]:
    """Return why contenders have no samples of this comparison."""
    reasons = dict(plan.field.missing)
    if name == MEMORY:
        reasons |= dict.fromkeys((FOLDER, EROFS, SQUASHFS), "served by the kernel")
    cold = page_cache.why_not_drop()
    if name == PAGES:
        cold = cold or page_cache.why_not_count()
    if name in (UNCACHED, PAGES) and cold:
        reasons |= dict.fromkeys(plan.field.names, cold)
    if name == WALK and page_cache.why_not_drop():
        reasons[FOLDER] = page_cache.why_not_drop()
    return reasons


def _sessions(plan: Plan, tree: Tree) -> dict[str, measure.Samples[float]]:
    """Return the samples of each contender, by comparison."""
    sessions: list[Callable[[str], Values]] = [
        *(partial(_read, tree, readers) for readers in READERS),
        partial(_stat, tree),
        partial(_walk, tree),
        partial(_read_everything, tree),
    ]
    if not page_cache.why_not_drop():
        sessions.append(partial(_read_uncached, tree))
    samples: dict[str, measure.Samples[float]] = {}
    for session in sessions:
        rounds = measure.interleave(
            {name: partial(session, name) for name in plan.field.names}, plan.long_rounds
        )
        for name, outcomes in rounds.items():
            for key in outcomes[0]:
                samples.setdefault(key, {})[name] = [outcome[key] for outcome in outcomes]
    return samples


def _read(tree: Tree, readers: int, name: str) -> Values:
    page_cache.fill(tree.stored_files(name))
    with contenders.mounted(name, tree.stored(name), tree.mountpoint) as mount:
        found = _passes(tree, mount.root, tree.sample, readers, "read", "read", "check")
    seconds = dict(zip((FIRST, AGAIN), found["seconds"], strict=False))
    values = {rate_name(readers, key): tree.sample / value for key, value in seconds.items()}
    if readers == 1:
        values |= {key: value / tree.sample * 1e6 for key, value in seconds.items()}
    return values


def _stat(tree: Tree, name: str) -> Values:
    """Measure names alone on one fresh mount, and the CPU time of a first touch on another."""
    page_cache.fill(tree.stored_files(name))
    with contenders.mounted(name, tree.stored(name), tree.mountpoint) as mount:
        found = _passes(tree, mount.root, tree.sample, 1, "stat")
    stat_s = found["seconds"][0]
    with contenders.mounted(name, tree.stored(name), tree.mountpoint) as mount:
        before_s = 0 if mount.daemon is None else memory.cpu_seconds(mount.daemon)
        found = _passes(tree, mount.root, tree.sample, 1, "read")
        after_s = 0 if mount.daemon is None else memory.cpu_seconds(mount.daemon)
    cpu_s = found["cpu_seconds"][0] + after_s - before_s
    return {STAT: stat_s / tree.sample * 1e6, CPU: cpu_s / tree.sample * 1e6}


def _read_uncached(tree: Tree, name: str) -> Values:
    with contenders.mounted(name, tree.stored(name), tree.mountpoint) as mount:
        page_cache.drop()
        found = _passes(tree, mount.root, tree.sample, 1, "read")
    return {UNCACHED: found["seconds"][0] / tree.sample * 1e6}


def _read_everything(tree: Tree, name: str) -> Values:
    """Read and check all files, uncached, then walk: the most that a mount comes to hold."""
    values = {}
    stored = tree.stored(name)
    with contenders.mounted(name, stored, tree.mountpoint) as mount:
        if not page_cache.why_not_drop():
            page_cache.drop()
        found = _passes(tree, mount.root, tree.count, READERS[-1], "check")
        if not (page_cache.why_not_drop() or page_cache.why_not_count()):
            values[PAGES] = (found["cached_bytes"] + _cached_bytes(stored)) / 1e6
        if mount.daemon is not None:
            _find(tree, mount.root)
            values[MEMORY] = memory.resident_bytes(mount.daemon) / 1e6
    return values


def _cached_bytes(stored: Path) -> int:
    """Return the cached bytes of a packed file; readers count those of the plain directory."""
    if stored.is_dir():
        return 0
    with stored.open("rb") as file:
        return page_cache.cached_bytes(file.fileno())


def _walk(tree: Tree, name: str) -> Values:
    can_drop = not page_cache.why_not_drop()
    page_cache.fill(tree.stored_files(name))
    if name == FOLDER and can_drop:
        page_cache.drop(page_cache.DENTRIES_AND_INODES)
    with contenders.mounted(name, tree.stored(name), tree.mountpoint) as mount:
        first_s = _find(tree, mount.root)
        again_s = _find(tree, mount.root)
    return {WALK_AGAIN: again_s} | ({WALK: first_s} if name != FOLDER or can_drop else {})


def _passes(tree: Tree, root: Path, count: int, readers: int, *passes: str) -> dict[str, Any]:
    return read_passes(root, tree.listing, next(tree.seeds), count, readers, *passes)


def read_passes(
    root: Path, listing: Path, seed: int | str, count: int, readers: int, *passes: str
) -> dict[str, Any]:
    """Return the report of reader.py; one wrong file ends the run."""
    program = ["-m", "benchmarks.reader", root, listing, *map(str, (seed, count, readers)), *passes]
    found: dict[str, Any] = measure.run_python(program, TIMEOUT_S)
    if found["wrong"]:
        raise RuntimeError(f"{found['wrong']} files of {root} were read wrong")
    return found


def _find(tree: Tree, root: Path) -> float:
    """Return the seconds of a walk over all files, with an attribute of each."""
    listed = tree.work / "listed"
    with listed.open("w") as output:
        walk = ["find", root, "-type", "f", "-size", "+0"]
        seconds = measure.seconds(lambda: measure.run(walk, TIMEOUT_S, stdout=output))
    with listed.open("rb") as lines:
        count = sum(1 for _ in lines)
    if count != tree.count:
        raise RuntimeError(f"find saw {count} files of {tree.count} in {root}")
    return seconds
