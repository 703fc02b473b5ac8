"""find(1) over all files of a tree, with an attribute of each."""

from __future__ import annotations

from pathlib import Path

from benchmarks import measure

TIMEOUT_S = 900


def seconds(root: Path, count: int) -> float:
    """Return the time. Raises RuntimeError unless find(1) sees `count` files, none empty."""
    found = ""

    def find() -> None:
        nonlocal found
        tests = ["-type", "f", "-size", "+0", "-printf", "."]
        found = measure.run(["find", root, *tests], TIMEOUT_S)

    elapsed_s = measure.seconds(find)
    if len(found) != count:
        raise RuntimeError(f"find saw {len(found)} files of {count} in {root}")
    return elapsed_s
