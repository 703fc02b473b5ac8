"""What tests of this room pack to."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where a pack will be; nothing else is beside it."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "x.ffr"
