"""Fixtures of the command's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_run import TREE
from tests.ffrecord_file import write_folder


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "x.ffr", TREE)
