"""The files that the original programs wrote: tests/golden, with the large ones unpacked."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

_PACKED = Path(__file__).parent / "golden"


def write_golden_files(folder: Path) -> None:
    """Write them into a new folder. native/CMakeLists.txt does the same for native tests."""
    shutil.copytree(_PACKED, folder)
    with tarfile.open(_PACKED / "packed.tar.xz") as archive:
        archive.extractall(folder)
