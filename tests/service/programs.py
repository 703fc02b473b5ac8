"""Programs that tests need, and that may be missing."""

from __future__ import annotations

import shutil

import pytest


def needed(program: str, package: str) -> str:
    """Return the path of the program; skip the test without it."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"there is no {program} here (apt-get install {package})")
    return path
