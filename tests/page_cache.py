"""The page cache, as tests need it: without a file's pages."""

from __future__ import annotations

import os
from pathlib import Path


def forget_pages(path: Path) -> None:
    """Make the next read wait for the disk."""
    with path.open("rb") as file:
        os.fdatasync(file.fileno())  # dirty pages stay otherwise
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
