"""Opening a packed folder of a million files: time and memory of a fresh process.

python -m benchmarks.opening          what the interpreter and the import take
python -m benchmarks.opening PACK     what opening PACK takes
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.figure import Findings
    from benchmarks.plan import Plan

PROGRAM = ["-m", "benchmarks.opening"]
TIMEOUT_S = 120


def run(plan: Plan) -> Findings:
    """Measure a page-cached pack in the reference's format, whose index is a pickle."""
    from benchmarks import data, measure, page_cache
    from benchmarks.figure import Figure, Findings

    pack = plan.folder / "million.ffr"
    data.write_reference_pack(pack, plan.opened_count)
    try:
        page_cache.fill([pack])
        samples = measure.interleave(
            {
                "import": lambda: measure.run_python(PROGRAM, TIMEOUT_S),
                "open": lambda: measure.run_python([*PROGRAM, pack], TIMEOUT_S),
            },
            plan.rounds,
        )
    finally:
        pack.unlink()
    for opened in samples["open"]:
        if opened["count"] != plan.opened_count or opened["last"] != plan.opened_count - 1:
            raise RuntimeError("the pack was not read as it was written")
    open_s = [opened["open_s"] for opened in samples["open"]]
    peak_mb = [opened["peak_mb"] for opened in samples["open"]]
    import_mb = [imported["peak_mb"] for imported in samples["import"]]
    name = f"PackedFolder of {plan.opened_count} files"
    figures = [
        Figure(
            f"{name}, opening",
            statistics.median(open_s),
            "s",
            at_most=1.5,
            samples={"open_s": open_s},
        ),
        Figure(
            f"{name}, peak memory",
            statistics.median(peak_mb),
            "MB",
            at_most=300,
            note=f"of which interpreter and import: {statistics.median(import_mb):.0f} MB",
            samples={"peak_mb": peak_mb, "import_mb": import_mb},
        ),
    ]
    return Findings(figures)


def peak_mb() -> float:
    """Return this program's peak resident memory; ru_maxrss would include that before exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("/proc/self/status has no VmHWM")


def main(*packs: str) -> None:
    from ffrfs import PackedFolder

    found: dict[str, float] = {}
    for pack in packs:
        start = time.perf_counter()
        folder = PackedFolder(pack)
        found["open_s"] = time.perf_counter() - start
        found["peak_mb"] = peak_mb()
        found["count"] = folder.num_files()
        deepest = folder.list()[-1]
        last = folder.list(deepest)[-1]
        found["last"] = int.from_bytes(folder.read_one(f"{deepest}/{last}").tobytes(), "little")
    print(json.dumps({"peak_mb": peak_mb()} | found))


if __name__ == "__main__":
    main(*sys.argv[1:])
