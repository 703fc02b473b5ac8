"""This checkout against another one, in one interleaved run: did a change make anything slower?

    python -m benchmarks.against OTHER [--dir DIR] [--rounds N] [--quick] [--only WORD]

OTHER is a checkout of another commit in which `make build` has run. Each row is one thing that
both do in turn, N rounds, with medians and the median of the rounds' ratios: over 1, this
checkout takes more. Readers are the programs of the other parts (reader.py, streamer.py, find),
so that only what serves them differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import data, measure, memory, mounts, packers, page_cache, walk
from benchmarks.reader import AS_LISTED, HINTED

CHECKOUT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 300
SMALL_SIZE, LARGE_SIZE = 4_500, 110_000


@dataclass(frozen=True)
class Amounts:
    small_count: int = 30_000
    small_sample: int = 8_000  # the files of these that a pass reads
    large_count: int = 3_000
    large_sample: int = 1_500
    huge_size: int = 1 << 30
    example_count: int = 2_000
    beside_count: int = 300  # files read one by one, 2 ms apart, beside a batch


QUICK = Amounts(60, 20, 20, 10, 6 << 20, 10, 5)


@dataclass(frozen=True)
class Build:
    program: Path  # its `ffrfs`

    @contextlib.contextmanager
    def mounted(self, pack: Path, place: Path, engine: str = "native") -> Iterator[mounts.Mount]:
        command = [self.program, "mount", "-f", "--engine", engine, pack, place]
        with mounts.served(command, place) as mount:
            yield mount


@dataclass(frozen=True)
class Packed:
    source: data.Folder
    pack: Path
    listing: Path

    @classmethod
    def make(cls, work: Path, name: str, source: data.Folder) -> Packed:
        pack, listing = work / f"{name}.ffr", work / f"{name}.json"
        packers.pack(packers.FFR, source.root, pack)
        listing.write_text(json.dumps({"names": source.names, "checksums": source.checksums}))
        return cls(source, pack, listing)


@dataclass(frozen=True)
class Reading:
    """The files that readers read, and how they read them."""

    listing: Path
    count: int
    passes: tuple[str, ...] = ("read",)
    readers: int = 1
    seed: str = "1"

    def command(self, root: Path) -> list[str]:
        program = [sys.executable, "-m", "benchmarks.reader", str(root), str(self.listing)]
        return [*program, self.seed, str(self.count), str(self.readers), *self.passes]

    def run(self, build: Build, root: Path) -> dict[str, Any]:
        found = measure.run(self.command(root), TIMEOUT_S, env=_environment(build))
        return dict(json.loads(found))


class Trials:
    """The measurements: a method does one round of one build, and returns seconds or bytes."""

    def __init__(self, work: Path, amounts: Amounts) -> None:
        self._work = work
        self._amounts = amounts
        self._place = work / "mnt"
        self._place.mkdir()
        self._small = self._packed("small", self._amounts.small_count, SMALL_SIZE)
        self._large = self._packed("large", self._amounts.large_count, LARGE_SIZE)
        huge = data.write_huge(work / "huge", self._amounts.huge_size)
        self._huge = Packed.make(work, "huge", huge)
        shutil.rmtree(huge.root)
        self._examples = work / "examples.tfrecord"
        checksums = data.write_examples(self._examples, self._amounts.example_count, LARGE_SIZE)
        names = [f"{index:09d}/image/encoded.jpg" for index in range(self._amounts.example_count)]
        self._pictures = work / "examples.json"
        self._pictures.write_text(json.dumps({"names": names, "checksums": checksums}))

    def rows(self) -> dict[str, Callable[[Build], float]]:
        small, large = self._small, self._large
        some = Reading(small.listing, self._amounts.small_sample)
        pictures = Reading(large.listing, self._amounts.large_sample)
        hinted = replace(pictures, passes=(f"{HINTED}read",))
        return {
            "pack, small files": lambda build: self._pack(build, small),
            "pack, large files": lambda build: self._pack(build, large),
            "mount and ls": self._mount,
            "verify, small files": lambda build: self._command(build, "verify", small),
            "index, small files": lambda build: self._command(build, "index", small),
            "first touch, small, cached": lambda build: self._read(build, small, some),
            "first touch, small, 4 readers": lambda build: self._read(
                build, small, replace(some, readers=4)
            ),
            "first touch, large, cached": lambda build: self._read(build, large, pictures),
            "first touch, large, uncached": lambda build: self._read(
                build, large, pictures, cold=True
            ),
            "again, small": lambda build: self._read(
                build, small, replace(some, passes=("read", "read"))
            ),
            "find -size +0, first": self._walk,
            "in order, uncached": lambda build: self._read(
                build, large, replace(pictures, seed=AS_LISTED), cold=True
            ),
            "hints, 4 readers, uncached": lambda build: self._read(
                build, large, replace(hinted, readers=4), cold=True
            ),
            "hints, cached": lambda build: self._read(build, large, hinted),
            "reads beside a batch": self._read_beside_batch,
            "stream, cached": lambda build: self._stream(build, cold=False),
            "stream, uncached": lambda build: self._stream(build, cold=True),
            "TFRecord, cached": self._read_examples,
            "pyfuse3: first touch, large": lambda build: self._read(
                build, large, pictures, engine="pyfuse3"
            ),
            "memory after small files": self._memory,
        }

    def _packed(self, name: str, count: int, size: int) -> Packed:
        return Packed.make(self._work, name, data.write_folder(self._work / name, count, size))

    def _pack(self, build: Build, packed: Packed) -> float:
        output = self._work / "out.ffr"
        page_cache.fill(packed.source.root / name for name in packed.source.names)
        command = [build.program, "pack", packed.source.root, output]
        try:
            return measure.seconds(lambda: measure.run(command, TIMEOUT_S))
        finally:
            output.unlink()
            os.sync()

    def _command(self, build: Build, name: str, packed: Packed) -> float:
        page_cache.fill([packed.pack])
        try:
            return measure.seconds(
                lambda: measure.run([build.program, name, "--quiet", packed.pack], TIMEOUT_S)
            )
        finally:
            Path(f"{packed.pack}.idx").unlink(missing_ok=True)

    def _mount(self, build: Build) -> float:
        def mount() -> None:
            measure.run([build.program, "mount", self._small.pack, self._place], TIMEOUT_S)
            measure.run(["ls", self._place], TIMEOUT_S)

        try:
            return measure.seconds(mount)
        finally:
            mounts.unmount(self._place)

    def _read(
        self,
        build: Build,
        packed: Packed,
        reading: Reading,
        *,
        cold: bool = False,
        engine: str = "native",
    ) -> float:
        with build.mounted(packed.pack, self._place, engine):
            (page_cache.forget if cold else _fill)(packed.pack)
            return float(reading.run(build, self._place)["seconds"][-1])

    def _read_beside_batch(self, build: Build) -> float:
        """Time open, read and close of files without hints, while others are read with hints."""
        source, half = self._large.source, self._amounts.large_count // 2
        readings = []
        for part in (slice(half), slice(half, None)):
            listing = self._work / f"half-{len(readings)}.json"
            names, checksums = source.names[part], source.checksums[part]
            listing.write_text(json.dumps({"names": names, "checksums": checksums}))
            readings.append(Reading(listing, half, (f"{HINTED}read",), readers=4))
        beside = replace(
            readings[1], count=self._amounts.beside_count, passes=("paced",), readers=1, seed="2"
        )
        with build.mounted(self._large.pack, self._place):
            page_cache.forget(self._large.pack)
            batch = subprocess.Popen(
                readings[0].command(self._place),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=_environment(build),
                start_new_session=True,
            )
            try:
                found = beside.run(build, self._place)
                batch.wait(TIMEOUT_S)
            finally:
                batch.kill()
                batch.wait()
        return float(found["busy_seconds"])

    def _walk(self, build: Build) -> float:
        with build.mounted(self._small.pack, self._place):
            _fill(self._small.pack)
            return walk.seconds(self._place, self._amounts.small_count)

    def _stream(self, build: Build, *, cold: bool) -> float:
        with build.mounted(self._huge.pack, self._place):
            (page_cache.forget if cold else _fill)(self._huge.pack)
            file = self._place / self._huge.source.names[0]
            found = measure.run_python(["-m", "benchmarks.streamer", file], TIMEOUT_S)
        return float(found["seconds"])

    def _read_examples(self, build: Build) -> float:
        with build.mounted(self._examples, self._place):
            _fill(self._examples)
            reading = Reading(self._pictures, self._amounts.example_count)
            return float(reading.run(build, self._place)["seconds"][-1])

    def _memory(self, build: Build) -> float:
        with build.mounted(self._small.pack, self._place) as mount:
            page_cache.forget(self._small.pack)
            Reading(self._small.listing, self._amounts.small_count, readers=2).run(
                build, self._place
            )
            return float(memory.resident_bytes(mount.daemon or 0))


def _fill(pack: Path) -> None:
    page_cache.fill([pack])


def _environment(build: Build) -> dict[str, str]:
    return {**os.environ, packers.PROGRAM_VARIABLE: str(build.program)}


def _compare(
    row: str, trial: Callable[[Build], float], builds: dict[str, Build], rounds: int
) -> str:
    for build in builds.values():  # a round that does not count
        trial(build)
    samples = measure.interleave(
        {name: partial(trial, build) for name, build in builds.items()}, rounds
    )
    ratio = measure.median_ratio(samples["this"], samples["other"])
    ratios = [a / b for a, b in zip(samples["this"], samples["other"], strict=True)]
    factor, unit = (1e-6, "MB") if row.startswith("memory") else (1e3, "ms")
    other, this = (statistics.median(samples[name]) * factor for name in ("other", "this"))
    return (
        f"{row:30} {other:9.1f} {unit} {this:9.1f} {unit} {ratio:8.3f}   "
        f"{min(ratios):.2f} to {max(ratios):.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout in which `make build` has run")
    parser.add_argument("--dir", type=Path, default=CHECKOUT / "build" / "bench")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--only", default="", help="rows with this word in their name")
    args = parser.parse_args()
    args.dir = args.dir.resolve()  # the form in the mount table
    args.dir.mkdir(parents=True, exist_ok=True)
    builds = {
        "other": Build(args.other.resolve() / ".venv" / "bin" / "ffrfs"),
        "this": Build(CHECKOUT / ".venv" / "bin" / "ffrfs"),
    }
    with tempfile.TemporaryDirectory(prefix="against-", dir=args.dir) as name:
        print(f"{'':30} {'other':>12} {'this':>12} {'ratio':>8}   in the rounds", flush=True)
        for row, trial in Trials(Path(name), QUICK if args.quick else Amounts()).rows().items():
            if args.only in row:
                print(_compare(row, trial, builds, args.rounds), flush=True)


if __name__ == "__main__":
    main()
