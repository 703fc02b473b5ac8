"""Fixtures of this room: packs that its tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folder.folder_model import packed


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A pack of the module's TREE."""
    path = tmp_path / "x.ffr"
    path.write_bytes(packed(request.module.TREE))
    return path
