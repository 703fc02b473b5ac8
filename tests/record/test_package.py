"""The package's front: the reference's names, and nothing loaded before it is used."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import ffrfs as ffrecord
from ffrfs.errors import FfrfsError
from tests.checkout import CHECKOUT


@pytest.mark.parametrize("name", ffrecord.__all__)
def test_every_name_is_there(name: str) -> None:
    value = getattr(ffrecord, name)
    assert getattr(ffrecord, name) is value
    assert name in dir(ffrecord)


def test_names_of_the_reference() -> None:
    reference = {"FileReader", "FileWriter", "PackedFolder", "checkFsAlign", "dump", "pack_folder"}
    assert reference <= set(ffrecord.__all__)
    assert ffrecord.errors.FfrfsError is FfrfsError


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ffrecord.nonsense


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert ffrecord.__version__ == project["version"]


def test_direct_reads_are_not_aligned_by_ordinary_file_systems(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with (tmp_path / "x").open("rb") as file:
        assert ffrecord.checkFsAlign(file.fileno()) is False
    assert ffrecord.checkFsAlign(-1) is False
