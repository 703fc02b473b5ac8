"""ffrecord, the library that FFRecord files come from, in a directory that later runs find again.

The directory is for the interpreter that runs the benchmarks. Only the programs that measure
ffrecord have it on their path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import measure
from benchmarks.contenders import NATIVE

LIBRARY, ORIGINAL = NATIVE, "ffrecord"
FOLDER = Path(__file__).resolve().parent.parent / "build" / "ffrecord"
# This variable names another source for pip: a directory, an archive, a URL.
VARIABLE = "FFRFS_BENCHMARKS_FFRECORD"
REQUIREMENT = "ffrecord==1.4.*"
TIMEOUT_S = 600


def install() -> None:
    """Install it unless it is there. Raises RuntimeError, whose text says how to install it."""
    if (FOLDER / ORIGINAL).exists():
        return
    # Its build uses pybind11 and CMake from the environment that built ffrfs.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    try:
        source = os.environ.get(VARIABLE, REQUIREMENT)
        measure.run([*pip, "--target", FOLDER, source], TIMEOUT_S, env=os.environ | {"PATH": path})
    except (RuntimeError, subprocess.TimeoutExpired):
        shutil.rmtree(FOLDER, ignore_errors=True)  # half an install is useless
        raise RuntimeError(f"ffrecord: {_how()}") from None


def why_missing() -> str:
    """Return why ffrecord cannot take part; "" if it can."""
    if not (FOLDER / ORIGINAL).exists():
        return _how()
    try:
        measure.run([sys.executable, "-c", f"import {ORIGINAL}"], TIMEOUT_S, env=environment())
    except RuntimeError as error:
        return str(error).strip().splitlines()[-1]
    return ""


def environment() -> dict[str, str]:
    """Return the environment for a program that imports ffrecord."""
    return os.environ | {"PYTHONPATH": str(FOLDER)}


def _how() -> str:
    return (
        f"pip found no {REQUIREMENT}; {VARIABLE}=DIR names its source, "
        "https://github.com/HFAiLab/ffrecord, which needs libaio and zlib to build"
    )
