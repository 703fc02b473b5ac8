"""Runs this Python in another process, for what a test cannot do in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

TIMEOUT_S = 60


def python(*words: str | os.PathLike[str], **how: Any) -> subprocess.CompletedProcess[Any]:
    """Run Python. Its output is text and it may fail, unless `how` (for subprocess) differs."""
    how = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False} | how
    return subprocess.run([sys.executable, *map(os.fspath, words)], **how)  # noqa: PLW1510
