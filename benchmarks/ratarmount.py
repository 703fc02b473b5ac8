"""ratarmount from PyPI, in a virtual environment of its own that later runs find again."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import measure

FOLDER = Path(__file__).resolve().parent.parent / "build" / "ratarmount"
PROGRAM = FOLDER / "bin" / "ratarmount"
REQUIREMENT = "ratarmount==1.3.*"
TIMEOUT_S = 600


def install() -> None:
    """Install it unless it is complete: pip writes PROGRAM last."""
    if not PROGRAM.exists():
        measure.run([sys.executable, "-m", "venv", "--clear", FOLDER], TIMEOUT_S)
        pip = [FOLDER / "bin" / "python", "-m", "pip", "install", "--quiet"]
        measure.run([*pip, REQUIREMENT], TIMEOUT_S)


def index_of(tar: Path) -> Path:
    return tar.with_suffix(".index.sqlite")


def write_index(tar: Path) -> None:
    """Do what the first mount of the tar would do: read all of it and note where each file is."""
    measure.run([PROGRAM, "--no-mount", "--index-file", index_of(tar), tar], TIMEOUT_S)
