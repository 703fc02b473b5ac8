"""What was measured: a table for people, JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.plan import Plan


@dataclass(frozen=True)
class Figure:
    """One number beside its target; `value` None says, with `note`, why there is none."""

    name: str
    value: float | None
    unit: str  # "x" for a ratio
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """None: there is no target, or nothing was measured."""
        if self.value is None or (self.at_least is None and self.at_most is None):
            return None
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g} {self.unit}"
        return "" if self.at_most is None else f"≤ {self.at_most:g} {self.unit}"


def table(parts: dict[str, list[Figure]]) -> str:
    rows = [("", "measured", "target", "", "")]
    for part, figures in parts.items():
        rows.append((part, "", "", "", ""))
        for figure in figures:
            value = "-" if figure.value is None else f"{figure.value:.4g} {figure.unit}"
            verdict = {None: "", True: "reached", False: "MISSED"}[figure.reached]
            rows.append((f"  {figure.name}", value, figure.target, verdict, figure.note))
    return "\n".join(_aligned(rows))


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left, *middle = widths
    return [
        "  ".join([row[0].ljust(left), *map(str.rjust, row[1:4], middle[:3]), row[4]]).rstrip()
        for row in rows
    ]


def as_json(parts: dict[str, list[Figure]], plan: Plan) -> str:
    document = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "file_system": file_system(plan.folder),
        },
        "plan": {key: value for key, value in asdict(plan).items() if key != "folder"},
        "parts": {
            part: [{**asdict(figure), "reached": figure.reached} for figure in figures]
            for part, figures in parts.items()
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def file_system(folder: Path) -> str:
    """The type of the file system that `folder` is on: "ext4", "tmpfs"."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == wanted:
            found = source.split()[0]
    return found
