"""What tests of this room pack, and to where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folder.folder_model import make_folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where a pack will be; nothing else is beside it."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "x.ffr"


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The module's TREE."""
    return make_folder(tmp_path / "folder", request.module.TREE)
