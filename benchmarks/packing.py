"""pack_folder beside tar."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

from benchmarks import data, measure
from benchmarks.plan import Plan
from benchmarks.report import Figure
from ffrfs import FileReader, pack_folder

TIMEOUT_S = 600


def run(plan: Plan) -> list[Figure]:
    """Time until the packed file is on the disk; the source is page-cached."""
    root = plan.folder / "to-pack"
    source = data.write_folder(root, plan.packed_count, plan.large_size)
    try:
        return _measure(plan, source)
    finally:
        shutil.rmtree(root)


def _measure(plan: Plan, source: data.Folder) -> list[Figure]:
    tar, pack = plan.folder / "out.tar", plan.folder / "out.ffr"

    def tar_and_sync() -> None:
        measure.run(["tar", "cf", tar, "-C", source.root, "."], TIMEOUT_S)
        measure.run(["sync", tar], TIMEOUT_S)

    def timed(write: Callable[[], object], output: Path) -> float:
        measure.cache_pages(source.root / name for name in source.names)
        os.sync()  # what others have left to be written is not ours to pay for
        try:
            return measure.seconds(write)
        finally:
            output.unlink(missing_ok=True)

    def pack_once() -> None:
        pack_folder(source.root, pack)

    pack_once()
    _check(pack, source)
    samples = measure.interleave(
        {
            "ffrfs": lambda: timed(pack_once, pack),
            "tar": lambda: timed(tar_and_sync, tar),
        },
        plan.rounds,
    )
    return [
        Figure(
            f"pack_folder of {plan.packed_count} files vs. tar cf + sync",
            measure.median_ratio(samples["ffrfs"], samples["tar"]),
            "x",
            at_most=1.3,
            note="{:.2f} and {:.2f} s".format(*map(statistics.median, samples.values())),
            samples={f"{name}_s": values for name, values in samples.items()},
        )
    ]


def _check(pack: Path, source: data.Folder) -> None:
    """The reference's order is that of the names, so record i is file i; the index is last."""
    with FileReader(pack) as reader:
        reader.validate()
        if reader.get_checksums(0).tolist()[:-1] != source.checksums:
            raise RuntimeError("the pack does not hold what the folder holds")
