"""Programs that tests need, and that may be missing."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(program: str, package: str) -> str:
    """Its path; else the test skips, or fails where all that the tests need must be there
    (FFRFS_REQUIRE_FUSE).
    """
    path = shutil.which(program)
    if path is not None:
        return path
    reason = f"there is no {program} here (apt-get install {package})"
    if os.environ.get("FFRFS_REQUIRE_FUSE"):
        pytest.fail(f"FFRFS_REQUIRE_FUSE is set, but {reason}", pytrace=False)
    pytest.skip(reason)
