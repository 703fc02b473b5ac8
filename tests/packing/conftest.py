"""Fixtures: a folder to pack, and the path of its pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.folder.folder_model import make_folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The path of a pack to be made; its directory is empty."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "x.ffr"


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the module's TREE."""
    return make_folder(tmp_path / "folder", request.module.TREE)
